//! To which cluster or set something belongs.

use std::sync::Arc;

use api::nebius::{NodeSet, SlurmCluster};
use engine::Key;
use engine::view::Guarded;
use kube::Resource;
use render::labels;

use crate::caches::Caches;

/// The object of this kind that owns another one.
pub fn owner_key(object: &impl Resource, kind: &str) -> Option<Key> {
    let meta = object.meta();
    let owner = meta.owner_references.iter().flatten().find(|owner| {
        owner.kind == kind
            && owner.controller == Some(true)
            && owner.api_version.starts_with(api::nebius::GROUP)
    })?;
    Some(Key::new(meta.namespace.as_deref()?, &owner.name))
}

/// The value of a label.
pub fn label<'a>(object: &'a impl Resource, name: &str) -> Option<&'a str> {
    object.meta().labels.as_ref()?.get(name).map(String::as_str)
}

/// The value of an annotation.
pub fn annotation<'a>(object: &'a impl Resource, name: &str) -> Option<&'a str> {
    object.meta().annotations.as_ref()?.get(name).map(String::as_str)
}

/// The name of the NodeSet whose worker a pod is: as its label tells, or its owner where somebody took the label away.
pub fn set_of_pod(pod: &impl Resource) -> Option<&str> {
    let kind = NodeSet::kind(&());
    let owners = pod.meta().owner_references.iter().flatten();
    let mut sets =
        owners.filter(|owner| owner.kind == kind && owner.api_version.starts_with(api::nebius::GROUP));
    label(pod, labels::NODE_SET).or_else(|| sets.next().map(|owner| &*owner.name))
}

/// Which cluster a NodeSet belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parent {
    /// This one; it may not exist.
    Cluster(Key),
    /// It names none, and so many are in its namespace: none, or more than one.
    Unclear(usize),
    /// Its spec and its annotation name different ones.
    Disagreement {
        /// `spec.clusterName`.
        spec: String,
        /// The annotation.
        annotation: String,
    },
}

/// The cluster that a NodeSet names by its spec or its annotation, or else the only one in its namespace.
pub fn parent_of(caches: &Caches, set: &NodeSet) -> Parent {
    let namespace = set.meta().namespace.as_deref().unwrap_or_default();
    let spec = set.spec.cluster_name.as_deref().filter(|name| !name.is_empty());
    let marked = annotation(set, labels::PARENTAL_CLUSTER).filter(|name| !name.is_empty());
    match (spec, marked) {
        (Some(spec), Some(marked)) if spec != marked => {
            return Parent::Disagreement { spec: spec.into(), annotation: marked.into() };
        }
        (Some(name), _) | (None, Some(name)) => return Parent::Cluster(Key::new(namespace, name)),
        (None, None) => {}
    }
    let clusters: Vec<Key> = caches
        .clusters
        .list()
        .iter()
        .map(|cluster| Key::of(&**cluster))
        .filter(|key| &*key.namespace == namespace)
        .collect();
    match clusters.as_slice() {
        [only] => Parent::Cluster(only.clone()),
        all => Parent::Unclear(all.len()),
    }
}

/// The NodeSets of a cluster that can be read, sorted by name.
pub fn sets_of(caches: &Caches, cluster: &Key) -> Vec<Arc<Guarded<NodeSet>>> {
    let mut sets = caches.node_sets.list();
    sets.retain(|set| {
        set.meta().namespace.as_deref() == Some(&*cluster.namespace)
            && set.ok().is_some_and(|set| parent_of(caches, set) == Parent::Cluster(cluster.clone()))
    });
    sets
}

/// The clusters in a namespace.
pub fn clusters_in(caches: &Caches, namespace: &str) -> Vec<Key> {
    let all = caches.clusters.list();
    all.iter().map(|cluster| Key::of(&**cluster)).filter(|key| &*key.namespace == namespace).collect()
}

/// A cluster, which may be malformed.
pub fn cluster(caches: &Caches, key: &Key) -> Option<Arc<Guarded<SlurmCluster>>> {
    caches.clusters.get(key)
}
