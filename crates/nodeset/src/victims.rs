//! Who leaves first.

use std::cmp::Reverse;

use crate::facts::{Cordon, Facts, Phase};
use crate::trust::Until;
use crate::view::Worker;

/// What is compared when pods have a rank; the smallest leaves first. Ordinals differ, so no two pods are equal.
type Rank = (bool, u8, bool, i32, Until, bool, Reverse<u32>);

/// The rank of `slinky.slurm.net`: unassigned, then not started, then not ready, then cheap, then idle, then those whose jobs
/// end first, then cordoned, then the highest ordinal.
///
/// The original goes on with the time of being ready and of being made, which never decides: ordinals differ.
pub(crate) fn rank(worker: &Worker<'_>) -> Rank {
    let phase = match worker.pod.phase {
        Phase::Pending | Phase::Succeeded | Phase::Failed => 0,
        Phase::Unknown => 1,
        Phase::Running => 2,
    };
    (
        worker.pod.kube_node.is_some(),
        phase,
        worker.pod.ready.is_some(),
        worker.pod.deletion_cost,
        worker.until,
        worker.pod.cordon == Cordon::None && !worker.drained_by_us(),
        Reverse(worker.ordinal),
    )
}

/// The live pods of which so many leave, those who leave first in front.
pub(crate) fn by_rank<'v, 'f>(workers: impl Iterator<Item = &'v Worker<'f>>) -> Vec<&'v Worker<'f>>
where
    'f: 'v,
{
    let mut sorted: Vec<_> = workers.collect();
    sorted.sort_by_key(|worker| rank(worker));
    sorted
}

/// The order in which an update takes pods: those that it drains already, then by rank.
pub(crate) fn for_update<'v, 'f>(
    facts: &Facts<'_>,
    workers: impl Iterator<Item = &'v Worker<'f>>,
) -> Vec<&'v Worker<'f>>
where
    'f: 'v,
{
    let mut sorted = by_rank(workers);
    if planted!(OrderOfPods) {
        sorted.sort_by_key(|worker| facts.pods.iter().position(|pod| pod.uid == worker.pod.uid));
    }
    // Stable: among equals the rank still decides.
    sorted.sort_by_key(|worker| !worker.drained_by_us());
    sorted
}
