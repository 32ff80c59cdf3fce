//! Pods that are ready, but whose Slurm node never came.

use crate::plan::Proof;
use crate::scale::Scale;
use crate::view::View;

/// Ordinals of pods to replace because Slurm does not have their nodes.
///
/// Only where a complete list of our own cluster lacks the node after the time that a worker may take, no job names it,
/// and not more at a time than an update may take: if many are missing, it is not the pods' fault.
pub(crate) fn decide(view: &View<'_>, scale: &Scale) -> Vec<u32> {
    let facts = view.facts;
    if !view.lists.knows_absence() && !planted!(TrustsAnyList) {
        return Vec::new();
    }
    let kept = || view.workers.iter().filter(|worker| scale.keep.contains(&worker.ordinal));
    let away =
        (facts.set.replicas as usize).saturating_sub(kept().filter(|worker| worker.is_healthy()).count());
    let allowed = facts.set.max_unavailable.of(facts.set.replicas).max(1);
    kept()
        .filter(|worker| {
            let over = worker.pod.ready.is_some_and(|ready| {
                facts.now.wait_until(ready.plus(facts.set.registration_grace)).is_none()
            });
            worker.is_healthy() && over && worker.may_go(facts) == Ok(Proof::Absent)
        })
        .map(|worker| worker.ordinal)
        .take(allowed.saturating_sub(away))
        .collect()
}
