//! Partitions and the features of workers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::crd::cel::rule;

/// The partitions of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [
    rule(
        "!has(self.configType) || self.configType != 'structured' || (has(self.partitions) && size(self.partitions) > 0)",
        "configType structured needs at least one entry in partitions; add one, or write configType: default",
    ).at(".partitions"),
]))]
pub struct PartitionConfiguration {
    /// Where the partitions come from: `default` makes `main` and `hidden` over all nodes, `custom` takes rawConfig,
    /// `structured` takes partitions.
    pub config_type: PartitionConfigType,
    /// Lines for slurm.conf, each beginning with `PartitionName`. Used by configType custom.
    #[schemars(length(max = 256), extend("items" = {
        "type": "string",
        "maxLength": 4096,
        "x-kubernetes-validations": [rule(
            "self.matches('^\\\\s*PartitionName')",
            "each line of rawConfig must begin with PartitionName, such as 'PartitionName=main Nodes=ALL'; write other \
             settings to customSlurmConfig",
        )],
    }))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw_config: Option<Vec<String>>,
    /// The partitions. Used by configType structured.
    #[schemars(
        length(max = 256),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partitions: Option<Vec<Partition>>,
}

/// Where the partitions come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum PartitionConfigType {
    /// Two partitions over all nodes.
    #[default]
    Default,
    /// Lines as they are.
    Custom,
    /// Partitions by NodeSets.
    Structured,
}

/// A partition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Partition {
    /// Name of the partition.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Whether all nodes belong to it, whatever nodeSetRefs says.
    #[serde(default)]
    pub is_all: bool,
    /// Names of the NodeSets whose nodes belong to it.
    #[schemars(length(max = 256), inner(length(max = 253)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_set_refs: Option<Vec<String>>,
    /// More settings, as slurm.conf has them: `Default=YES MaxTime=INFINITE State=UP`.
    #[schemars(length(max = 4096))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
}

/// A Slurm feature of some workers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkerFeature {
    /// Name of the feature.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The workers that have it, as a Slurm host list: `worker-[0-2,10]`.
    #[schemars(length(min = 1, max = 65_536))]
    pub hostlist_expr: String,
    /// Name of a Slurm nodeset (a line of slurm.conf, not the Kubernetes object) that is made of these workers.
    #[schemars(length(max = 253))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodeset_name: Option<String>,
}
