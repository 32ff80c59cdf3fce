//! What controllers read of a Node.

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Taint};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::Deserialize;

use super::{ConditionView, light_meta};

/// A Node as caches hold it.
#[derive(Clone, Debug, Deserialize)]
pub struct NodeView {
    /// Name, labels and the like.
    #[serde(deserialize_with = "light_meta")]
    pub metadata: ObjectMeta,
    /// What may run there.
    #[serde(default)]
    pub spec: NodeSpecView,
    /// How it is.
    #[serde(default)]
    pub status: NodeStatusView,
}

/// What may run on a node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeSpecView {
    /// Whether it is cordoned.
    pub unschedulable: bool,
    /// Its taints.
    pub taints: Vec<Taint>,
}

/// How a node is.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeStatusView {
    /// What pods can use of it.
    pub allocatable: BTreeMap<String, Quantity>,
    /// Its conditions; heartbeats are not kept.
    pub conditions: Vec<ConditionView>,
}

impl NodeView {
    /// The condition of this type, if it is there.
    pub fn condition(&self, type_: &str) -> Option<&ConditionView> {
        self.status.conditions.iter().find(|condition| &*condition.type_ == type_)
    }

    /// Whether the node is Ready.
    pub fn is_ready(&self) -> bool {
        self.condition("Ready").is_some_and(|condition| &*condition.status == "True")
    }
}

impl Resource for NodeView {
    type DynamicType = ();
    type Scope = <Node as Resource>::Scope;

    fn kind((): &()) -> Cow<'_, str> {
        "Node".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "nodes".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
