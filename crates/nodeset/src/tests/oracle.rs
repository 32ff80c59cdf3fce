//! What must hold of every plan, judged from the facts alone and without any code of the planner.

use std::collections::BTreeSet;

use slurm::{Job, JobBase, JobFlag, Node, NodeBase, NodeFlag};

use crate::*;

/// What the facts say of a node.
#[derive(Debug, PartialEq, Eq)]
enum Word<'f> {
    Seen(&'f Node),
    Missing,
    Nothing,
}

fn fresh<'f>(facts: &Facts<'f>) -> Option<Answer<'f>> {
    match facts.slurm {
        Slurm::Answer(answer)
            if answer.identity != Identity::Foreign
                && !answer.nodes.is_empty()
                && answer.nodes_read.asked >= answer.not_before =>
        {
            Some(answer)
        }
        _ => None,
    }
}

fn word<'f>(facts: &Facts<'f>, name: &str) -> Word<'f> {
    let Some(answer) = fresh(facts) else { return Word::Nothing };
    if let Some(node) = answer.nodes.iter().find(|node| *node.name == *name) {
        return Word::Seen(node);
    }
    let others = facts.pods.iter().any(|pod| answer.nodes.iter().any(|node| *node.name == *pod.slurm_node));
    if answer.identity == Identity::Proven || others { Word::Missing } else { Word::Nothing }
}

fn holds(job: &Job) -> bool {
    let flags =
        [JobFlag::Completing, JobFlag::Configuring, JobFlag::StageOut, JobFlag::Signaling, JobFlag::Resizing];
    !matches!(job.state.base(), Some(JobBase::Completed | JobBase::Pending))
        || flags.iter().any(|flag| job.state.has(*flag))
}

/// Whether the facts prove that no job is on the node and none can come.
fn is_free(facts: &Facts<'_>, pod: &Pod<'_>) -> bool {
    let jobs_clear = fresh(facts).is_some_and(|answer| {
        answer.jobs.is_some_and(|jobs| {
            jobs.read.asked >= answer.nodes_read.answered
                && jobs.read.asked >= answer.not_before
                && !jobs
                    .list
                    .iter()
                    .any(|job| holds(job) && job.nodes.split(',').any(|name| name == pod.slurm_node))
        })
    });
    let node_clear = match word(facts, pod.slurm_node) {
        Word::Seen(node) => {
            let state = &node.state;
            let quiet = matches!(state.base(), Some(NodeBase::Idle | NodeBase::Down))
                && !state.has(NodeFlag::Completing)
                && state.unknown().next().is_none();
            state.has(NodeFlag::Drain) && quiet
        }
        Word::Missing => {
            let started = pod.started.unwrap_or(pod.created);
            started.0 + facts.set.registration_grace.as_secs() <= facts.now.0
        }
        Word::Nothing => false,
    };
    jobs_clear && node_clear
}

fn pod<'f, 'a>(facts: &'f Facts<'a>, wanted: &PodRef) -> Result<&'f Pod<'a>, String> {
    let pod = facts.pods.iter().find(|pod| pod.name == wanted.name && pod.uid == wanted.uid);
    pod.filter(|pod| pod.resource_version == wanted.resource_version)
        .ok_or_else(|| format!("{} is not a pod of now", wanted.name))
}

/// Checks a plan against its facts.
pub(crate) fn check(facts: &Facts<'_>, plan: &Plan) -> Result<(), String> {
    for action in &plan.actions {
        match action {
            Action::DeletePod { pod: wanted, proof, cause, .. } => {
                let pod = pod(facts, wanted)?;
                check_proof(facts, pod, *proof)
                    .map_err(|error| format!("{error}, deleted because {cause}"))?;
                check_victim(facts, pod, *cause)?;
            }
            Action::PatchImages { pod: wanted, proof, .. } => {
                check_proof(facts, pod(facts, wanted)?, *proof)?;
            }
            Action::MarkPod { pod: wanted, marks } if marks.protected == Some(false) && facts.set.protect => {
                let pod = pod(facts, wanted)?;
                if !is_free(facts, pod) && !pod.forced && !facts.set.forced {
                    return Err(format!("{} lost its guard, and may run a job", pod.name));
                }
            }
            Action::Undrain { node, .. } => check_undrain(facts, node)?,
            Action::Drain { node, reason, .. } => {
                if !reason.starts_with(REASON_PREFIX) || reason.chars().count() > 256 {
                    return Err(format!("{node} is drained with the reason {reason:?}"));
                }
                if !matches!(word(facts, node), Word::Seen(_)) {
                    return Err(format!("{node} is drained, and nobody knows of it"));
                }
            }
            Action::RemoveFinalizer if !facts.pods.is_empty() => {
                return Err("the finalizer goes before the pods".into());
            }
            _ => {}
        }
    }
    check_names(facts, plan)?;
    check_budget(facts, plan)
}

/// New pods of `slinky.slurm.net` get names whose nodes somebody else drained before any others: the drain outlives its pod.
fn check_names(facts: &Facts<'_>, plan: &Plan) -> Result<(), String> {
    let Some(answer) = fresh(facts).filter(|_| facts.set.api == Api::Slinky) else { return Ok(()) };
    let others = |node: &Node| {
        let dynamic = node.state.has(NodeFlag::DynamicNorm) && node.comment.contains("podName");
        let admins = !is_ours(node) && !node.reason.starts_with("slurm-agent:");
        let pod = facts.pods.iter().any(|pod| pod.slurm_node == &*node.name);
        dynamic && admins && node.state.has(NodeFlag::Drain) && !pod
    };
    let held: BTreeSet<&str> =
        answer.nodes.iter().filter(|node| others(node)).map(|node| &*node.name).collect();
    let made = plan.actions.iter().filter_map(|action| match action {
        Action::CreatePod { node, .. } => Some(node.as_str()),
        _ => None,
    });
    let made: BTreeSet<&str> = made.collect();
    match (held.difference(&made).next(), made.difference(&held).next()) {
        (Some(held), Some(made)) => Err(format!("{made} is made in place of {held}, which somebody drained")),
        _ => Ok(()),
    }
}

fn check_proof(facts: &Facts<'_>, pod: &Pod<'_>, proof: Proof) -> Result<(), String> {
    let drain = facts.set.drain_on_delete;
    let over = |limit: Option<std::time::Duration>| {
        facts.set.deletion.is_some_and(|deletion| {
            limit.is_some_and(|limit| facts.now.0 >= deletion.asked.0 + limit.as_secs())
        })
    };
    let gone = facts.set.deletion.is_some() && matches!(facts.slurm, Slurm::NoCluster);
    let true_ = match proof {
        Proof::Drained | Proof::Absent => is_free(facts, pod),
        Proof::NeverStarted => pod.phase == PodPhase::Pending && pod.started.is_none(),
        Proof::Ended => matches!(pod.phase, PodPhase::Failed | PodPhase::Succeeded),
        Proof::NodeGone => pod.kube_node.as_ref().is_some_and(|node| node.gone),
        Proof::NoSteps => gone && pod.agent == Agent::Steps(0),
        Proof::NobodyToAsk => gone && !matches!(pod.agent, Agent::Steps(_)) && over(drain.without_slurm),
        Proof::Deadline => over(drain.deadline) && drain.force,
        Proof::DrainOff => facts.set.deletion.is_some() && !drain.enabled,
        Proof::Forced => pod.forced || facts.set.forced,
    };
    if true_ { Ok(()) } else { Err(format!("{} may run a job: {proof:?} is not proven", pod.name)) }
}

/// `slurm.nebius.ai` keeps ordinals contiguous, and neither API lets go of more than there are too many.
fn check_victim(facts: &Facts<'_>, pod: &Pod<'_>, cause: Cause) -> Result<(), String> {
    if cause != Cause::ScaleIn {
        return Ok(());
    }
    let live = facts.pods.iter().filter(|pod| !pod.terminating).count();
    if facts.set.api == Api::Slinky && live <= facts.set.replicas as usize {
        return Err(format!("{} leaves, and only {live} are left", pod.name));
    }
    let ordinal: u32 = pod.name[2..].parse().unwrap_or(u32::MAX);
    if facts.set.api == Api::Nebius && ordinal < facts.set.replicas {
        return Err(format!("{} leaves, and is not one of the highest", pod.name));
    }
    Ok(())
}

fn is_ours(node: &Node) -> bool {
    let stopped = &*node.reason == "preStop";
    node.reason.starts_with("slurm-operator:")
        || (stopped && node.comment.contains("podName") && !node.comment.contains("held"))
}

fn check_undrain(facts: &Facts<'_>, name: &str) -> Result<(), String> {
    let Word::Seen(node) = word(facts, name) else {
        return Err(format!("{name} is undrained, and nobody knows of it"));
    };
    if !is_ours(node) {
        return Err(format!("{name} is undrained, and {:?} is not our reason", node.reason));
    }
    let pod = facts.pods.iter().find(|pod| pod.slurm_node == name);
    let works = pod.is_some_and(|pod| {
        pod.ready.is_some() && pod.phase == PodPhase::Running && !pod.terminating && !pod.restarting
    });
    if works { Ok(()) } else { Err(format!("{name} is undrained before its pod works")) }
}

/// No healthy pod is taken for an update while as many are away as may be.
fn check_budget(facts: &Facts<'_>, plan: &Plan) -> Result<(), String> {
    let set = &facts.set;
    let drained = |pod: &Pod<'_>| match word(facts, pod.slurm_node) {
        Word::Seen(node) => node.state.has(NodeFlag::Drain) && is_ours(node),
        _ => false,
    };
    let (mut taken, mut taken_now, mut leaving) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for wait in &plan.waits {
        match wait.cause {
            Cause::ScaleIn => leaving.insert(wait.pod.as_str()),
            Cause::Update => taken.insert(wait.pod.as_str()),
            _ => false,
        };
    }
    for action in &plan.actions {
        match action {
            Action::DeletePod { pod, cause: Cause::ScaleIn, .. } => leaving.insert(pod.name.as_str()),
            Action::DeletePod { pod, cause: Cause::Update, .. } | Action::PatchImages { pod, .. } => {
                taken.insert(pod.name.as_str())
            }
            Action::Drain { pod, cause: Cause::Update, .. } => taken_now.insert(pod.as_str()),
            _ => false,
        };
    }
    let healthy = |pod: &Pod<'_>| pod.phase == PodPhase::Running && pod.ready.is_some();
    let live = |pod: &&Pod<'_>| {
        !pod.terminating
            && !leaving.contains(pod.name)
            && !matches!(pod.phase, PodPhase::Failed | PodPhase::Succeeded)
    };
    let kept: Vec<&Pod<'_>> = facts.pods.iter().filter(live).collect();
    let newly = kept.iter().filter(|pod| healthy(pod) && taken_now.contains(pod.name) && !drained(pod));
    if newly.count() == 0 {
        return Ok(());
    }
    let works = |pod: &Pod<'_>| {
        let up = match word(facts, pod.slurm_node) {
            Word::Seen(node) => {
                let agents = node.reason.starts_with("slurm-agent:");
                let others = node.state.has(NodeFlag::Drain) && !is_ours(node) && !agents;
                others
                    || matches!(
                        node.state.base(),
                        Some(NodeBase::Idle | NodeBase::Mixed | NodeBase::Allocated)
                    )
            }
            _ => false,
        };
        let cordoned = pod.cordon != Cordon::None || pod.kube_node.as_ref().is_some_and(|node| node.cordoned);
        healthy(pod) && up && !pod.restarting && (!drained(pod) || cordoned)
    };
    let is_new = |pod: &Pod<'_>| {
        let ordinal: u32 = pod.name[2..].parse().unwrap_or(0);
        pod.revision == Some(&plan.status.hash) || ordinal < set.partition
    };
    let empty = (set.replicas as usize).saturating_sub(kept.len());
    let away = empty
        + kept.iter().filter(|pod| is_new(pod) && !works(pod)).count()
        + kept.iter().filter(|pod| !is_new(pod) && healthy(pod) && taken.contains(pod.name)).count();
    let allowed = match set.max_unavailable {
        Amount::Count(count) => count as usize,
        Amount::Percent(percent) => (percent as usize * set.replicas as usize).div_ceil(100),
    };
    if away > allowed { Err(format!("{away} are away, and {allowed} may be")) } else { Ok(()) }
}
