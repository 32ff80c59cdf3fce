//! The containers of a worker, and their volumes.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{EnvVar, PersistentVolumeClaimSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::{PullPolicy, RetentionPolicy, VolumeSource};
use crate::crd::cel::rule;
use crate::nebius::slurm_cluster::{CgroupVersion, ProcMount, shared_memory_size};
use crate::nebius::{Probes, unconfined};

/// A container image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Image {
    /// The name of the image, with its registry, without its tag.
    #[schemars(length(min = 1, max = 4096))]
    pub repository: String,
    /// The tag.
    #[schemars(length(max = 128))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// When the image is pulled.
    #[serde(default)]
    pub pull_policy: PullPolicy,
}

/// The container of slurmd.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SlurmdContainer {
    /// The image.
    pub image: Image,
    /// The resources that the container asks for and is limited to, such as `cpu`, `memory` and `nvidia.com/gpu`.
    #[schemars(extend("maxProperties" = 64))]
    pub resources: BTreeMap<String, Quantity>,
    /// The cgroup version of the Kubernetes nodes.
    #[serde(default)]
    pub cgroup_version: CgroupVersion,
    /// The volumes of the container.
    pub volumes: WorkerVolumes,
    /// The port of slurmd. Absent means 6818.
    #[schemars(range(min = 0, max = 65_535))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<i32>,
    /// Limits and profiles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security: Option<ContainerSecurity>,
    /// Environment variables that are added.
    #[schemars(
        length(max = 256),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custom_env: Option<Vec<EnvVar>>,
    /// Probes. Absent means no liveness probe, because slurmd restarts inside its container.
    #[serde(flatten)]
    pub probes: Probes,
}

/// The container of munge.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MungeContainer {
    /// The image.
    pub image: Image,
    /// The resources that the container asks for.
    #[schemars(extend("maxProperties" = 64))]
    pub resources: BTreeMap<String, Quantity>,
    /// Limits and profiles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security: Option<ContainerSecurity>,
    /// Its probes.
    #[serde(flatten)]
    pub probes: Probes,
}

/// A container beside slurmd.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SidecarContainer {
    /// The image.
    pub image: Image,
    /// The resources that the container asks for.
    #[schemars(extend("maxProperties" = 64))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<BTreeMap<String, Quantity>>,
    /// Limits and profiles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security: Option<ContainerSecurity>,
    /// Its probes.
    #[serde(flatten)]
    pub probes: Probes,
}

/// Limits and profiles of a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContainerSecurity {
    /// The whole of `/etc/security/limits.conf`. Absent means our own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits_config: Option<String>,
    /// AppArmor profile, such as `localhost/name`.
    #[schemars(length(max = 512))]
    #[serde(default = "unconfined")]
    pub app_armor_profile: String,
    /// How `/proc` is mounted: `Default` masks parts of it, `Unmasked` does not. Absent means Unmasked for slurmd.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proc_mount: Option<ProcMount>,
}

/// The volumes of slurmd.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkerVolumes {
    /// Where slurmd keeps its state.
    pub spool: VolumeSource,
    /// The jail, the root file system that users see.
    pub jail: VolumeSource,
    /// Volumes mounted inside the jail.
    #[schemars(
        length(max = 128),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["mountPath"])
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jail_sub_mounts: Option<Vec<WorkerVolumeMount>>,
    /// Volumes mounted outside the jail.
    #[schemars(
        length(max = 128),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["mountPath"])
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custom_volume_mounts: Option<Vec<WorkerVolumeMount>>,
    /// Size of `/dev/shm`.
    #[serde(default = "shared_memory_size")]
    pub shared_memory_size: Quantity,
    /// What becomes of the claims of workers. Absent means that they are deleted with the NodeSet and else stay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistent_volume_claim_retention_policy: Option<NodeSetClaimRetention>,
}

/// What becomes of claims when workers go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeSetClaimRetention {
    /// When the NodeSet is deleted. Absent means Delete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when_deleted: Option<RetentionPolicy>,
    /// When a worker goes because there are fewer replicas. Absent means Retain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when_scaled: Option<RetentionPolicy>,
}

/// A volume and where it is mounted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [rule(
    "has(self.volumeSource) != has(self.volumeClaimTemplateSpec)",
    "write exactly one of volumeSource (a volume as a pod has it) and volumeClaimTemplateSpec (a claim for each worker)",
)]))]
pub struct WorkerVolumeMount {
    /// Name of the volume in the pod.
    #[schemars(length(max = 253))]
    pub name: String,
    /// Where it is mounted. For jailSubMounts this is a path inside the jail.
    #[schemars(length(max = 4096))]
    pub mount_path: String,
    /// The directory of the volume that is mounted. Absent means all of it.
    #[schemars(length(max = 4096))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sub_path: Option<String>,
    /// Whether it is mounted read-only. Absent means no.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// The volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_source: Option<VolumeSource>,
    /// The claim that each worker gets for itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_claim_template_spec: Option<PersistentVolumeClaimSpec>,
}
