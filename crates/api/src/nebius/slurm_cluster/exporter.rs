//! The exporter of Slurm metrics.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{NodeContainer, NodeVolume, SlurmNode};
use crate::common::{DURATION, Open};

/// The exporter of Slurm metrics for Prometheus.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SlurmExporter {
    /// What all pods have.
    #[serde(flatten)]
    pub node: SlurmNode,
    /// Whether it runs.
    #[serde(default)]
    pub enabled: bool,
    /// How Prometheus reads it.
    #[serde(default)]
    pub pod_monitor_config: PodMonitorConfig,
    /// Its container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exporter_container: Option<NodeContainer>,
    /// How often it reads from Slurm.
    #[schemars(regex(pattern = DURATION), length(max = 64))]
    #[serde(default = "collection_interval")]
    pub collection_interval: String,
    /// How many reads may run at once. Absent means 1.
    #[schemars(range(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_collector_inflight: Option<i32>,
    /// Where jobs are read from: `controller` or `accounting`. Absent means controller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_source: Option<JobSource>,
    /// How far back jobs are read from accounting. Absent means `1h`.
    #[schemars(regex(pattern = DURATION), length(max = 64))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accounting_jobs_lookback: Option<String>,
    /// Service account of the pod. Absent means one that the operator makes.
    #[schemars(length(max = 253))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account_name: Option<String>,
    /// Of an older version. When its image is not empty, the operator leaves the exporter to you.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exporter: Option<DeprecatedExporter>,
    /// Of an older version; ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub munge: Option<NodeContainer>,
    /// Of an older version; ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volumes: Option<SlurmExporterVolumes>,
}

fn collection_interval() -> String {
    "30s".into()
}

/// Where the exporter reads jobs from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum JobSource {
    /// slurmctld.
    Controller,
    /// slurmdbd.
    Accounting,
}

/// How Prometheus reads the exporter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PodMonitorConfig {
    /// Value of the label `job`.
    #[schemars(length(max = 253))]
    pub job_label: String,
    /// How often it is read.
    #[schemars(length(max = 64))]
    pub interval: String,
    /// How long one read may take.
    #[schemars(length(max = 64))]
    pub scrape_timeout: String,
    /// Rules for the labels of the target, as the Prometheus operator has them.
    #[schemars(length(max = 256))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relabel_config: Option<Vec<Open>>,
    /// Rules for the labels of the metrics, as the Prometheus operator has them.
    #[schemars(length(max = 256))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metric_relabel_configs: Option<Vec<Open>>,
}

impl Default for PodMonitorConfig {
    fn default() -> Self {
        Self {
            job_label: "slurm-exporter".into(),
            interval: "30s".into(),
            scrape_timeout: "20s".into(),
            relabel_config: None,
            metric_relabel_configs: None,
        }
    }
}

/// The exporter of an older version.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeprecatedExporter {
    /// Its container; an empty image means none.
    #[serde(flatten)]
    pub container: NodeContainer,
    /// A PodTemplate to merge; ignored.
    #[schemars(length(max = 253))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_template_name_ref: Option<String>,
}

/// The volumes of the exporter of an older version.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SlurmExporterVolumes {
    /// The jail; ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jail: Option<NodeVolume>,
}
