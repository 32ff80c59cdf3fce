//! The controller of SlurmClusters: from a manifest to the objects that make a cluster, and back to a status.

mod agents;
mod desired;
mod ending;
mod explain;
mod facts;
mod for_workers;
mod jailed;
mod kept_nodes;
mod live;
mod lost_pods;
mod observe;
mod order;
mod parts;
mod pods;
mod populate;
mod preview;
mod reconcile;
mod status;
mod worker_lines;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use api::nebius::SlurmCluster;
use engine::Key;
use engine::controller::{Controller, Options};
use kube::Resource;
use parking_lot::Mutex;
use render::labels;
use slurm::NodeName;
use tokio_util::sync::CancellationToken;

pub(crate) use desired::desired;
pub use ending::FINALIZER;
pub(crate) use explain::{missing_references, pod_trouble};
pub use for_workers::{ForWorkers, for_workers};
pub use parts::{CONFIGURATION_APPLIED, JAIL_POPULATED, REST_AVAILABLE, WAITING_FOR_WORKERS};
pub use preview::{Preview, PreviewError, preview};

use crate::caches::Caches;
use crate::context::Context;
use crate::owner::{Parent, clusters_in, label, owner_key, parent_of};
use crate::references::References;
use agents::Agents;
use jailed::Jailed;
use kept_nodes::KeptNodes;

/// The name of the controller.
pub const NAME: &str = "slurmcluster";

/// What the controller remembers between reconciles. All of it can be found out again.
#[derive(Default)]
struct Memory {
    agents: Agents,
    /// Files of JailedConfigs.
    jailed: Jailed,
    /// What each cluster's pods need of others.
    references: Mutex<HashMap<Key, References>>,
    /// The nodes that the files of each cluster name.
    nodes: Mutex<HashMap<Key, Arc<KeptNodes>>>,
    /// Nodes among them whose pods are gone for sure.
    gone: Mutex<HashMap<Key, BTreeSet<NodeName>>>,
}

/// Runs the controller until `stop`.
pub async fn run(context: Arc<Context>, options: Options, stop: CancellationToken) {
    let memory = Arc::new(Memory::default());
    let controller = Controller::new(options);
    watch(&controller, &context.caches, &memory);
    controller
        .run(stop, move |key| {
            let (context, memory) = (Arc::clone(&context), Arc::clone(&memory));
            async move { reconcile::reconcile(&context, &memory, key).await }
        })
        .await;
}

/// Wakes clusters when something of theirs changes.
fn watch(controller: &Controller, caches: &Caches, memory: &Arc<Memory>) {
    controller.watch(&caches.clusters, |change| [change.key.clone()]);
    macro_rules! owned {
        ($($cache:ident),*) => {
            $(controller.watch(&caches.$cache, |change| {
                change.object().and_then(|object| owner_key(&**object, &SlurmCluster::kind(&())))
            });)*
        };
    }
    owned!(services, service_accounts, roles, role_bindings, jobs, budgets, stateful_sets, deployments);
    macro_rules! owned_optional {
        ($($cache:ident),*) => {
            $({
                let waker = controller.waker();
                caches.$cache.subscribe(move |change| {
                    let owner = change.object().and_then(|object| owner_key(&**object, &SlurmCluster::kind(&())));
                    if let Some(owner) = owner {
                        waker.wake(&owner);
                    }
                });
            })*
        };
    }
    owned_optional!(mariadbs, grants, profiles);
    // Both ours and those that users bring for a cluster.
    macro_rules! referenced {
        ($cache:ident, $($names:ident),+) => {{
            let memory = Arc::clone(memory);
            controller.watch(&caches.$cache, move |change| {
                let mut keys: BTreeSet<Key> = BTreeSet::new();
                keys.extend(change.object().and_then(|object| owner_key(&**object, &SlurmCluster::kind(&()))));
                for (cluster, references) in memory.references.lock().iter() {
                    if cluster.namespace == change.key.namespace
                        && ($(references.$names.contains(&*change.key.name))||+)
                    {
                        keys.insert(cluster.clone());
                    }
                }
                keys
            });
        }};
    }
    referenced!(secrets, secrets);
    referenced!(config_maps, config_maps);
    referenced!(claims, claims, own_claims);
    controller.watch(&caches.jailed_configs, |change| {
        change.object().and_then(|object| owner_key(&**object, &SlurmCluster::kind(&())))
    });
    controller.watch(&caches.pods, |change| {
        change
            .object()
            .and_then(|pod| Some(Key::new(&change.key.namespace, label(&**pod, labels::INSTANCE)?)))
    });
    let known = caches.clone();
    controller.watch(&caches.jailed_configs, move |change| jailed::concerned(&known, change));
    let known = caches.clone();
    controller.watch(&caches.node_sets, move |change| {
        let set = change.object().and_then(|set| set.ok());
        match set.map(|set| parent_of(&known, set)) {
            Some(Parent::Cluster(cluster)) => vec![cluster],
            _ => clusters_in(&known, &change.key.namespace),
        }
    });
    for kind in engine::optional_kinds::OptionalKind::ALL {
        let (waker, caches, mut served) =
            (controller.waker(), caches.clone(), caches.optional_kinds.watch(kind));
        tokio::spawn(async move {
            while served.changed().await.is_ok() {
                caches.clusters.list().iter().for_each(|cluster| waker.wake(&Key::of(&**cluster)));
            }
        });
    }
}
