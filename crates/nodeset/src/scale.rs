//! How many pods there are to be, and which.

use std::collections::BTreeSet;

use crate::facts::{Api, Slurm};
use crate::plan::Problem;
use crate::records;
use crate::victims;
use crate::view::View;

/// Which pods stay, which leave, and which are missing.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Scale {
    /// Ordinals of pods that stay.
    pub(crate) keep: BTreeSet<u32>,
    /// Ordinals of pods that leave, the first to go in front.
    pub(crate) surplus: Vec<u32>,
    /// Ordinals of pods to make.
    pub(crate) missing: Vec<u32>,
    /// Ordinals that the set wants, whether their pods are there or not.
    pub(crate) wanted: BTreeSet<u32>,
}

/// Compares the pods with the number of replicas.
pub(crate) fn decide(view: &View<'_>) -> Scale {
    match view.facts.set.api {
        Api::Nebius => contiguous(view),
        Api::Slinky => ranked(view),
    }
}

/// The ordinals below the number of replicas, and no others.
fn contiguous(view: &View<'_>) -> Scale {
    let replicas = view.facts.set.replicas;
    let mut scale = Scale { wanted: (0..replicas).collect(), ..Scale::default() };
    for worker in view.workers.iter().rev().filter(|worker| !worker.pod.terminating) {
        let leaves = if planted!(LowestFirst) && view.workers.len() as u32 > replicas {
            worker.ordinal < view.workers.len() as u32 - replicas
        } else {
            worker.ordinal >= replicas
        };
        if leaves {
            scale.surplus.push(worker.ordinal);
        } else {
            scale.keep.insert(worker.ordinal);
        }
    }
    let taken = taken(view);
    scale.missing = scale.wanted.iter().copied().filter(|ordinal| !taken.contains(ordinal)).collect();
    scale
}

/// So many pods as there are replicas, whatever their ordinals.
fn ranked(view: &View<'_>) -> Scale {
    let replicas = view.facts.set.replicas as usize;
    let live = || view.workers.iter().filter(|worker| !worker.pod.terminating);
    let terminating = view.workers.len() - live().count();
    let counted = if planted!(CountsTerminating) { view.workers.len() } else { live().count() };
    let sorted = victims::by_rank(live());
    let (surplus, keep) = sorted.split_at(counted.saturating_sub(replicas).min(sorted.len()));
    let mut scale = Scale {
        keep: keep.iter().map(|worker| worker.ordinal).collect(),
        surplus: surplus.iter().map(|worker| worker.ordinal).collect(),
        ..Scale::default()
    };
    let taken = taken(view);
    // A pod that terminates still holds its place: its name comes free, and is used again. One that is adopted now has one.
    let free = replicas.saturating_sub(keep.len() + terminating + view.orphans.len());
    let held = if free > 0 && !planted!(LowestNameAlways) { records::held(view) } else { BTreeSet::new() };
    let lowest = (0..).filter(|ordinal| !held.contains(ordinal));
    let by_turn = held.iter().copied().chain(lowest);
    scale.missing = by_turn.filter(|ordinal| !taken.contains(ordinal)).take(free).collect();
    scale.missing.sort_unstable();
    scale.wanted = scale.keep.iter().chain(&scale.missing).copied().collect();
    let open = replicas.saturating_sub(scale.wanted.len());
    let leaving = view.workers.iter().filter(|worker| worker.pod.terminating).map(|worker| worker.ordinal);
    scale.wanted.extend(leaving.take(open));
    scale
}

fn taken(view: &View<'_>) -> BTreeSet<u32> {
    view.workers.iter().map(|worker| worker.ordinal).chain(view.strangers.keys().copied()).collect()
}

/// Whether pods can be made at all.
pub(crate) fn can_create(view: &View<'_>) -> bool {
    !view.facts.set.namespace_ends && !matches!(view.facts.slurm, Slurm::NoCluster)
}

/// Pods of others that have names which the set wants.
pub(crate) fn problems(view: &View<'_>, scale: &Scale) -> Vec<Problem> {
    let others = view.strangers.iter().filter(|(ordinal, _)| scale.wanted.contains(ordinal));
    others
        .filter(|(_, pod)| !view.orphans.iter().any(|orphan| orphan.uid == pod.uid))
        .map(|(_, pod)| Problem {
            reason: "NameTaken",
            message: format!(
                "the pod {} has a name that this set wants, and does not belong to it; delete or rename it",
                pod.name
            ),
        })
        .collect()
}
