//! What users are told about single steps: one event each, or one for many.

use engine::error::chain;
use engine::events::EventType;
use kube::Resource;
use nodeset::{Action, Cause, Plan, Problem, Proof};

use super::memory::Memory;
use super::{Connection, WorkerSet};
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

/// Tells what a set as a whole is about to do, or cannot do. Each is told once.
pub(super) fn states<S: WorkerSet>(context: &Context, set: &S, memory: &Memory, plan: &Plan) {
    let object = set.object();
    let made = |action: &&Action| matches!(action, Action::CreatePod { .. });
    let scales = plan.actions.iter().find(made).filter(|_| set.not_yet().is_none());
    let note = scales.map(|_| format!("makes pods until there are {}", set.set().replicas));
    tell_state(context, object, memory, EventType::Normal, "ScalingUp", note);
    let is_missing = matches!(set.connection(), Connection::NoCluster) && set.set().deletion.is_none();
    let note = is_missing.then(|| "the cluster that the set names is not there".to_owned());
    tell_state(context, object, memory, EventType::Warning, "ControllerRefFailed", note);
}

/// Tells what did not work and is no action: objects besides pods, the status.
pub(super) fn sync_failed<S: WorkerSet>(context: &Context, set: &S, memory: &Memory, error: Option<&Error>) {
    let note = error.map(|error| chain(error));
    tell_state(context, set.object(), memory, EventType::Warning, "SyncFailed", note);
}

fn tell_state<K: Resource<DynamicType = ()>>(
    context: &Context,
    object: &K,
    memory: &Memory,
    type_: EventType,
    reason: &'static str,
    note: Option<String>,
) {
    if memory.is_new(reason, note.as_deref())
        && let Some(note) = note
    {
        context.tell(object, type_, reason, &note);
    }
}

/// Tells of problems that are new.
pub(super) fn problems<K: Resource<DynamicType = ()>>(context: &Context, object: &K, new: &[Problem]) {
    for problem in new {
        context.tell(object, EventType::Warning, problem.reason, &problem.message);
    }
}

#[cfg(test)]
mod tests {
    use nodeset::PodRef;

    use super::*;

    #[test]
    fn reasons_are_those_that_users_of_the_original_know() {
        let pod = || PodRef { name: "w-0".into(), uid: "u".into(), resource_version: "1".into() };
        let drain =
            |cause| Action::Drain { node: "w-0".into(), pod: "w-0".into(), reason: String::new(), cause };
        let delete =
            |cause| Action::DeletePod { pod: pod(), node: "w-0".into(), cause, proof: Proof::Drained };
        let reason = |action: &Action| telling(action).map(|telling| telling.reason);
        for (action, wanted) in [
            (drain(Cause::ScaleIn), "ScalingDown"),
            (drain(Cause::Update), "RollingUpdate"),
            (drain(Cause::NodeCordoned), "NodeCordon"),
            (drain(Cause::PodCordoned), "NodeCordon"),
            (drain(Cause::SetDeleted), "Draining"),
            (delete(Cause::ScaleIn), "SuccessfulDelete"),
            (delete(Cause::NotRegistered), "SlurmNodeNotRegistered"),
            (Action::AdoptPod { pod: pod() }, "SuccessfulUpdate"),
            (Action::DeleteSlurmNode { node: "w-0".into() }, "DefunctSlurmNodePruned"),
        ] {
            assert_eq!(reason(&action), Some(wanted), "{action:?}");
        }
        assert_eq!(reason(&Action::RemoveFinalizer), None);
    }
}
