//! Shapes that several parts of a cluster share.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, EnvVar, PersistentVolumeClaimSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::PullPolicy;
use crate::crd::cel::{Rule, rule};
use crate::nebius::{Probes, SssdSettings, unconfined};

/// What the pods of all parts have.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SlurmNode {
    /// How many pods there are.
    #[schemars(range(min = 0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<i32>,
    /// What does not depend on their number.
    #[serde(flatten)]
    pub pod: NodePod,
    /// Whether pods use the host's users. False gives them a user namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_users: Option<bool>,
}

/// What each pod of the cluster has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodePod {
    /// Init containers that run after ours.
    #[schemars(
        length(max = 64),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custom_init_containers: Option<Vec<Container>>,
    /// The entry of k8sNodeFilters that says where pods may run.
    #[schemars(length(max = 253))]
    pub k8s_node_filter_name: String,
    /// Priority class of the pods.
    #[schemars(length(max = 253))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority_class: Option<String>,
}

/// A container of the cluster. It is in the schema more than twenty times, so its descriptions are short.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeContainer {
    /// The image.
    #[schemars(length(max = 4096))]
    pub image: String,
    /// Replaces the command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    /// Replaces the arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args: Option<Vec<String>>,
    /// When the image is pulled.
    #[serde(default)]
    pub image_pull_policy: PullPolicy,
    /// The port; absent means Slurm's own.
    #[schemars(range(min = 0, max = 65_535))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<i32>,
    /// Requests; limits follow from them.
    #[schemars(extend("maxProperties" = 64))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<BTreeMap<String, Quantity>>,
    /// Text of limits.conf.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security_limits_config: Option<String>,
    /// AppArmor profile.
    #[serde(default = "unconfined")]
    #[schemars(length(max = 512))]
    pub app_armor_profile: String,
    /// More environment variables.
    #[schemars(
        length(max = 256),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custom_env: Option<Vec<EnvVar>>,
    /// Its probes.
    #[serde(flatten)]
    pub probes: Probes,
    /// `Default` masks parts of `/proc`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proc_mount: Option<ProcMount>,
}

/// How `/proc` is mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ProcMount {
    /// With parts of it masked.
    Default,
    /// As it is.
    Unmasked,
}

const ONE_VOLUME: Rule = rule(
    "has(self.volumeSourceName) != has(self.volumeClaimTemplateSpec)",
    "write exactly one of volumeSourceName and volumeClaimTemplateSpec",
);

/// A volume: one of spec.volumeSources, or a claim of its own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [ONE_VOLUME]))]
pub struct NodeVolume {
    /// The entry of spec.volumeSources.
    #[schemars(length(max = 253))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_source_name: Option<String>,
    /// A claim for each pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_claim_template_spec: Option<PersistentVolumeClaimSpec>,
}

/// A volume and where it is mounted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [ONE_VOLUME]))]
pub struct NodeVolumeMount {
    /// Name of the volume in the pod.
    #[schemars(length(max = 253))]
    pub name: String,
    /// Where it is mounted. For jailSubMounts this is a path inside the jail.
    #[schemars(length(max = 4096))]
    pub mount_path: String,
    /// The directory of the volume that is mounted. Empty means all of it.
    #[schemars(length(max = 4096))]
    #[serde(default)]
    pub sub_path: String,
    /// Whether it is mounted read-only.
    #[serde(default)]
    pub read_only: bool,
    /// The volume.
    #[serde(flatten)]
    pub volume: NodeVolume,
}

/// Volumes that pods with a jail mount besides it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JailMounts {
    /// Volumes mounted inside the jail.
    #[schemars(
        length(max = 128),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["mountPath"])
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jail_sub_mounts: Option<Vec<NodeVolumeMount>>,
    /// Volumes mounted outside the jail.
    #[schemars(
        length(max = 128),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["mountPath"])
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custom_mounts: Option<Vec<NodeVolumeMount>>,
}

/// The SSSD sidecar, which gives pods the users of a directory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Sssd {
    /// The SSSD sidecar, which gives pods the users of a directory. Absent means none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sssd: Option<NodeContainer>,
    /// What it reads.
    #[serde(flatten)]
    pub settings: SssdSettings,
}
