//! What runs on every Kubernetes node to set it up, or to reboot it.

use k8s_openapi::api::core::v1::{Container, EnvVar, ResourceRequirements};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Image, Placement, Probes, StatusMetadata};
use crate::crd::cel::rule;

/// What runs on every node.
#[derive(Clone, Debug, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "slurm.nebius.ai",
    version = "v1alpha1",
    kind = "NodeConfigurator",
    plural = "nodeconfigurators",
    namespaced,
    schema = "manual",
    status = "NodeConfiguratorStatus",
    derive = "PartialEq",
    printcolumn(
        name = "Rebooter Enabled",
        type_ = "boolean",
        json_path = ".spec.rebooter.enabled",
        description = "Whether nodes are drained and rebooted"
    ),
    printcolumn(
        name = "NodeConfigurator Enabled",
        type_ = "boolean",
        json_path = ".spec.nodeConfigurator.enabled",
        description = "Whether nodes are only set up"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [rule(
    "self.?rebooter.?enabled.orValue(false) != self.?nodeConfigurator.?enabled.orValue(false)",
    "enable exactly one of spec.rebooter and spec.nodeConfigurator; write enabled: false to the other",
)]))]
pub struct NodeConfiguratorSpec {
    /// Sets nodes up, and drains and reboots them when their conditions ask for it.
    #[serde(default)]
    pub rebooter: Rebooter,
    /// Sets nodes up, and does nothing more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_configurator: Option<SleepContainer>,
    /// Init containers that set a node up, instead of our own.
    #[schemars(
        length(max = 64),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub init_containers: Option<Vec<Container>>,
}

/// Drains and reboots nodes when their conditions ask for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rebooter {
    /// Whether it runs.
    pub enabled: bool,
    /// Its container and pod.
    #[serde(flatten)]
    pub pod: ConfiguratorPod,
    /// How pods leave a node. Only `evict` exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eviction_method: Option<EvictionMethod>,
    /// How much it logs.
    #[serde(default)]
    pub log_level: LogLevel,
    /// How it logs, such as `json` or `plain`.
    #[schemars(length(max = 64))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_format: Option<String>,
}

impl Default for Rebooter {
    fn default() -> Self {
        Self {
            enabled: true,
            pod: ConfiguratorPod::default(),
            eviction_method: None,
            log_level: LogLevel::default(),
            log_format: None,
        }
    }
}

/// How pods leave a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum EvictionMethod {
    /// By a taint that evicts them.
    Evict,
}

/// How much a program logs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum LogLevel {
    /// Everything.
    Debug,
    /// Changes.
    #[default]
    Info,
    /// What may be wrong.
    Warn,
    /// What is wrong.
    Error,
}

/// A container that keeps the pod alive after the init containers are done.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SleepContainer {
    /// Whether it runs.
    pub enabled: bool,
    /// Its container and pod.
    #[serde(flatten)]
    pub pod: ConfiguratorPod,
}

/// Settings of a container and its pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfiguratorPod {
    /// The image. Absent means the operator's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<Image>,
    /// Resources of the container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// Probes of the container.
    #[serde(flatten)]
    pub probes: Probes,
    /// Environment variables of the container.
    #[schemars(
        length(max = 256),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<Vec<EnvVar>>,
    /// Which nodes it runs on.
    #[serde(flatten)]
    pub placement: Placement,
    /// Priority class of the pod.
    #[schemars(length(max = 253))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,
    /// Service account of the pod.
    #[schemars(length(max = 253))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account_name: Option<String>,
    /// Whether the pod uses the users of the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_users: Option<bool>,
}

/// What the operator sees.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeConfiguratorStatus {
    /// What all such statuses have.
    #[serde(flatten)]
    pub metadata: StatusMetadata,
}

crate::crd::root_schema!(
    NodeConfigurator,
    NodeConfiguratorSpec,
    NodeConfiguratorStatus,
    "What runs on Kubernetes nodes to set them up for Slurm workers, and to drain and reboot them."
);
