//! The end of a cluster: first its workers go, without hurting jobs; slurmctld and the rest stay until the last one is gone.
//!
//! The controller of NodeSets drains the workers: it sees that the cluster is being deleted
//! ([`ForWorkers::deleted`](super::ForWorkers::deleted)). Here nothing is made or changed any more; the finalizer holds the cluster, and so
//! all that it owns, until no worker is left.

use std::sync::Arc;

use api::nebius::SlurmCluster;
use api::nebius::slurm_cluster::{SlurmClusterStatus, phase};
use engine::controller::Wake;
use engine::view::{Guarded, PodView};
use engine::{Key, condition, finalizer};
use jiff::Timestamp;
use kube::{Resource as _, ResourceExt as _};

use super::parts::WAITING_FOR_WORKERS;
use super::reconcile::tell_status;
use crate::context::Context;
use crate::error::Error;
use crate::owner::{set_of_pod, sets_of};
use crate::worker_pods::is_forced;

/// Holds a cluster that is being deleted until its workers are gone.
pub const FINALIZER: &str = "slurm.nebius.ai/workers";
/// At most so many workers are named.
const NAMED: usize = 5;

/// Puts the finalizer on a cluster, before anything is made for it. Returns whether it was written.
pub async fn hold(context: &Context, cluster: &SlurmCluster) -> Result<bool, Error> {
    finalizer::add(&context.client, cluster, FINALIZER)
        .await
        .map_err(|error| Error::call("the finalizer could not be put on the cluster", error))
}

/// One look at a cluster that is being deleted. It may be one that cannot be read.
pub async fn end(context: &Context, key: &Key, cluster: &Guarded<SlurmCluster>) -> Result<Wake, Error> {
    if !finalizer::has(cluster.meta(), FINALIZER) {
        return Ok(Wake::OnChange);
    }
    let pods = context.caches.pods_of(key);
    let workers: Vec<&Arc<PodView>> = pods.iter().filter(|pod| set_of_pod(&***pod).is_some()).collect();
    // Who gave up the care need not wait for a kubelet that may never answer.
    let forced = is_forced(cluster) && workers.iter().all(|pod| pod.is_terminating());
    if workers.is_empty() || forced {
        finalizer::remove(&context.client, cluster, FINALIZER)
            .await
            .map_err(|error| Error::call("the finalizer could not be taken from the cluster", error))?;
        tracing::info!("the last worker is gone: the cluster may go");
        return Ok(Wake::OnChange);
    }
    // Pods that go wake us. One that cannot be read can be told nothing.
    if let Some(cluster) = cluster.ok() {
        let sets = sets_of(&context.caches, key);
        let waits = sets.iter().filter_map(|set| waits_of(set.ok()?));
        let message = message(&workers, waits.collect(), key);
        tell_status(context, cluster, &status(cluster, &message, Timestamp::now())).await?;
    }
    Ok(Wake::OnChange)
}

/// What the workers of a set wait for.
fn waits_of(set: &api::nebius::NodeSet) -> Option<String> {
    let conditions = set.status.as_ref()?.conditions.as_ref()?;
    let waits = conditions
        .iter()
        .find(|known| known.type_ == nodeset::condition::WAITING_FOR_JOBS && known.status == "True")?;
    Some(format!("NodeSet {}: {}", set.name_any(), waits.message))
}

fn message(workers: &[&Arc<PodView>], waits: Vec<String>, key: &Key) -> String {
    let mut named: Vec<String> = workers.iter().take(NAMED).map(|pod| pod.name_any()).collect();
    if workers.len() > NAMED {
        named.push(format!("and {} more", workers.len() - NAMED));
    }
    let mut text = format!("the cluster goes when its workers are gone: {}", named.join(", "));
    for wait in &waits {
        text += "; ";
        text += wait;
    }
    if !waits.is_empty() {
        let Key { namespace, name } = key;
        text += &format!(
            "; to end their jobs: kubectl annotate slurmcluster --namespace {namespace} {name} {}=true",
            crate::worker_pods::FORCE_DELETE[0]
        );
    }
    text
}

/// The status as it was, and what is waited for.
fn status(cluster: &SlurmCluster, message: &str, now: Timestamp) -> SlurmClusterStatus {
    let mut status = cluster.status.clone().unwrap_or_default();
    let conditions = status.conditions.get_or_insert_default();
    let generation = cluster.meta().generation;
    condition::set(conditions, WAITING_FOR_WORKERS, true, "Deleted", message, generation, now);
    status.phase = Some(phase::TERMINATING.into());
    status.observed_generation = generation;
    status
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_cluster_that_waits_tells_for_whom_and_how_to_end_it() {
        let pods: Vec<Arc<PodView>> = (0..7)
            .map(|number| {
                let pod = json!({ "metadata": { "name": format!("gpu-{number}") } });
                Arc::new(serde_json::from_value(pod).unwrap())
            })
            .collect();
        let pods: Vec<&Arc<PodView>> = pods.iter().collect();
        let key = Key::new("ns", "c");
        let idle = message(&pods[..2], vec![], &key);
        assert_eq!(idle, "the cluster goes when its workers are gone: gpu-0, gpu-1");
        let busy = message(&pods, vec!["NodeSet gpu: job 7".into()], &key);
        assert!(busy.contains("gpu-4, and 2 more; NodeSet gpu: job 7; to end their jobs: kubectl"), "{busy}");
        assert!(busy.ends_with("--namespace ns c slurm.nebius.ai/force-delete=true"), "{busy}");
    }
}
