//! A set of workers of one shape.

mod containers;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, LocalObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use containers::*;

use super::slurm_cluster::max_unavailable;
use super::{Placement, SssdSettings};
use crate::common::JobCare;
use crate::crd::cel::{COUNT_OR_PERCENT, ORDINAL_PADDING, SET_NAME, rule};

/// What the workers are, and how they change.
#[derive(Clone, Debug, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "slurm.nebius.ai",
    version = "v1alpha1",
    kind = "NodeSet",
    plural = "nodesets",
    namespaced,
    schema = "manual",
    status = "NodeSetStatus",
    derive = "PartialEq",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.labelSelector"
    ),
    printcolumn(
        name = "Status",
        type_ = "string",
        json_path = ".status.phase",
        description = "What the set is doing"
    ),
    printcolumn(
        name = "Desired",
        type_ = "integer",
        json_path = ".spec.replicas",
        description = "Workers that should exist"
    ),
    printcolumn(
        name = "Ready",
        type_ = "integer",
        json_path = ".status.replicas",
        description = "Workers that are ready"
    ),
    printcolumn(
        name = "Ephemeral",
        type_ = "boolean",
        json_path = ".spec.ephemeralNodes",
        priority = 1,
        description = "Whether workers come and go with the jobs"
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    // On the spec, so that it can be added, and then not be removed.
    rule(
        "!has(oldSelf.clusterName) || (has(self.clusterName) && self.clusterName == oldSelf.clusterName)",
        "spec.clusterName cannot be changed; make a new NodeSet for the other cluster",
    ).at(".clusterName"),
    ORDINAL_PADDING,
]))]
pub struct NodeSetSpec {
    /// Name of the SlurmCluster, in the same namespace, that the workers join. Absent means the one in the annotation
    /// `slurm.nebius.ai/parental-cluster-ref`, or else the only one in the namespace. It cannot be changed.
    #[schemars(length(min = 1, max = 253))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_name: Option<String>,
    /// How many workers there should be.
    #[schemars(range(min = 0))]
    #[serde(default = "one")]
    pub replicas: i32,
    /// How many workers may be away because of an update: a number or a percentage.
    #[schemars(
        extend("maxLength" = 16),
        extend("x-kubernetes-validations" = [COUNT_OR_PERCENT])
    )]
    #[serde(default = "max_unavailable")]
    pub max_unavailable: IntOrString,
    /// How workers change when this spec does. `rollingUpdate` and `slurmAwareRollingUpdate` both drain a worker, wait for
    /// its jobs and then replace it. `onDelete` replaces a worker after somebody deleted its pod. `inPlaceIfPossible`
    /// changes images inside the running pod where that is all that changed. Absent means rollingUpdate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_strategy: Option<NodeSetUpdateStrategy>,
    /// Only workers whose ordinal is at least this change. Absent means all.
    #[schemars(range(min = 0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_partition: Option<i32>,
    /// Stops an update where it is, until it is false or gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_paused: Option<bool>,
    /// What both groups' node sets have.
    #[serde(flatten)]
    pub care: JobCare,
    /// Accepted as later versions of Soperator have it, not supported: all workers stay, and a condition says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ephemeral_nodes: Option<bool>,
    /// Belongs to ephemeralNodes; not supported.
    #[schemars(range(min = 0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_number_ephemeral_nodes: Option<i32>,
    /// Belongs to ephemeralNodes; not supported.
    #[schemars(range(min = 60))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ephemeral_topology_wait_timeout: Option<i32>,
    /// A worker waits a random time of at most so many seconds before it starts. Absent means 0.
    #[schemars(range(min = 0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker_init_random_delay_seconds: Option<i32>,
    /// Whether workers use the users of the host. False gives them a user namespace of their own.
    #[serde(default)]
    pub enable_host_user_namespace: bool,
    /// The container of slurmd.
    pub slurmd: SlurmdContainer,
    /// The container of munge, which authenticates the daemons to each other.
    pub munge: MungeContainer,
    /// The SSSD sidecar, which gives workers the users of a directory. Absent means none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sssd: Option<SidecarContainer>,
    /// What SSSD reads.
    #[serde(flatten)]
    pub sssd_settings: SssdSettings,
    /// Accepted as later versions of Soperator have it, not supported: a condition says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub docker: Option<DockerSettings>,
    /// Where the workers are in the network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology: Option<NodeSetTopology>,
    /// What Slurm is told about the nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_config: Option<NodeConfig>,
    /// GPUs of the workers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu: Option<GpuSettings>,
    /// ConfigMap with supervisord.conf. Absent means our own.
    #[schemars(length(max = 253))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_map_ref_supervisord: Option<String>,
    /// ConfigMap with sshd_config. Absent means our own.
    #[schemars(length(max = 253))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_map_ref_sshd: Option<String>,
    /// Which nodes the pods run on.
    #[serde(flatten)]
    pub placement: Placement,
    /// Priority class of the pods.
    #[schemars(length(max = 253))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority_class: Option<String>,
    /// Annotations of the pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker_annotations: Option<BTreeMap<String, String>>,
    /// Secrets with credentials for the registries of the images.
    #[schemars(
        length(max = 64),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_pull_secrets: Option<Vec<LocalObjectReference>>,
    /// Init containers that run after ours.
    #[schemars(
        length(max = 64),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custom_init_containers: Option<Vec<Container>>,
}

const fn one() -> i32 {
    1
}

/// How workers change when the spec does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum NodeSetUpdateStrategy {
    /// Drain, wait for jobs, replace.
    RollingUpdate,
    /// The same.
    SlurmAwareRollingUpdate,
    /// Replace a worker after somebody deleted its pod.
    OnDelete,
    /// Change images in the running pod where that is all that changed.
    InPlaceIfPossible,
}

/// The Docker proxy beside slurmd.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DockerSettings {
    /// Whether it runs; not supported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

/// Where the workers are in the network.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeSetTopology {
    /// Name of the top switch of the workers' network. Absent means `root`.
    #[schemars(length(max = 253))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fabric: Option<String>,
}

/// What Slurm is told about the nodes. CPUs and memory come from slurmd.resources.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeConfig {
    /// Features that jobs can ask for with `--constraint`.
    #[schemars(length(max = 256), inner(length(max = 253)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub features: Option<Vec<String>>,
    /// More settings for the NodeName line, as slurm.conf has them: `Sockets=2 CoresPerSocket=32`.
    #[schemars(rename = "static", length(max = 4096))]
    #[serde(rename = "static")]
    pub static_: String,
    /// Text for the `Extra` field of the Slurm nodes. It may use environment variables of the slurmd container.
    #[schemars(length(max = 4096))]
    pub dynamic: String,
    /// Lines for gres.conf, each about all nodes of the set, without `NodeName`.
    #[schemars(length(max = 256), inner(length(max = 4096)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gres_config: Option<Vec<String>>,
    /// Whether a node that was down comes back by itself. Absent means yes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_resume: Option<bool>,
}

/// GPUs of the workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GpuSettings {
    /// Whether the workers have GPUs.
    #[serde(default)]
    pub enabled: bool,
    /// Settings for NVIDIA's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nvidia: Option<NvidiaSettings>,
}

/// Settings for NVIDIA GPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NvidiaSettings {
    /// Whether GDRCopy is passed into the workers. The GPU operator must have it on too.
    #[serde(default)]
    pub gdr_copy_enabled: bool,
}

/// What the operator sees of the set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeSetStatus {
    /// What is known about the set, one entry per aspect.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
    /// `Pending`, `Configuring`, `Provisioning`, `Ready`, `Degraded` or `Terminating`.
    #[serde(default = "pending")]
    pub phase: String,
    /// Workers that are ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Selector of the workers' pods as text, for the scale subresource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<String>,
    /// The generation of the spec that this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

fn pending() -> String {
    node_set_phase::PENDING.into()
}

impl Default for NodeSetStatus {
    fn default() -> Self {
        Self {
            conditions: None,
            phase: pending(),
            replicas: None,
            label_selector: None,
            observed_generation: None,
        }
    }
}

/// Values of [`NodeSetStatus::phase`].
pub mod node_set_phase {
    /// Nothing happened yet, or the cluster is missing.
    pub const PENDING: &str = "Pending";
    /// Slurm is being told about the nodes.
    pub const CONFIGURING: &str = "Configuring";
    /// Pods are being made.
    pub const PROVISIONING: &str = "Provisioning";
    /// All workers are ready.
    pub const READY: &str = "Ready";
    /// Something does not work.
    pub const DEGRADED: &str = "Degraded";
    /// The set is being deleted, or is in maintenance.
    pub const TERMINATING: &str = "Terminating";
}

/// Types of the conditions of a set.
pub mod node_set_condition {
    /// Slurm knows the nodes as the spec has them.
    pub const CONFIG_UPDATED: &str = "ConfigUpdated";
    /// Slurm knows what only the running workers can tell.
    pub const CONFIG_DYNAMIC_UPDATED: &str = "ConfigDynamicUpdated";
    /// All pods are as the spec has them.
    pub const STATEFUL_SET_UPDATED: &str = "StatefulSetUpdated";
    /// All pods are ready.
    pub const PODS_READY: &str = "PodsReady";
    /// All pods are gone.
    pub const STATEFUL_SET_TERMINATED: &str = "StatefulSetTerminated";
}

crate::crd::root_schema!(
    NodeSet,
    NodeSetSpec,
    NodeSetStatus,
    "A set of Slurm workers of one shape. Workers with running jobs are drained before they go.",
    [SET_NAME]
);
