//! What the controller of NodeSets must know of a cluster besides its spec.

use api::nebius::SlurmCluster;
use engine::Key;
use engine::view::WorkloadView;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::StatefulSet;
use kube::Resource as _;
use render::{ValidatedCluster, overwrites_jail};

use super::facts;
use super::live::Live;
use super::order;
use super::status::wish;
use crate::caches::Caches;
use crate::worker_pods::is_forced;

/// What the controller of NodeSets must know of a cluster besides its spec.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForWorkers {
    /// Since when the cluster is being deleted: all its workers leave, as if their NodeSets had been deleted then, and slurmctld
    /// stays until the last of them is gone.
    pub deleted: Option<Timestamp>,
    /// The cluster is being deleted, and somebody else has deleted slurmctld already: Slurm will not answer again.
    pub slurmctld_is_gone: bool,
    /// The user gave up the care for running jobs on the cluster.
    pub forced: bool,
    /// Why workers keep the revision that they have for now, for people; none if they need not.
    pub update_waits: Option<&'static str>,
    /// Why no workers are made for now, for people; none if they may be.
    pub start_waits: Option<&'static str>,
}

/// What the controller of NodeSets must know of this cluster, as the caches have it. It changes with the cluster, and with the
/// StatefulSet of slurmctld, the Deployment of slurmdbd and the Job that fills the jail, which the cluster owns.
pub fn for_workers(caches: &Caches, cluster: &SlurmCluster, validated: &ValidatedCluster) -> ForWorkers {
    let (meta, names) = (cluster.meta(), validated.names());
    let key = |name: String| Key::new(names.namespace(), &name);
    let slurmctld = caches.stateful_sets.get(&key(names.controller()));
    let slurmdbd = caches.deployments.get(&key(names.accounting()));
    let deleted = meta.deletion_timestamp.as_ref().map(|time| time.0);
    let update_waits = order::workers_wait(
        &facts::slurmdbd(validated, slurmdbd.as_deref()),
        &facts::slurmctld(validated, slurmctld.as_deref()),
    );
    ForWorkers {
        deleted,
        slurmctld_is_gone: deleted.is_some() && is_gone(slurmctld.as_deref()),
        forced: is_forced(cluster),
        update_waits,
        start_waits: start_waits(caches, cluster, validated),
    }
}

/// Workers that are there stay; their set may make others.
fn start_waits(
    caches: &Caches,
    cluster: &SlurmCluster,
    validated: &ValidatedCluster,
) -> Option<&'static str> {
    let live = Live::of(caches, &Key::of(cluster), validated.names());
    let populate = facts::populate_facts(&live, validated.names(), wish(cluster));
    let waits = live.workers().next().is_none() && overwrites_jail(validated, &populate);
    waits.then_some("workers are made when the jail has been overwritten")
}

/// Whether it is away for good. One that is stopped for maintenance is not: nobody stops it while workers are there.
fn is_gone(slurmctld: Option<&WorkloadView<StatefulSet>>) -> bool {
    slurmctld.is_none_or(|set| set.metadata.deletion_timestamp.is_some())
}
