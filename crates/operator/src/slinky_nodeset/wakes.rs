//! What wakes a set.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::slinky::{self, NodeSet};
use engine::Key;
use engine::cache::Change;
use engine::controller::Controller;
use engine::view::Guarded;
use kube::{Resource, ResourceExt as _};
use nodeset::Api;

use super::{claim, spec, strays};
use crate::caches::Caches;
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
        let matters = |cluster: &Option<Arc<Guarded<slinky::Cluster>>>| cluster.as_ref().map(|cluster| is_forced(&**cluster));
        if matters(&change.before) == matters(&change.after) {
            return Vec::new();
        }
        sets_of_cluster(&known, &change.key)
    });
    let (known, waker) = (caches.clone(), controller.waker());
    context.links.subscribe(move |link, _| {
        if link.api == Api::Slinky {
            sets_of_cluster(&known, &link.cluster).iter().for_each(|set| waker.wake(set));
        }
    });
}

/// The sets that own an object, or did.
fn owners<V: Resource>(change: &Change<V>) -> BTreeSet<Key> {
    let of = |object: &Arc<V>| object.meta().owner_references.iter().flatten().filter_map(set_named_by).collect::<Vec<_>>();
    let names = change.before.iter().chain(&change.after).flat_map(of);
    names.map(|name| Key::new(&change.key.namespace, &name)).collect()
}

fn set_named_by(owner: &k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference) -> Option<String> {
    let group = owner.api_version.split_once('/').map(|(group, _)| group);
    let is_set = group == Some(api::slinky::GROUP) && owner.kind == NodeSet::kind(&());
    is_set.then(|| owner.name.clone())
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
