//! How things stand, for the status of either API.

use slurm::NodeBase;

use crate::facts::{Api, Selector, Slurm};
use crate::plan::{Problem, Wait};
use crate::revision::Chosen;
use crate::roll::Roll;
use crate::scale::Scale;
use crate::view::View;

/// How things stand. Both APIs' statuses are made from it; fields that one of them lacks are left out there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Pods that exist. (`slurm.nebius.ai` shows `ready` under this name.)
    pub replicas: u32,
    /// Pods of the wanted revision that do not terminate.
    pub updated: u32,
    /// Pods that run and are ready.
    pub ready: u32,
    /// Pods that have been ready for long enough.
    pub available: u32,
    /// Pods that are not available.
    pub unavailable: u32,
    /// Counts of Slurm nodes. None while no list is there: then what was written last stays.
    pub slurm: Option<SlurmCounts>,
    /// The label of the wanted revision.
    pub hash: String,
    /// How often the name of a revision was taken.
    pub collisions: u32,
    /// What the set is doing, in the words of `slurm.nebius.ai`.
    pub phase: Phase,
    /// What is known, one entry per aspect, sorted by type.
    pub conditions: Vec<Condition>,
    /// How many pods wait for jobs before they may leave.
    pub waiting: u32,
    /// How many pods are guarded against eviction.
    pub protected: u32,
}

/// How many nodes of the set are in which state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlurmCounts {
    /// Idle.
    pub idle: u32,
    /// Allocated or mixed.
    pub allocated: u32,
    /// Down.
    pub down: u32,
    /// With the flag DRAIN.
    pub drain: u32,
    /// All that Slurm has.
    pub registered: u32,
}

/// What a set is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// Its cluster is missing, or nothing has been made yet.
    #[default]
    Pending,
    /// All pods are ready, and Slurm does not have all of their nodes yet.
    Configuring,
    /// Pods are being made or replaced.
    Provisioning,
    /// All is as it should be.
    Ready,
    /// Something needs a person.
    Degraded,
    /// It is being deleted.
    Terminating,
}

/// What is known of one aspect. It is True or False, never Unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The aspect.
    pub type_: &'static str,
    /// Whether it holds.
    pub holds: bool,
    /// A word for why.
    pub reason: &'static str,
    /// A sentence for why.
    pub message: String,
}

/// Types of conditions.
pub mod condition {
    /// All pods are ready.
    pub const PODS_READY: &str = "PodsReady";
    /// All pods are of the wanted revision (`slurm.nebius.ai`).
    pub const STATEFUL_SET_UPDATED: &str = "StatefulSetUpdated";
    /// All pods are of the wanted revision (`slinky.slurm.net`).
    pub const UPDATED: &str = "Updated";
    /// All pods of a deleted set are gone (`slurm.nebius.ai`).
    pub const STATEFUL_SET_TERMINATED: &str = "StatefulSetTerminated";
    /// Slurm answers, and its word can be believed. While it does not, nothing leaves.
    pub const SLURM_ANSWERS: &str = "SlurmAnswers";
    /// Pods wait for jobs before they may leave.
    pub const WAITING_FOR_JOBS: &str = "WaitingForJobs";
    /// What the user wrote can be done.
    pub const VALID: &str = "Valid";
}

/// At most so many names stand in a message.
const NAMED: usize = 3;

/// Everything that the status is made of.
pub(crate) struct Sources<'s, 'f> {
    pub(crate) view: &'s View<'f>,
    pub(crate) chosen: &'s Chosen<'f>,
    pub(crate) scale: &'s Scale,
    pub(crate) roll: &'s Roll,
    pub(crate) waits: &'s [Wait],
    pub(crate) problems: &'s [Problem],
}

/// Adds it all up.
pub(crate) fn fold(sources: &Sources<'_, '_>) -> Status {
    let Sources { view, chosen, .. } = sources;
    let facts = view.facts;
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let workers = &view.workers;
    let replicas = count(workers.len());
    let available = count(workers.iter().filter(|worker| worker.is_available(facts)).count());
    let updated = workers
        .iter()
        .filter(|worker| !worker.pod.terminating && worker.pod.revision == Some(&chosen.update));
    let mut status = Status {
        replicas,
        updated: count(updated.count()),
        ready: count(workers.iter().filter(|worker| worker.is_healthy()).count()),
        available,
        unavailable: replicas.saturating_sub(available),
        slurm: view.lists.any().then(|| slurm_counts(view)),
        hash: chosen.update.clone(),
        collisions: chosen.collisions,
        phase: Phase::Pending,
        conditions: Vec::new(),
        waiting: count(sources.waits.len()),
        protected: count(workers.iter().filter(|worker| worker.pod.marks.protected).count()),
    };
    status.conditions = conditions(sources, &status);
    status.phase = phase(sources, &status);
    status
}

fn slurm_counts(view: &View<'_>) -> SlurmCounts {
    let mut counts = SlurmCounts::default();
    for node in view.workers.iter().filter_map(|worker| view.lists.node(worker.pod.slurm_node)) {
        counts.registered += 1;
        match node.state.base() {
            Some(NodeBase::Idle) => counts.idle += 1,
            Some(NodeBase::Allocated | NodeBase::Mixed) => counts.allocated += 1,
            Some(NodeBase::Down) => counts.down += 1,
            Some(NodeBase::Unknown | NodeBase::Error | NodeBase::Future) | None => {}
        }
        counts.drain += u32::from(node.state.has(slurm::NodeFlag::Drain));
    }
    counts
}

fn conditions(sources: &Sources<'_, '_>, status: &Status) -> Vec<Condition> {
    let Sources { view, roll, waits, problems, scale, .. } = sources;
    let set = &view.facts.set;
    let ready = view.workers.iter().filter(|worker| scale.keep.contains(&worker.ordinal));
    let ready = ready.filter(|worker| worker.is_healthy()).count();
    let all_ready = ready >= set.replicas as usize;
    let mut conditions = vec![
        Condition {
            type_: condition::PODS_READY,
            holds: all_ready,
            reason: if all_ready { "AllReady" } else { "NotAllReady" },
            message: format!("{ready} of {} workers are ready", set.replicas),
        },
        slurm_answers(view),
        waiting(waits),
        valid(problems),
    ];
    if set.deletion.is_none() {
        let type_ = match set.api {
            Api::Nebius => condition::STATEFUL_SET_UPDATED,
            Api::Slinky => condition::UPDATED,
        };
        conditions.push(updated(type_, set.paused, roll));
    } else if set.api == Api::Nebius {
        conditions.push(Condition {
            type_: condition::STATEFUL_SET_TERMINATED,
            holds: view.workers.is_empty(),
            reason: if view.workers.is_empty() { "AllGone" } else { "PodsLeft" },
            message: format!("{} workers are left", status.replicas),
        });
    }
    conditions.sort_by_key(|condition| condition.type_);
    conditions
}

fn slurm_answers(view: &View<'_>) -> Condition {
    let (holds, reason, message) = match view.lists.distrust() {
        None => (true, "Answers", "Slurm tells its nodes and jobs".to_owned()),
        Some(distrust) => (false, distrust.reason(), distrust.message()),
    };
    Condition { type_: condition::SLURM_ANSWERS, holds, reason, message }
}

fn waiting(waits: &[Wait]) -> Condition {
    let mut named: Vec<String> =
        waits.iter().take(NAMED).map(|wait| format!("{} ({})", wait.pod, wait.why)).collect();
    if waits.len() > NAMED {
        named.push(format!("and {} more", waits.len() - NAMED));
    }
    let (reason, message) = if waits.is_empty() {
        ("NobodyWaits", "no worker waits for jobs".to_owned())
    } else {
        ("JobsRun", format!("before they may leave, these wait: {}", named.join(", ")))
    };
    Condition { type_: condition::WAITING_FOR_JOBS, holds: !waits.is_empty(), reason, message }
}

fn valid(problems: &[Problem]) -> Condition {
    let (holds, reason, message) = match problems {
        [] => (true, "Valid", "nothing is wrong".to_owned()),
        [first, ..] => {
            let mut text: Vec<&str> = problems.iter().take(NAMED).map(|problem| &*problem.message).collect();
            if problems.len() > NAMED {
                text.push("...");
            }
            (false, first.reason, text.join("; "))
        }
    };
    Condition { type_: condition::VALID, holds, reason, message }
}

fn updated(type_: &'static str, paused: bool, roll: &Roll) -> Condition {
    let (reason, message) = match (roll.old, paused) {
        (0, _) => ("AllUpdated", "all workers have the newest revision".to_owned()),
        (old, true) => ("Paused", format!("{old} workers have an old revision, and the update is paused")),
        (old, false) => ("Updating", format!("{old} workers have an old revision")),
    };
    Condition { type_, holds: roll.old == 0, reason, message }
}

fn phase(sources: &Sources<'_, '_>, status: &Status) -> Phase {
    let Sources { view, roll, problems, .. } = sources;
    let set = &view.facts.set;
    let holds =
        |type_: &str| status.conditions.iter().any(|condition| condition.type_ == type_ && condition.holds);
    if set.deletion.is_some() {
        Phase::Terminating
    } else if matches!(view.facts.slurm, Slurm::NoCluster) {
        Phase::Pending
    } else if !problems.is_empty() {
        Phase::Degraded
    } else if !holds(condition::PODS_READY) || roll.old > 0 || status.replicas > set.replicas {
        Phase::Provisioning
    } else if status.slurm.is_none_or(|counts| counts.registered < set.replicas) {
        Phase::Configuring
    } else {
        Phase::Ready
    }
}

/// What is wrong with what the user wrote, as far as the planner can tell.
pub(crate) fn invalid(view: &View<'_>) -> Option<Problem> {
    let set = &view.facts.set;
    match set.selector {
        Selector::Usable => None,
        Selector::Empty => Some(Problem {
            reason: "SelectingAll",
            message: "spec.selector is empty and would select all pods; write labels that the template has too".into(),
        }),
        Selector::NotTheTemplate => Some(Problem {
            reason: "SelectorMismatch",
            message: "spec.selector does not match spec.template.metadata.labels, so the set would not know its own pods; \
                      write the same labels to both"
                .into(),
        }),
    }
}
