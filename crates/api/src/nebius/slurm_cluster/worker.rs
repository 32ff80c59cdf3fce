//! Workers, all alike.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CgroupVersion, JailMounts, NodeContainer, NodePod, NodeVolume};
use crate::common::DrainOnDelete;
use crate::crd::cel::COUNT_OR_PERCENT;

/// Workers, all alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SlurmNodeWorker {
    /// How many workers there are.
    #[schemars(range(min = 0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<i32>,
    /// What all pods have.
    #[serde(flatten)]
    pub pod: NodePod,
    /// Whether the pods use the users of the host. False gives them a user namespace of their own.
    #[serde(default)]
    pub host_users: bool,
    /// How many workers may be away because of an update: a number or a percentage.
    #[schemars(
        extend("maxLength" = 16),
        extend("x-kubernetes-validations" = [COUNT_OR_PERCENT])
    )]
    #[serde(default = "max_unavailable")]
    pub max_unavailable: IntOrString,
    /// The container of slurmd.
    pub slurmd: NodeContainer,
    /// The container of munge.
    pub munge: NodeContainer,
    /// ConfigMap with supervisord.conf. Absent means our own.
    #[schemars(length(max = 253))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supervisord_config_map_ref_name: Option<String>,
    /// ConfigMap with sshd_config. Absent means our own.
    #[schemars(length(max = 253))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sshd_config_map_ref_name: Option<String>,
    /// Annotations of the pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker_annotations: Option<BTreeMap<String, String>>,
    /// The volumes of the pods.
    pub volumes: SlurmNodeWorkerVolumes,
    /// The cgroup version of the Kubernetes nodes.
    #[serde(default)]
    pub cgroup_version: CgroupVersion,
    /// Whether GDRCopy is passed into the pods. The GPU operator must have it on too.
    #[serde(default, rename = "enableGDRCopy")]
    pub enable_gdr_copy: bool,
    /// Text for the `Extra` field of the Slurm nodes. It may use environment variables of the slurmd container.
    #[schemars(length(max = 4096))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slurm_node_extra: Option<String>,
    /// What happens to running jobs when the cluster is deleted. Absent means to wait for them without end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain_on_delete: Option<DrainOnDelete>,
}

pub(crate) fn max_unavailable() -> IntOrString {
    IntOrString::String("20%".into())
}

pub(crate) fn shared_memory_size() -> Quantity {
    Quantity("64Gi".into())
}

/// The volumes of workers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SlurmNodeWorkerVolumes {
    /// Where slurmd keeps its state.
    pub spool: NodeVolume,
    /// The jail.
    pub jail: NodeVolume,
    /// The other volumes.
    #[serde(flatten)]
    pub mounts: JailMounts,
    /// Size of `/dev/shm`.
    #[serde(default = "shared_memory_size")]
    pub shared_memory_size: Quantity,
}
