//! What wakes a set.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::slinky::{self, NodeSet};
use engine::Key;
use engine::cache::Change;
use engine::controller::Controller;
use engine::view::Guarded;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Resource, ResourceExt as _};
use nodeset::Api;
use slurm_client::Changed;

use super::{claim, spec, strays};
use crate::caches::{BY_NODE, Caches};
use crate::context::Context;
use crate::worker_pods::is_forced;
use crate::workers;

/// Wakes sets when something of theirs changes.
pub fn watch(controller: &Controller, context: &Context) {
    let caches = &context.caches;
    controller.watch(&caches.slinky_node_sets, |change| [change.key.clone()]);
    controller.watch(&caches.slinky_pods, |change| {
        let mut sets = owners(change);
        // A pod that nobody owns may be adopted by the set of its name, or be in its way.
        sets.extend(strays::set_of(&change.key.name).map(|set| Key::new(&change.key.namespace, set)));
        sets
    });
    controller.watch(&caches.slinky_revisions, owners);
    controller.watch(&caches.budgets, owners);
    let known = caches.clone();
    controller.watch(&caches.claims, move |change| sets_of_claim(&known, &change.key));
    let known = caches.clone();
    controller.watch(&caches.slinky_clusters, move |change| {
        // How it is, its link tells.
        let matters = |cluster: &Option<Arc<Guarded<slinky::Cluster>>>| {
            cluster.as_ref().map(|cluster| is_forced(&**cluster))
        };
        if matters(&change.before) == matters(&change.after) {
            return Vec::new();
        }
        sets_of_cluster(&known, &change.key)
    });
    workers::watch_nodes(controller, &caches.nodes, {
        let pods = caches.slinky_pods.clone();
        move |node| pods.by_index(BY_NODE, node).iter().flat_map(|pod| owners_of(&**pod)).collect()
    });
    workers::watch_namespaces(controller, &caches.namespaces, {
        let caches = caches.clone();
        move |namespace| sets_in(&caches, namespace, |_| true)
    });
    let (known, waker) = (caches.clone(), controller.waker());
    context.links.subscribe(move |link, changed| {
        if link.api == Api::Slinky {
            let concerned = |set: &NodeSet| spec::cluster(set) == link.cluster && concerns(set, changed);
            sets_in(&known, &link.cluster.namespace, concerned).iter().for_each(|set| waker.wake(set));
        }
    });
}

/// Whether a change in Slurm can matter to a set: its nodes begin with the same text. A pod that is older than that text is
/// seen with the next change.
fn concerns(set: &NodeSet, changed: &Changed) -> bool {
    let Changed::Nodes(names) = changed else { return true };
    let own = format!("{}-", set.name_any());
    let prefix = spec::host_prefix(&set.spec).unwrap_or(&own);
    names.iter().any(|name| name.starts_with(prefix) || name.starts_with(&own))
}

/// The sets that own an object, or did.
fn owners<V: Resource>(change: &Change<V>) -> BTreeSet<Key> {
    change.before.iter().chain(&change.after).flat_map(|object| owners_of(&**object)).collect()
}

/// The sets that own an object.
fn owners_of(object: &impl Resource) -> Vec<Key> {
    let meta = object.meta();
    let namespace = meta.namespace.as_deref().unwrap_or_default();
    let is_set = |owner: &&OwnerReference| {
        let group = owner.api_version.split_once('/').map(|(group, _)| group);
        group == Some(slinky::GROUP) && owner.kind == NodeSet::kind(&())
    };
    let owners = meta.owner_references.iter().flatten().filter(is_set);
    owners.map(|owner| Key::new(namespace, &owner.name)).collect()
}

/// The sets that would give a claim this name.
fn sets_of_claim(caches: &Caches, claim: &Key) -> Vec<Key> {
    let Some(stem) = strays::set_of(&claim.name) else { return Vec::new() };
    let is_of = |set: &NodeSet| {
        claim::template_names(set).iter().any(|template| stem == format!("{template}-{}", set.name_any()))
    };
    sets_in(caches, &claim.namespace, is_of)
}

fn sets_of_cluster(caches: &Caches, cluster: &Key) -> Vec<Key> {
    sets_in(caches, &cluster.namespace, |set| spec::cluster(set) == *cluster)
}

fn sets_in(caches: &Caches, namespace: &str, is_of: impl Fn(&NodeSet) -> bool) -> Vec<Key> {
    let sets = caches.slinky_node_sets.list();
    let sets = sets.iter().filter(|set| set.meta().namespace.as_deref() == Some(namespace));
    sets.filter(|set| set.ok().is_some_and(&is_of)).map(|set| Key::of(&**set)).collect()
}
