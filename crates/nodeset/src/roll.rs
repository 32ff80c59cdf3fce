//! Updates: which pods are replaced now, within what the user allows.

use std::collections::BTreeMap;

use slurm::NodeBase;

use crate::drain;
use crate::facts::{Facts, Strategy};
use crate::plan::Problem;
use crate::revision::{Chosen, ImageChanges};
use crate::scale::Scale;
use crate::victims;
use crate::view::{Life, View, Worker};

/// What an update does to a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Replace it.
    Replace,
    /// Change its images.
    Patch(ImageChanges),
    /// Leave it as it is: the update is paused.
    Pause,
}

/// What an update does now.
#[derive(Debug, Default)]
pub(crate) struct Roll {
    /// What happens to pods, by ordinal.
    pub(crate) turns: BTreeMap<u32, Turn>,
    /// How many pods still have an old revision and should not.
    pub(crate) old: usize,
    /// What keeps it from going on.
    pub(crate) problem: Option<Problem>,
}

/// Whether the update is to touch the pod at some time.
fn is_old(facts: &Facts<'_>, chosen: &Chosen<'_>, worker: &Worker<'_>) -> bool {
    let set = &facts.set;
    worker.pod.revision != Some(&chosen.update)
        && (set.strategy == Strategy::OnDelete || worker.ordinal >= set.partition)
}

/// Whether the pod does its work: Kubernetes calls it available, and Slurm can use its node.
fn serves(facts: &Facts<'_>, worker: &Worker<'_>) -> bool {
    let Some(node) = worker.node else { return false };
    let state = &node.state;
    // A node that somebody else drained is in their hands, and none of the update's business.
    let others = drain::is_others(node);
    let up = !matches!(state.base(), None | Some(NodeBase::Down | NodeBase::Unknown | NodeBase::Future));
    // A drain of ours or of the agent that has no cause any more ends soon, but has not yet.
    let taken = state.is_drain() && !others && !worker.on_cordoned_node() && !worker.is_cordoned();
    let works = up && worker.is_registered() && !taken;
    worker.is_available(facts) && !worker.pod.restarting && (others || works)
}

/// Chooses the pods whose turn it is.
pub(crate) fn decide(view: &View<'_>, chosen: &Chosen<'_>, scale: &Scale) -> Roll {
    let facts = view.facts;
    let set = &facts.set;
    let kept = || view.workers.iter().filter(|worker| scale.keep.contains(&worker.ordinal));
    let live = || kept().filter(|worker| worker.is_live());
    let old: Vec<&Worker<'_>> = live().filter(|worker| is_old(facts, chosen, worker)).collect();
    let mut roll = Roll { old: old.len(), ..Roll::default() };
    if set.strategy == Strategy::OnDelete || old.is_empty() {
        return roll;
    }
    if set.paused {
        let drained = old.iter().filter(|worker| worker.node.is_some_and(drain::is_for_update));
        roll.turns = drained.map(|worker| (worker.ordinal, Turn::Pause)).collect();
        return roll;
    }
    let turn = |worker: &Worker<'_>| match turn_in_place(facts, chosen, worker) {
        Some(images) => Turn::Patch(images),
        None => Turn::Replace,
    };
    // A pod that is not healthy is away already. It goes when it is free, and takes nothing from what is allowed.
    let (healthy, sick): (Vec<_>, Vec<_>) = old.iter().copied().partition(|worker| worker.is_healthy());
    roll.turns.extend(sick.iter().map(|worker| (worker.ordinal, turn(worker))));

    let allowed = set.max_unavailable.of(set.replicas);
    let not_old = live().filter(|worker| !is_old(facts, chosen, worker));
    let not_serving = not_old.filter(|worker| !serves(facts, worker)).count();
    let empty = (set.replicas as usize).saturating_sub(live().count());
    let mut away = 0;
    if !planted!(BudgetForgetsNew) {
        away += not_serving;
    }
    if !planted!(BudgetForgetsEmpty) {
        away += empty;
    }
    let mut budget = allowed.saturating_sub(away);
    if planted!(BudgetForgetsDrained) {
        budget += healthy.iter().filter(|worker| worker.drained_by_us()).count();
    }
    let next = victims::for_update(facts, healthy.iter().copied());
    roll.turns.extend(next.into_iter().take(budget).map(|worker| (worker.ordinal, turn(worker))));
    if allowed == 0 && !healthy.is_empty() {
        roll.problem = Some(Problem {
            reason: "NothingMayBeAway",
            message: "maxUnavailable is 0, so no worker may be replaced and the update stands still; write 1 or more".into(),
        });
    }
    roll
}

/// The images that make the pod one of the new revision, if the user wants that and it is enough.
fn turn_in_place(facts: &Facts<'_>, chosen: &Chosen<'_>, worker: &Worker<'_>) -> Option<ImageChanges> {
    if facts.set.strategy != Strategy::InPlaceIfPossible || worker.life != Life::Running {
        return None;
    }
    let old = chosen.revision(worker.pod.revision?)?;
    old.content.image_changes(facts.set.content)
}
