//! The pods that users log in to.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{JailMounts, NodeContainer, NodeVolume, SlurmNode, Sssd};
use crate::crd::cel::rule;

/// The pods that users log in to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [rule(
    "self.sshdServiceType != 'NodePort' || !has(self.sshdServiceNodePort) || self.sshdServiceNodePort == 0 || \
     (self.sshdServiceNodePort >= 30000 && self.sshdServiceNodePort <= 32768)",
    "sshdServiceNodePort must be between 30000 and 32768, or 0 for any free port",
).at(".sshdServiceNodePort")]))]
pub struct SlurmNodeLogin {
    /// What all pods have.
    #[serde(flatten)]
    pub node: SlurmNode,
    /// The container of sshd.
    pub sshd: NodeContainer,
    /// The container of munge.
    pub munge: NodeContainer,
    /// How users reach sshd from outside: `LoadBalancer` or `NodePort`.
    pub sshd_service_type: SshdServiceType,
    /// Annotations of the Service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sshd_service_annotations: Option<BTreeMap<String, String>>,
    /// ConfigMap with sshd_config. Absent means our own.
    #[schemars(length(max = 253))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sshd_config_map_ref_name: Option<String>,
    /// Public SSH keys of root.
    #[schemars(inner(length(max = 16_384)))]
    pub ssh_root_public_keys: Vec<String>,
    /// Fixed address of a Service of type LoadBalancer.
    #[schemars(length(max = 64))]
    #[serde(rename = "sshdServiceLoadBalancerIP", skip_serializing_if = "Option::is_none")]
    pub sshd_service_load_balancer_ip: Option<String>,
    /// Networks that may reach a Service of type LoadBalancer, such as `203.0.113.0/24`. Absent means all.
    #[schemars(length(max = 256), inner(length(max = 64)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sshd_service_load_balancer_source_ranges: Option<Vec<String>>,
    /// Port on the nodes for a Service of type NodePort, from 30000 to 32768. 0 means any free port.
    #[serde(default)]
    pub sshd_service_node_port: i32,
    /// The volumes of the pods.
    pub volumes: SlurmNodeLoginVolumes,
    /// The SSSD sidecar.
    #[serde(flatten)]
    pub sssd: Sssd,
    /// Limits that keep users of a login pod from each other. Absent means none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_isolation: Option<UserIsolation>,
}

/// How users reach sshd from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SshdServiceType {
    /// By an address of its own.
    LoadBalancer,
    /// By a port on every node.
    NodePort,
}

/// The volumes of login pods.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SlurmNodeLoginVolumes {
    /// The jail.
    pub jail: NodeVolume,
    /// The other volumes.
    #[serde(flatten)]
    pub mounts: JailMounts,
}

/// Limits that keep users of a login pod from each other.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [rule(
    "has(self.memoryHigh) == has(self.memoryMax)",
    "write both memoryHigh and memoryMax, or none of them",
)]))]
pub struct UserIsolation {
    /// Whether each user gets a control group. Absent means no.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Memory of one user above which it is slowed down. Absent means 80% of the memory of sshd's container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_high: Option<Quantity>,
    /// Memory that one user can have at most. Absent means 90% of the memory of sshd's container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_max: Option<Quantity>,
    /// Share of CPU time of one user against others. Absent means 100.
    #[schemars(range(min = 1, max = 10_000))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_weight: Option<i32>,
}
