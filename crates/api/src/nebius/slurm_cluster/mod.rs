//! A whole Slurm cluster.

mod accounting;
mod config;
mod controller;
mod exporter;
mod jail;
mod login;
mod partitions;
mod plug_stack;
mod rest;
mod sconfig_controller;
mod shared;
mod slurmdbd;
mod worker;

use k8s_openapi::api::core::v1::{LocalObjectReference, Volume};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use accounting::*;
pub use config::*;
pub use controller::*;
pub use exporter::*;
pub use jail::*;
pub use login::*;
pub use partitions::*;
pub use plug_stack::*;
pub use rest::*;
pub use sconfig_controller::*;
pub use shared::*;
pub use slurmdbd::*;
pub use worker::*;

use super::Placement;
use crate::crd::cel::{CLUSTER_NAME, rule};

/// Everything that makes up the cluster.
#[derive(Clone, Debug, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "slurm.nebius.ai",
    version = "v1",
    kind = "SlurmCluster",
    plural = "slurmclusters",
    namespaced,
    schema = "manual",
    status = "SlurmClusterStatus",
    derive = "PartialEq",
    printcolumn(
        name = "Status",
        type_ = "string",
        json_path = ".status.phase",
        description = "What the cluster is doing"
    ),
    printcolumn(
        name = "Controllers",
        type_ = "string",
        json_path = ".status.conditions[?(@.type == 'ControllersAvailable')].status",
        description = "Whether slurmctld is available"
    ),
    printcolumn(
        name = "Workers",
        type_ = "integer",
        json_path = ".status.readyWorkers",
        description = "Ready workers"
    ),
    printcolumn(
        name = "Login",
        type_ = "integer",
        json_path = ".status.readyLogin",
        description = "Ready login pods"
    ),
    printcolumn(
        name = "SConfigCtrl",
        type_ = "string",
        json_path = ".status.conditions[?(@.type == 'SConfigControllerAvailable')].status",
        description = "Whether the writer of configuration files is available"
    ),
    printcolumn(
        name = "Accounting",
        type_ = "string",
        json_path = ".status.conditions[?(@.type == 'AccountingAvailable')].status",
        description = "Whether slurmdbd is available"
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    rule(
        "!has(self.slurmNodes.worker) || !has(self.slurmNodes.worker.size) || self.slurmNodes.worker.size == 0 || \
         !has(self.partitionConfiguration) || !has(self.partitionConfiguration.partitions) || \
         !self.partitionConfiguration.partitions.exists(p, has(p.nodeSetRefs) && size(p.nodeSetRefs) > 0)",
        "spec.slurmNodes.worker.size must be 0 when a partition has nodeSetRefs; move these workers to a NodeSet",
    ).at(".slurmNodes.worker.size"),
]))]
pub struct SlurmClusterSpec {
    /// The version of the operator that this object was written for. It informs only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cr_version: Option<String>,
    /// Whether the workers of slurmNodes.worker have GPUs.
    #[serde(default)]
    pub cluster_type: ClusterType,
    /// Stops parts of the cluster for maintenance. `downscale` stops all pods; the two modes with `PopulateJail` in their
    /// name stop them and then delete the Job that fills the jail, or run it again over what is there;
    /// `skipPopulateJail` leaves the pods alone and never runs that Job.
    #[serde(default)]
    pub maintenance: Maintenance,
    /// The Job that fills the jail, the root file system that users see.
    pub populate_jail: PopulateJail,
    /// Sets of rules for which Kubernetes nodes pods may run on. Other fields refer to them by name.
    #[schemars(
        length(min = 1, max = 64),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub k8s_node_filters: Vec<K8sNodeFilter>,
    /// Volumes that other fields refer to by name. The one named `jail` is the shared root file system.
    #[schemars(
        length(max = 256),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_sources: Option<Vec<Volume>>,
    /// Secrets that the cluster uses.
    pub secrets: Secrets,
    /// Secrets with credentials for the registries of all images of the cluster.
    #[schemars(
        length(max = 64),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_pull_secrets: Option<Vec<LocalObjectReference>>,
    /// The partitions of the cluster.
    #[serde(default)]
    pub partition_configuration: PartitionConfiguration,
    /// Settings for slurm.conf.
    #[serde(default)]
    pub slurm_config: SlurmConfig,
    /// Text that slurm.conf includes at its end, so that it overrides what the operator writes.
    #[schemars(length(max = 524_288))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custom_slurm_config: Option<String>,
    /// Lines for cgroup.conf. A key in here replaces the one that the operator writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custom_cgroup_config: Option<String>,
    /// The cgroup version of all Kubernetes nodes. Absent means that of slurmNodes.worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup_version: Option<CgroupVersion>,
    /// Settings of the network topology.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology: Option<TopologySettings>,
    /// Settings for mpi.conf.
    #[serde(default)]
    pub mpi_config: MpiConfig,
    /// SPANK plugins, written to plugstack.conf.
    #[serde(default)]
    pub plug_stack_config: PlugStackConfig,
    /// The program that writes configuration files into the jail.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub s_config_controller: Option<SConfigController>,
    /// Whether login and worker pods run under an AppArmor profile that keeps users from changing NVIDIA files. It needs
    /// the security profiles operator.
    #[serde(default)]
    pub use_default_app_armor_profile: bool,
    /// Slurm features of the workers of slurmNodes.worker.
    #[schemars(length(max = 256))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker_features: Option<Vec<WorkerFeature>>,
    /// The program that Slurm runs on its nodes to see whether they are healthy. Absent means none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health_check_config: Option<HealthCheckConfig>,
    /// The parts of the cluster.
    pub slurm_nodes: SlurmNodes,
}

/// Whether workers have GPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ClusterType {
    /// Workers have GPUs.
    #[default]
    Gpu,
    /// Workers have none.
    Cpu,
}

/// What is stopped for maintenance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Maintenance {
    /// Nothing.
    #[default]
    None,
    /// All pods.
    Downscale,
    /// All pods; the populate-jail Job is deleted.
    DownscaleAndDeletePopulateJail,
    /// All pods; the jail is filled again over what is there.
    DownscaleAndOverwritePopulateJail,
    /// Nothing, but the populate-jail Job never runs.
    SkipPopulateJail,
}

/// Version of the control group file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum CgroupVersion {
    /// One hierarchy per controller.
    V1,
    /// One hierarchy for all.
    #[default]
    V2,
}

/// Which Kubernetes nodes pods may run on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct K8sNodeFilter {
    /// The name that k8sNodeFilterName refers to.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The rules.
    #[serde(flatten)]
    pub placement: Placement,
}

/// Secrets that the cluster uses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Secrets {
    /// Secret with the SSH host keys of login and worker pods. Absent means `<cluster>-sshd-keys`, which the operator makes.
    #[schemars(length(max = 253))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sshd_keys_name: Option<String>,
}

/// The parts of the cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SlurmNodes {
    /// slurmdbd and its database.
    pub accounting: SlurmNodeAccounting,
    /// slurmctld.
    pub controller: SlurmNodeController,
    /// Workers, all alike. NodeSets are the better way: they allow several groups. The operator makes a NodeSet
    /// `<cluster>-worker` of this section.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<SlurmNodeWorker>,
    /// The pods that users log in to.
    pub login: SlurmNodeLogin,
    /// The exporter of Slurm metrics for Prometheus.
    pub exporter: SlurmExporter,
    /// slurmrestd for users.
    pub rest: SlurmRest,
}

/// What the operator sees of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SlurmClusterStatus {
    /// What is known about the cluster, one entry per aspect.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
    /// `Reconciling`, `Pending`, `Not available`, `Available` or `Terminating`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Workers that are ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_workers: Option<i32>,
    /// Login pods that are ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_login: Option<i32>,
    /// Pods of the writer of configuration files that are ready.
    #[serde(rename = "readySConfigController", skip_serializing_if = "Option::is_none")]
    pub ready_s_config_controller: Option<i32>,
    /// Which configuration slurmctld runs with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub configuration: Option<ConfigurationStatus>,
    /// The generation of the spec that this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// What slurmctld made of the sets of configuration files that it was given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigurationStatus {
    /// The hash of the set that it runs with, as of the last look.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_use: Option<String>,
    /// The hash of the set that it was given last, if it refused that one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// Why, in Slurm's own words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Values of [`SlurmClusterStatus::phase`].
pub mod phase {
    /// Something is being changed.
    pub const RECONCILING: &str = "Reconciling";
    /// Something that the cluster needs is not there yet.
    pub const PENDING: &str = "Pending";
    /// Some part does not work.
    pub const NOT_AVAILABLE: &str = "Not available";
    /// All parts work.
    pub const AVAILABLE: &str = "Available";
    /// It is being deleted, and waits for its workers.
    pub const TERMINATING: &str = "Terminating";
}

/// Types of the conditions of a cluster.
pub mod condition {
    /// Objects that all parts use.
    pub const COMMON_AVAILABLE: &str = "CommonAvailable";
    /// slurmctld.
    pub const CONTROLLERS_AVAILABLE: &str = "ControllersAvailable";
    /// Workers.
    pub const WORKERS_AVAILABLE: &str = "WorkersAvailable";
    /// Login pods.
    pub const LOGIN_AVAILABLE: &str = "LoginAvailable";
    /// slurmdbd.
    pub const ACCOUNTING_AVAILABLE: &str = "AccountingAvailable";
    /// The writer of configuration files.
    pub const S_CONFIG_CONTROLLER_AVAILABLE: &str = "SConfigControllerAvailable";
    /// The maintenance mode of the jail, as its reason.
    pub const POPULATE_JAIL_MODE: &str = "PopulateJailMode";
    /// Whether every NodeSet that a partition names exists.
    pub const NODE_SET_REFS_RESOLVED: &str = "NodeSetRefsResolved";
}

crate::crd::root_schema!(
    SlurmCluster,
    SlurmClusterSpec,
    SlurmClusterStatus,
    "A Slurm cluster: slurmctld, login pods, workers, and optionally accounting, a REST API and an exporter.",
    [CLUSTER_NAME]
);
