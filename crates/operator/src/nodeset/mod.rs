//! The controller of NodeSets: makes their pods, replaces those that are lost, and takes away only those that Slurm proves
//! free.

mod drain;
mod plan;
mod reconcile;
mod status;
mod workers;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use api::nebius::{NodeSet, SlurmCluster};
use engine::Key;
use engine::controller::{Controller, Options};
use engine::view::{Guarded, PodView};
use kube::{Resource, ResourceExt as _};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

pub use status::MISSING;

use crate::caches::Caches;
use crate::context::Context;
use crate::owner::{Parent, owner_key, parent_of};

/// The name of the controller.
pub const NAME: &str = "nodeset";

/// Annotation of a worker's pod: the hash of the template that it was made of.
pub const TEMPLATE_HASH: &str = "slurm.nebius.ai/template-hash";

/// What the controller remembers between reconciles. All of it can be found out again.
#[derive(Default)]
struct Memory {
    /// Pods (by uid) of which we know that their Slurm nodes are not drained by us.
    undrained: Mutex<HashMap<Key, HashSet<String>>>,
}

/// Runs the controller until `stop`.
pub async fn run(context: Arc<Context>, options: Options, stop: CancellationToken) {
    let memory = Arc::new(Memory::default());
    let controller = Controller::new(options);
    watch(&controller, &context.caches);
    controller
        .run(stop, move |key| {
            let (context, memory) = (Arc::clone(&context), Arc::clone(&memory));
            async move { reconcile::reconcile(&context, &memory, key).await }
        })
        .await;
}

/// Wakes sets when something of theirs changes.
fn watch(controller: &Controller, caches: &Caches) {
    controller.watch(&caches.node_sets, |change| [change.key.clone()]);
    macro_rules! owned {
        ($($cache:ident),*) => {
            $(controller.watch(&caches.$cache, |change| {
                change.object().and_then(|object| owner_key(&**object, &NodeSet::kind(&())))
            });)*
        };
    }
    owned!(pods, services, config_maps, claims);
    // Worker pods run under an account that their cluster makes.
    let known = caches.clone();
    controller.watch(&caches.service_accounts, move |change| {
        let cluster = change.object().and_then(|account| owner_key(&**account, &SlurmCluster::kind(&())));
        cluster.map(|cluster| sets_near(&known, &cluster)).unwrap_or_default()
    });
    // Worker pods take images, ports and names from their cluster.
    let known = caches.clone();
    controller.watch(&caches.clusters, move |change| {
        let generation = |cluster: &Option<Arc<Guarded<SlurmCluster>>>| {
            cluster.as_ref().and_then(|cluster| {
                let meta = cluster.meta();
                Some((meta.generation?, meta.deletion_timestamp.is_some()))
            })
        };
        // Its status is of no interest here.
        if generation(&change.before) == generation(&change.after) {
            return Vec::new();
        }
        sets_near(&known, &change.key)
    });
}

/// The sets that a change of a cluster can matter to: its own, and those that name none.
fn sets_near(caches: &Caches, cluster: &Key) -> Vec<Key> {
    let sets = caches.node_sets.list();
    sets.iter()
        .filter(|set| set.meta().namespace.as_deref() == Some(&*cluster.namespace))
        .filter(|set| {
            set.ok().is_some_and(|set| match parent_of(caches, set) {
                Parent::Cluster(parent) => parent == *cluster,
                Parent::Unclear(_) => true,
            })
        })
        .map(|set| Key::of(&**set))
        .collect()
}

/// The number at the end of a worker's name.
pub fn ordinal(pod: &str) -> Option<u32> {
    pod.rsplit_once('-')?.1.parse().ok()
}

/// The Slurm node that a worker's pod is: its host name.
pub fn slurm_node(pod: &PodView) -> String {
    pod.spec.hostname.as_deref().map_or_else(|| pod.name_any(), String::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ordinal_is_the_number_at_the_end() {
        assert_eq!(ordinal("c-worker-12"), Some(12));
        assert_eq!(ordinal("gpu-007"), Some(7));
        assert_eq!(ordinal("gpu-x"), None);
        assert_eq!(ordinal("gpu"), None);
    }
}
