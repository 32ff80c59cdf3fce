//! slurmctld.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{NodeContainer, NodePod, NodeVolume, NodeVolumeMount, Sssd};

/// slurmctld. There is always one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SlurmNodeController {
    /// What all pods have; there is no size.
    #[serde(flatten)]
    pub pod: NodePod,
    /// Whether the pod uses the users of the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_users: Option<bool>,
    /// The container of slurmctld.
    pub slurmctld: NodeContainer,
    /// The container of munge, which authenticates the daemons to each other.
    pub munge: NodeContainer,
    /// The volumes of the pod.
    pub volumes: SlurmNodeControllerVolumes,
    /// Service account of the pod. Absent means one that the operator makes.
    #[schemars(length(max = 253))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account_name: Option<String>,
    /// slurmctld's own metrics.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_metrics: Option<OpenMetrics>,
    /// The SSSD sidecar.
    #[serde(flatten)]
    pub sssd: Sssd,
}

/// The volumes of slurmctld's pod.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SlurmNodeControllerVolumes {
    /// Where slurmctld keeps its state. It must survive the pod.
    pub spool: NodeVolume,
    /// The jail.
    pub jail: NodeVolume,
    /// More volumes.
    #[schemars(
        length(max = 128),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["mountPath"])
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custom_mounts: Option<Vec<NodeVolumeMount>>,
}

/// slurmctld's own metrics, which Slurm has since 25.11.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OpenMetrics {
    /// Whether slurmctld serves them. Absent means no.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// How Prometheus reads them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_monitor: Option<OpenMetricsMonitor>,
}

/// How Prometheus reads slurmctld's metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OpenMetricsMonitor {
    /// How often. Absent means `30s`.
    #[schemars(length(max = 64))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<String>,
    /// How long one read may take. Absent means `28s`.
    #[schemars(length(max = 64))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scrape_timeout: Option<String>,
    /// Which of `jobs`, `jobs-users-accts`, `nodes`, `partitions` and `scheduler` are read. Absent means all.
    #[schemars(length(max = 16), inner(length(max = 64)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoints: Option<Vec<String>>,
}
