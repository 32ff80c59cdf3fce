//! What users are told about single steps: one event each, or one for many.

use engine::error::chain;
use engine::events::EventType;
use kube::Resource;
use nodeset::{Action, Cause, Problem, Proof};

use crate::context::Context;
use crate::error::Error;

/// More steps of one kind than this are told in one event.
const SINGLE: usize = 3;

/// What was done to what, for people.
struct Telling<'a> {
    reason: &'static str,
    /// What was done, with a place for the names.
    verb: &'static str,
    thing: &'static str,
    name: &'a str,
    why: Option<Cause>,
    /// Why Slurm was not asked, if it was not.
    unasked: Option<&'static str>,
}

/// Why a pod may go without Slurm's word, where somebody would want to know.
const fn unasked(proof: Proof) -> Option<&'static str> {
    match proof {
        Proof::Drained | Proof::Absent | Proof::NeverStarted | Proof::Ended | Proof::NodeGone => None,
        Proof::NoSteps => Some("the cluster is gone, and the agent in the pod saw no job step"),
        Proof::NobodyToAsk => Some("the cluster is gone, and nobody could tell whether jobs were there"),
        Proof::Deadline => Some("the deadline for its jobs is over"),
        Proof::DrainOff | Proof::Forced => Some("its user gave up the care for jobs"),
    }
}

fn telling(action: &Action) -> Option<Telling<'_>> {
    let telling =
        |reason, verb, thing, name, why| Some(Telling { reason, verb, thing, name, why, unasked: None });
    match action {
        Action::CreatePod { name, .. } => telling("SuccessfulCreate", "made", "pod", name, None),
        Action::CreateClaim { name, .. } => telling("SuccessfulCreate", "made", "claim", name, None),
        Action::DeletePod { pod, cause, proof, .. } => {
            let reason = match cause {
                Cause::NotRegistered => "SlurmNodeNotRegistered",
                _ => "SuccessfulDelete",
            };
            let (verb, thing, why) = ("deleted", "pod", Some(*cause));
            Some(Telling { reason, verb, thing, name: &pod.name, why, unasked: unasked(*proof) })
        }
        Action::PatchImages { pod, .. } => {
            telling("SuccessfulUpdate", "changed the images of", "pod", &pod.name, None)
        }
        Action::AdoptPod { pod } => telling("SuccessfulUpdate", "adopted", "pod", &pod.name, None),
        Action::ReleasePod { pod } => telling("SuccessfulUpdate", "released", "pod", &pod.name, None),
        Action::RepairPod { pod } => {
            telling("SuccessfulUpdate", "gave labels back to", "pod", &pod.name, None)
        }
        Action::Drain { node, cause, .. } => {
            let reason = match cause {
                Cause::ScaleIn => "ScalingDown",
                Cause::Update => "RollingUpdate",
                Cause::NodeCordoned | Cause::PodCordoned => "NodeCordon",
                Cause::NotRegistered => "SlurmNodeNotRegistered",
                Cause::SetDeleted | Cause::Ended => "Draining",
            };
            telling(reason, "drained", "Slurm node", node, Some(*cause))
        }
        Action::Undrain { node, .. } => telling("Undrained", "undrained", "Slurm node", node, None),
        Action::DeleteSlurmNode { node } => {
            telling("DefunctSlurmNodePruned", "deleted the record of", "Slurm node", node, None)
        }
        Action::AddFinalizer
        | Action::AdoptRevision { .. }
        | Action::CreateRevision { .. }
        | Action::RenumberRevision { .. }
        | Action::SetClaimOwner { .. }
        | Action::SetComment { .. }
        | Action::MarkPod { .. }
        | Action::DeleteRevision { .. }
        | Action::RemoveFinalizer => None,
    }
}

/// Tells of actions of one kind that are done.
pub(super) fn done<K: Resource<DynamicType = ()>>(context: &Context, object: &K, actions: &[&Action]) {
    let all: Vec<Telling<'_>> = actions.iter().filter_map(|action| telling(action)).collect();
    let tell = |telling: &Telling<'_>, names: &str| {
        let why = telling.why.map(|why| format!(": {why}")).unwrap_or_default();
        let unasked = telling.unasked.map(|unasked| format!("; {unasked}")).unwrap_or_default();
        let note = format!("{} {} {names}{why}{unasked}", telling.verb, telling.thing);
        tracing::info!(reason = telling.reason, note, "a step is done");
        context.tell(object, EventType::Normal, telling.reason, &note);
    };
    match all.as_slice() {
        [] => {}
        few if few.len() <= SINGLE => few.iter().for_each(|telling| tell(telling, telling.name)),
        [first, .., last] => {
            tell(first, &format!("{} to {} ({} in all)", first.name, last.name, all.len()));
        }
        [only] => tell(only, only.name),
    }
}

/// Tells of an action that failed.
pub(super) fn failed<K: Resource<DynamicType = ()>>(
    context: &Context,
    object: &K,
    action: &Action,
    error: &Error,
) {
    let reason = match action {
        Action::CreatePod { .. } | Action::CreateClaim { .. } | Action::CreateRevision { .. } => {
            "FailedCreate"
        }
        Action::DeletePod { .. } | Action::DeleteRevision { .. } | Action::DeleteSlurmNode { .. } => {
            "FailedDelete"
        }
        Action::AddFinalizer | Action::RemoveFinalizer => "SyncFinalizerFailed",
        Action::AdoptPod { .. } | Action::ReleasePod { .. } | Action::AdoptRevision { .. } => {
            "ControllerRefFailed"
        }
        _ => "FailedUpdate",
    };
    context.tell(object, EventType::Warning, reason, &chain(error));
}

/// Tells of problems that are new.
pub(super) fn problems<K: Resource<DynamicType = ()>>(context: &Context, object: &K, new: &[Problem]) {
    for problem in new {
        context.tell(object, EventType::Warning, problem.reason, &problem.message);
    }
}
