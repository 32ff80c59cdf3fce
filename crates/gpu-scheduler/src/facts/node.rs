//! What is known of a node.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Amounts, Facts, Name, Stamp};

/// What a taint does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// New pods stay away.
    NoSchedule,
    /// Pods leave.
    NoExecute,
}

/// A taint that keeps pods away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taint {
    /// Its key.
    pub key: Box<str>,
    /// Its value; empty for none.
    pub value: Box<str>,
    /// What it does.
    pub effect: Effect,
}

/// What is known of a node. Two that are equal are the same for every pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: Name,
    /// Its uid: a node that was made anew is another one.
    pub uid: Box<str>,
    /// Its labels.
    pub labels: BTreeMap<Box<str>, Box<str>>,
    /// Whether it is Ready.
    pub ready: bool,
    /// Whether it is cordoned.
    pub unschedulable: bool,
    /// Its taints that keep pods away.
    pub taints: Box<[Taint]>,
    /// What pods can use of it.
    pub allocatable: Amounts,
    /// How many pods it takes.
    pub pods: i64,
}

impl Node {
    /// How many GPUs, and parts and shares of them, device plugins serve there.
    pub fn plugin_gpus(&self) -> i64 {
        self.allocatable.plugin_gpus()
    }
}

/// A node as it comes over the wire.
#[derive(Deserialize)]
pub struct WireNode {
    metadata: WireMeta,
    #[serde(default)]
    spec: WireSpec,
    #[serde(default)]
    status: WireStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireMeta {
    name: String,
    resource_version: Option<String>,
    #[serde(default)]
    uid: String,
    #[serde(default)]
    labels: BTreeMap<Box<str>, Box<str>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireSpec {
    unschedulable: bool,
    taints: Vec<WireTaint>,
}

#[derive(Deserialize)]
struct WireTaint {
    key: Box<str>,
    #[serde(default)]
    value: Box<str>,
    effect: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireStatus {
    allocatable: BTreeMap<String, String>,
    conditions: Vec<WireCondition>,
}

#[derive(Deserialize)]
struct WireCondition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
}

impl Facts for Node {
    type Wire = WireNode;

    fn take(wire: WireNode) -> (Stamp, Self) {
        let name: Name = wire.metadata.name.as_str().into();
        let stamp =
            Stamp { name: wire.metadata.name, version: wire.metadata.resource_version, ..Stamp::default() };
        let taint = |taint: WireTaint| {
            let effect = match taint.effect.as_str() {
                "NoSchedule" => Effect::NoSchedule,
                "NoExecute" => Effect::NoExecute,
                // PreferNoSchedule is a wish, and there is no other node to prefer.
                _ => return None,
            };
            Some(Taint { key: taint.key, value: taint.value, effect })
        };
        let allocatable = &wire.status.allocatable;
        let node = Self {
            name,
            uid: wire.metadata.uid.into(),
            labels: wire.metadata.labels,
            ready: wire.status.conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True"),
            unschedulable: wire.spec.unschedulable,
            taints: wire.spec.taints.into_iter().filter_map(taint).collect(),
            allocatable: Amounts::read(allocatable.iter().map(|(name, text)| (name.as_str(), text.as_str()))),
            pods: allocatable.get("pods").and_then(|text| crate::quantity::parse(text, 0)).unwrap_or(0),
        };
        (stamp, node)
    }
}
