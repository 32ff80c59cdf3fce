//! Pods that are ready, but whose Slurm node never came.

use std::time::Duration;

use slurm::{NodeBase, NodeFlag};

use crate::drain;
use crate::roll::Roll;
use crate::scale::Scale;
use crate::view::{View, Worker};

/// Which pods are replaced, and when the next may be.
#[derive(Debug, Default)]
pub(crate) struct Recovery {
    pub(crate) pods: Vec<u32>,
    pub(crate) look_again: Option<Duration>,
}

/// Finds the pods to replace because their slurmd never registered with Slurm.
///
/// Only after the time that a worker may take, and not more at a time than an update may take: if many are missing, it is
/// not the pods' fault.
pub(crate) fn decide(view: &View<'_>, scale: &Scale, roll: &Roll) -> Recovery {
    let facts = view.facts;
    let kept = || view.workers.iter().filter(|worker| scale.keep.contains(&worker.ordinal));
    let away =
        (facts.set.replicas as usize).saturating_sub(kept().filter(|worker| worker.is_healthy()).count());
    let allowed = facts.set.max_unavailable.of(facts.set.replicas).max(1);
    // A pod that the update has in hand must not take the place of one that nobody looks after.
    let lost = kept().filter(|worker| !roll.turns.contains_key(&worker.ordinal));
    let lost =
        lost.filter(|worker| worker.is_healthy() && !worker.pod.restarting && never_registered(view, worker));
    let mut recovery = Recovery::default();
    for worker in lost {
        let ready = worker.pod.ready.unwrap_or(facts.now).max(worker.started());
        match facts.now.wait_until(ready.plus(facts.set.registration_grace)) {
            None => recovery.pods.push(worker.ordinal),
            wait => recovery.look_again = recovery.look_again.into_iter().chain(wait).min(),
        }
    }
    recovery.pods.truncate(allowed.saturating_sub(away));
    recovery
}

fn never_registered(view: &View<'_>, worker: &Worker<'_>) -> bool {
    match worker.node {
        // A complete list of our own cluster lacks the node, and no job names it.
        None => view.lists.knows_absence() && worker.occupancy.is_free(),
        // A static node is in the list from the beginning. Somebody who drained it is looking after it.
        Some(node) => {
            let state = &node.state;
            let away = state.base() == Some(NodeBase::Unknown)
                || (state.base() == Some(NodeBase::Down) && state.has(NodeFlag::NotResponding));
            let others = drain::is_others(node);
            let never = node.slurmd_start_time == 0 || !worker.is_registered();
            away && never && !others
        }
    }
}
