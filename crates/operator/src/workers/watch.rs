//! What wakes sets of both APIs: Kubernetes nodes and Namespaces.

use std::sync::Arc;

use engine::Key;
use engine::cache::Cache;
use engine::controller::Controller;
use engine::view::{MetaView, NodeView};
use k8s_openapi::api::core::v1::Namespace;
use kube::Resource as _;

use crate::worker_pods::is_forced;

/// Wakes the sets that have pods on a node (`sets` tells them) when it comes, goes, is cordoned or uncordoned. Heartbeats wake
/// nobody.
pub fn watch_nodes(
    controller: &Controller,
    nodes: &Cache<NodeView>,
    sets: impl Fn(&str) -> Vec<Key> + Send + Sync + 'static,
) {
    controller.watch(nodes, move |change| {
        let (before, after) = (change.before.as_deref(), change.after.as_deref());
        let same = match (before, after) {
            (Some(before), Some(after)) => says(before) == says(after),
            _ => false,
        };
        if same { Vec::new() } else { sets(&change.key.name) }
    });
}

/// What of a node matters: whether it is cordoned, and while it is, what is written on it.
fn says(node: &NodeView) -> (bool, Option<&std::collections::BTreeMap<String, String>>) {
    let cordoned = node.spec.unschedulable;
    (cordoned, node.meta().annotations.as_ref().filter(|_| cordoned))
}

/// Wakes the sets in a Namespace (`sets` tells them) when its deletion begins, or the care for its jobs is given up.
pub fn watch_namespaces(
    controller: &Controller,
    namespaces: &Cache<MetaView<Namespace>>,
    sets: impl Fn(&str) -> Vec<Key> + Send + Sync + 'static,
) {
    controller.watch(namespaces, move |change| {
        let says = |namespace: &Option<Arc<MetaView<Namespace>>>| {
            namespace
                .as_ref()
                .map(|namespace| (namespace.meta().deletion_timestamp.is_some(), is_forced(&**namespace)))
        };
        if says(&change.before) == says(&change.after) { Vec::new() } else { sets(&change.key.name) }
    });
}
