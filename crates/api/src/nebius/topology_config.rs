//! Which nodes hang on which switches.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::crd::cel::rule;

/// The network of a cluster.
#[derive(Clone, Debug, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "slurm.nebius.ai",
    version = "v1alpha1",
    kind = "TopologyConfig",
    plural = "topologyconfigs",
    namespaced,
    schema = "manual",
    status = "TopologyConfigStatus",
    derive = "PartialEq",
    printcolumn(name = "Cluster", type_ = "string", json_path = ".spec.clusterName"),
    printcolumn(name = "Plugin", type_ = "string", json_path = ".spec.plugin"),
    printcolumn(
        name = "Placed",
        type_ = "integer",
        json_path = ".status.nodesPlaced",
        description = "Slurm nodes that have a place"
    ),
    printcolumn(
        name = "Unplaced",
        type_ = "integer",
        json_path = ".status.nodesUnplaced",
        description = "Slurm nodes that have none"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    rule(
        "self.plugin == 'flat' || [has(self.nodeLabels), has(self.switches), has(self.blocks)].filter(x, x).size() == 1",
        "write exactly one of nodeLabels, switches and blocks; it says where the topology comes from",
    ),
    rule(
        "self.plugin != 'flat' || !(has(self.nodeLabels) || has(self.switches) || has(self.blocks))",
        "plugin flat has no switches; remove nodeLabels, switches and blocks, or write plugin: tree",
    ),
    rule(
        "!has(self.switches) || self.plugin == 'tree'",
        "switches need plugin: tree; write that, or blocks instead of switches",
    ).at(".switches"),
    rule(
        "!has(self.blocks) || self.plugin == 'block'",
        "blocks need plugin: block; write that, or switches instead of blocks",
    ).at(".blocks"),
    rule(
        "!has(self.blockSizes) || self.plugin == 'block'",
        "blockSizes need plugin: block; write that, or remove blockSizes",
    ).at(".blockSizes"),
]))]
pub struct TopologyConfigSpec {
    /// Name of the SlurmCluster, in the same namespace, that the network belongs to.
    #[schemars(length(min = 1, max = 253))]
    pub cluster_name: String,
    /// How Slurm sees the network: a `tree` of switches, `block`s of nodes that are close to each other, or `flat`, where all
    /// nodes are alike.
    #[serde(default)]
    pub plugin: TopologyPlugin,
    /// Takes the place of each node from labels of the Kubernetes node that it runs on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_labels: Option<TopologyNodeLabels>,
    /// The switches of a tree, each with the switches or nodes below it.
    #[schemars(
        length(min = 1, max = 1024),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub switches: Option<Vec<TopologySwitch>>,
    /// The blocks.
    #[schemars(
        length(min = 1, max = 1024),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocks: Option<Vec<TopologyBlock>>,
    /// Sizes that blocks are planned in, the smallest first; each is a multiple of the first. Absent means
    /// topology.blockSize of the cluster.
    #[schemars(
        length(min = 1, max = 16),
        inner(range(min = 1)),
        extend("x-kubernetes-validations" = [rule(
            "self.all(size, size >= self[0] && size % self[0] == 0)",
            "each of blockSizes must be a multiple of the first one, such as [18, 36]",
        )])
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_sizes: Option<Vec<i32>>,
    /// What becomes of nodes that have no place.
    #[serde(default)]
    pub unknown_switch: UnknownSwitch,
}

/// How Slurm sees the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum TopologyPlugin {
    /// Switches below switches.
    #[default]
    Tree,
    /// Blocks of nodes that are close to each other.
    Block,
    /// All nodes are alike.
    Flat,
}

/// Labels of Kubernetes nodes that say where they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TopologyNodeLabels {
    /// What the labels begin with, before the `/`.
    #[schemars(length(min = 1, max = 253))]
    pub prefix: String,
    /// The labels after the `/`, from the switch nearest to the node upwards. Absent means `tier-1`, `tier-2` and so on, as
    /// far as a node has them.
    #[schemars(length(min = 1, max = 16), inner(length(min = 1, max = 63)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tiers: Option<Vec<String>>,
    /// The label after the `/` that names the block of a node. Used by plugin block.
    #[schemars(length(min = 1, max = 63))]
    pub block_tier: String,
}

impl Default for TopologyNodeLabels {
    fn default() -> Self {
        Self { prefix: "topology.nebius.com".into(), tiers: None, block_tier: "tier-0".into() }
    }
}

/// A switch with what is below it: other switches, or nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [rule(
    "has(self.children) != (has(self.nodeNames) || has(self.nodeSelector))",
    "a switch has either children (names of switches) or nodes (nodeNames, nodeSelector); write one of the two",
)]))]
pub struct TopologySwitch {
    /// Name of the switch.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Names of the switches below it.
    #[schemars(length(min = 1, max = 1024), inner(length(min = 1, max = 253)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub children: Option<Vec<String>>,
    /// The nodes below it.
    #[serde(flatten)]
    pub nodes: TopologyNodes,
}

/// A block with its nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [rule(
    "has(self.nodeNames) || has(self.nodeSelector)",
    "a block needs nodes; write nodeNames, nodeSelector or both",
)]))]
pub struct TopologyBlock {
    /// Name of the block.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The nodes in it.
    #[serde(flatten)]
    pub nodes: TopologyNodes,
}

/// The nodes of a switch or block.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TopologyNodes {
    /// Names of Slurm nodes; host lists such as `gpu-[0-7]` do as well.
    #[schemars(length(min = 1, max = 1024), inner(length(min = 1, max = 4096)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_names: Option<Vec<String>>,
    /// Labels of Kubernetes nodes; Slurm nodes that run on them are meant.
    #[schemars(extend("minProperties" = 1, "maxProperties" = 64))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<BTreeMap<String, String>>,
}

/// What becomes of nodes that have no place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct UnknownSwitch {
    /// `place` puts them together on one switch (or in one block), `omit` leaves them out, so that jobs that ask for a
    /// topology never get them.
    pub policy: UnknownSwitchPolicy,
    /// Name of that switch or block.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

impl Default for UnknownSwitch {
    fn default() -> Self {
        Self { policy: UnknownSwitchPolicy::Place, name: "unknown".into() }
    }
}

/// What becomes of nodes that have no place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum UnknownSwitchPolicy {
    /// They share a switch.
    #[default]
    Place,
    /// They are left out.
    Omit,
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TopologyConfigStatus {
    /// What is known, one entry per aspect.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
    /// The generation of the spec that this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Slurm nodes that have a place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes_placed: Option<i32>,
    /// Slurm nodes that have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes_unplaced: Option<i32>,
    /// Hash of the text that was rendered last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rendered_hash: Option<String>,
}

crate::crd::root_schema!(
    TopologyConfig,
    TopologyConfigSpec,
    TopologyConfigStatus,
    "The network of a cluster: which nodes hang on which switches, or form which blocks."
);
