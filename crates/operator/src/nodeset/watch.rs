//! Wakes sets when something of theirs changes.

use std::collections::BTreeSet;
use std::sync::Arc;

use ::nodeset::Api;
use api::nebius::{NodeSet, SlurmCluster};
use engine::Key;
use engine::cache::Change;
use engine::controller::Controller;
use engine::view::{Guarded, PodView};
use kube::Resource;
use render::{Component, labels};
use slurm_client::Changed;

use crate::caches::{BY_NODE, Caches};
use crate::context::Context;
use crate::owner::{Parent, label, owner_key, parent_of, sets_of};
use crate::worker_pods::is_forced;
use crate::workers;

/// Wakes sets when something of theirs changes.
pub fn watch(controller: &Controller, context: &Context) {
    let caches = &context.caches;
    controller.watch(&caches.node_sets, |change| [change.key.clone()]);
    macro_rules! owned {
        ($($cache:ident),*) => {
            $(controller.watch(&caches.$cache, |change| both(change, &NodeSet::kind(&())));)*
        };
    }
    owned!(pods, services, config_maps, claims, budgets, revisions);
    watch_cluster(controller, caches);
    workers::watch_nodes(controller, &caches.nodes, {
        let pods = caches.pods.clone();
        move |node| {
            let pods = pods.by_index(BY_NODE, node);
            pods.iter().filter_map(|pod| owner_key(&**pod, &NodeSet::kind(&()))).collect()
        }
    });
    workers::watch_namespaces(controller, &caches.namespaces, {
        let caches = caches.clone();
        move |namespace| sets_in(&caches, namespace)
    });
    let (waker, caches) = (controller.waker(), caches.clone());
    context.links.subscribe(move |link, changed| {
        if link.api == Api::Nebius {
            for set in sets_of(&caches, &link.cluster) {
                let key = Key::of(&*set);
                if concerns(&caches, &set, changed) {
                    waker.wake(&key);
                }
            }
        }
    });
}

/// The sets that own or owned the object: one that lost its owner matters to the one it had.
fn both<V: Resource>(change: &Change<V>, kind: &str) -> BTreeSet<Key> {
    let forms = change.before.iter().chain(&change.after);
    forms.filter_map(|object| owner_key(&**object, kind)).collect()
}

/// Worker pods take images, ports, names and their account from their cluster, and wait for its parts.
fn watch_cluster(controller: &Controller, caches: &Caches) {
    let known = caches.clone();
    controller.watch(&caches.clusters, move |change| {
        let said = |cluster: &Option<Arc<Guarded<SlurmCluster>>>| {
            cluster.as_ref().map(|cluster| {
                let meta = cluster.meta();
                (meta.generation, meta.deletion_timestamp.is_some(), is_forced(&**cluster))
            })
        };
        // Its status is of no interest here.
        if said(&change.before) == said(&change.after) {
            return Vec::new();
        }
        sets_near(&known, &change.key)
    });
    macro_rules! of_cluster {
        ($($cache:ident),*) => {
            $({
                let known = caches.clone();
                controller.watch(&caches.$cache, move |change| {
                    let cluster =
                        change.object().and_then(|object| owner_key(&**object, &SlurmCluster::kind(&())));
                    cluster.map(|cluster| sets_near(&known, &cluster)).unwrap_or_default()
                });
            })*
        };
    }
    of_cluster!(service_accounts, stateful_sets, deployments, jobs);
    // A pod that overwrites the jail holds up all workers until it has ended.
    let known = caches.clone();
    controller.watch(&caches.pods, move |change| {
        let of_jail =
            |pod: &&Arc<PodView>| label(&***pod, labels::COMPONENT) == Some(Component::PopulateJail.as_str());
        let pod = change.object().filter(of_jail);
        let cluster = pod.and_then(|pod| label(&**pod, labels::INSTANCE));
        let cluster = cluster.map(|cluster| Key::new(&change.key.namespace, cluster));
        cluster.map(|cluster| sets_near(&known, &cluster)).unwrap_or_default()
    });
    // The key for tokens. A user may bring it, so that the name has to tell.
    let known = caches.clone();
    controller.watch(&caches.secrets, move |change| {
        let cluster = change.key.name.strip_suffix(JWT_SECRET);
        let cluster = cluster.map(|cluster| Key::new(&change.key.namespace, cluster));
        cluster.map(|cluster| sets_near(&known, &cluster)).unwrap_or_default()
    });
}

/// The name of the Secret with the key for tokens ends so.
const JWT_SECRET: &str = "-rest-jwt-key";

/// The sets that a change of a cluster can matter to: its own, and those that name none.
fn sets_near(caches: &Caches, cluster: &Key) -> Vec<Key> {
    let sets = caches.node_sets.list();
    sets.iter()
        .filter(|set| set.meta().namespace.as_deref() == Some(&*cluster.namespace))
        .filter(|set| {
            set.ok().is_some_and(|set| match parent_of(caches, set) {
                Parent::Cluster(parent) => parent == *cluster,
                Parent::Unclear(_) => true,
                Parent::Disagreement { spec, .. } => spec == *cluster.name,
            })
        })
        .map(|set| Key::of(&**set))
        .collect()
}

fn sets_in(caches: &Caches, namespace: &str) -> Vec<Key> {
    let sets = caches.node_sets.list();
    sets.iter().map(|set| Key::of(&**set)).filter(|key| &*key.namespace == namespace).collect()
}

/// Whether a change in Slurm can matter to a set: its nodes are named as its pods are, or as those of `slurmNodes.worker`.
fn concerns(caches: &Caches, set: &Guarded<NodeSet>, changed: &Changed) -> bool {
    let Changed::Nodes(names) = changed else { return true };
    let own = set.meta().name.as_deref().unwrap_or_default();
    let pods: Vec<Arc<PodView>> = caches.pods.owned_by(set.meta().uid.as_deref().unwrap_or_default());
    let hosts: BTreeSet<&str> = pods.iter().filter_map(|pod| pod.spec.hostname.as_deref()).collect();
    names.iter().any(|name| {
        hosts.contains(&**name)
            || name.strip_prefix(own).is_some_and(|rest| rest.starts_with('-'))
            || name.starts_with("worker-")
    })
}
