//! Whether a worker may go by what Slurm and the worker's agent say, and what a user is told who may not delete it.

use std::time::Duration;

use nodeset::{Api, Identity};
use slurm::agent::AgentState;
use slurm::{Job, Occupancy, Reason};
use slurm_client::Snapshot;

use super::worker::Worker;
use crate::worker_pods::FORCE_DELETE;

/// An answer of Slurm that is older counts for nothing. It was chosen to be a fresh one before.
const MAX_AGE: Duration = Duration::from_secs(15);
/// Jobs that are told one by one; of more, only the number.
const MOST_JOBS: usize = 5;

/// What is known of a worker's jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word {
    /// None is on it.
    NoJob,
    /// Some are on it; the text names them.
    Busy(String),
    /// Nobody can tell, and why.
    Unknown(String),
}

/// What Slurm says of a worker's node.
pub fn of_slurm(snapshot: &Snapshot, identity: Identity, node: &str) -> Word {
    let seen = Seen {
        any_nodes: !snapshot.nodes().is_empty(),
        knows_node: snapshot.node(node).is_some(),
        occupancy: snapshot.occupancy(node, MAX_AGE),
        jobs: snapshot.jobs_on(node).map(|job| job_text(job)).collect(),
    };
    judge(node, identity, seen)
}

/// What Slurm's lists hold of a node.
struct Seen {
    any_nodes: bool,
    knows_node: bool,
    occupancy: Occupancy,
    jobs: Vec<String>,
}

fn judge(node: &str, identity: Identity, seen: Seen) -> Word {
    if identity == Identity::Foreign {
        return Word::Unknown("another Slurm cluster answers than the one of this worker".into());
    }
    if !seen.any_nodes {
        return Word::Unknown("slurmctld says that it has no nodes at all".into());
    }
    if !seen.knows_node && identity != Identity::Proven {
        return Word::Unknown(format!("slurmctld lists nodes, but no {node}, and may be another cluster's"));
    }
    let reason = match seen.occupancy {
        // Onto an idle node the next job may come at any moment; but whoever deletes its pod wants that.
        Occupancy::Idle | Occupancy::Free => return Word::NoJob,
        Occupancy::Busy(reason) => reason,
    };
    match reason {
        Reason::Job(_) if !seen.jobs.is_empty() => Word::Busy(list(&seen.jobs)),
        Reason::Job(_) | Reason::JobSomewhere(_) | Reason::State(_) | Reason::UnclearState(_) => {
            Word::Busy(reason.to_string())
        }
        Reason::NodeUnknown
        | Reason::NodeOld
        | Reason::JobsUnknown
        | Reason::JobsOld
        | Reason::JobsBeforeNode => Word::Unknown(reason.to_string()),
    }
}

fn job_text(job: &Job) -> String {
    let (name, user) = (&*job.name, &*job.origin.user);
    let about: Vec<&str> = [name, user].into_iter().filter(|text| !text.is_empty()).collect();
    let about = if about.is_empty() { String::new() } else { format!(" ({})", about.join(" of ")) };
    format!("job {}{about} is on it", job.id)
}

fn list(texts: &[String]) -> String {
    let mut shown = texts.iter().take(MOST_JOBS).cloned().collect::<Vec<_>>().join(", ");
    if texts.len() > MOST_JOBS {
        shown.push_str(&format!(", and {} more", texts.len() - MOST_JOBS));
    }
    shown
}

/// What the agent of a worker says, for when Slurm cannot say anything any more.
pub fn of_agent(state: &AgentState) -> Word {
    match state.running_steps() {
        Some(steps) if steps.is_empty() => Word::NoJob,
        Some(steps) => {
            let steps: Vec<String> = steps.iter().map(|step| format!("job step {step} runs on it")).collect();
            Word::Busy(list(&steps))
        }
        None => Word::Unknown(format!("the agent of the pod runs {:?} and knows no job steps", state.daemon)),
    }
}

/// The refusal. It names what is there, and the ways out.
pub fn refusal(worker: &Worker, word: &Word) -> String {
    let (pod, node) = (&worker.pod.name, &worker.node);
    let (what, wait) = match word {
        Word::Busy(jobs) => (
            format!("pod {pod} is the Slurm node {node}: {jobs}"),
            "let its jobs end: drain the node, and delete the pod when it is drained".to_string(),
        ),
        Word::NoJob => (format!("pod {pod} is the Slurm node {node}"), "try again".into()),
        Word::Unknown(why) => (
            format!("pod {pod} is the Slurm node {node}, and nobody can tell whether jobs are on it: {why}"),
            "try again when Slurm answers".to_string(),
        ),
    };
    let annotation = match worker.api {
        Api::Nebius => FORCE_DELETE[0],
        Api::Slinky => FORCE_DELETE[1],
    };
    let namespace = &worker.pod.namespace;
    format!(
        "{what}; {wait}. To end its jobs with it: kubectl annotate pod {pod} --namespace {namespace} {annotation}=true"
    )
}

#[cfg(test)]
mod tests {
    use slurm::JobId;

    use super::*;
    use crate::admission::guards::worker::{read, tests::pod};

    fn worker() -> Worker {
        read(&serde_json::from_value(pod()).unwrap()).unwrap()
    }

    fn steps(steps: Option<&[&str]>) -> AgentState {
        let job_steps = steps.map(|steps| steps.iter().map(ToString::to_string).collect());
        AgentState { daemon: "slurmd".into(), job_steps, ..AgentState::default() }
    }

    #[test]
    fn an_agent_that_sees_no_step_lets_the_pod_go_and_one_that_does_not_look_does_not() {
        assert_eq!(of_agent(&steps(Some(&[]))), Word::NoJob);
        let busy = of_agent(&steps(Some(&["7.batch", "7.0"])));
        assert_eq!(busy, Word::Busy("job step 7.batch runs on it, job step 7.0 runs on it".into()));
        assert!(matches!(of_agent(&steps(None)), Word::Unknown(_)));
        let ended = |all| AgentState { ended_steps: vec!["7.batch".into()], ..steps(Some(all)) };
        assert_eq!(of_agent(&ended(&["7.batch"])), Word::NoJob, "it waits for nobody");
        assert_eq!(of_agent(&ended(&["7.0", "7.batch"])), Word::Busy("job step 7.0 runs on it".into()));
    }

    fn idle() -> Seen {
        Seen { any_nodes: true, knows_node: true, occupancy: Occupancy::Idle, jobs: Vec::new() }
    }

    fn word(identity: Identity, seen: Seen) -> Word {
        judge("worker-1", identity, seen)
    }

    #[test]
    fn a_node_without_jobs_may_go_also_if_it_is_not_drained() {
        assert_eq!(word(Identity::Unproven, idle()), Word::NoJob);
        assert_eq!(word(Identity::Proven, Seen { occupancy: Occupancy::Free, ..idle() }), Word::NoJob);
    }

    #[test]
    fn a_node_that_slurm_does_not_list_has_no_jobs_only_if_it_is_the_right_slurm() {
        let absent = || Seen { knows_node: false, occupancy: Occupancy::Free, ..idle() };
        assert_eq!(word(Identity::Proven, absent()), Word::NoJob);
        assert!(matches!(word(Identity::Unproven, absent()), Word::Unknown(_)));
        assert!(matches!(word(Identity::Foreign, idle()), Word::Unknown(_)));
        let empty = Seen { any_nodes: false, ..absent() };
        assert!(matches!(word(Identity::Proven, empty), Word::Unknown(_)), "slurmctld lost its state");
    }

    #[test]
    fn whatever_slurm_does_not_rule_out_holds_the_pod() {
        let busy = |reason| Seen { occupancy: Occupancy::Busy(reason), ..idle() };
        let named =
            Seen { jobs: vec!["job 7 (train of alice) is on it".into()], ..busy(Reason::Job(JobId(7))) };
        assert_eq!(word(Identity::Proven, named), Word::Busy("job 7 (train of alice) is on it".into()));
        for reason in [Reason::JobSomewhere(JobId(7)), Reason::State("MIXED".into()), Reason::Job(JobId(7))] {
            assert!(matches!(word(Identity::Proven, busy(reason)), Word::Busy(_)));
        }
        for reason in [Reason::JobsOld, Reason::NodeOld, Reason::JobsUnknown, Reason::NodeUnknown] {
            assert!(matches!(word(Identity::Proven, busy(reason)), Word::Unknown(_)));
        }
    }

    #[test]
    fn the_refusal_names_the_job_and_says_how_to_force() {
        let told = refusal(&worker(), &Word::Busy("job 7 (train of alice) is on it".into()));
        assert_eq!(
            told,
            "pod c-worker-1 is the Slurm node worker-1: job 7 (train of alice) is on it; let its jobs end: drain the \
             node, and delete the pod when it is drained. To end its jobs with it: kubectl annotate pod c-worker-1 \
             --namespace n slurm.nebius.ai/force-delete=true"
        );
        let told = refusal(&worker(), &Word::Unknown("slurmrestd is down".into()));
        assert!(
            told.contains("nobody can tell whether jobs are on it: slurmrestd is down; try again"),
            "{told}"
        );
        let slinky = Worker { api: Api::Slinky, ..worker() };
        assert!(refusal(&slinky, &Word::NoJob).ends_with("slinky.slurm.net/force-delete=true"));
    }

    #[test]
    fn endless_lists_of_jobs_are_cut() {
        let texts: Vec<String> = (0..8).map(|number| format!("job {number}")).collect();
        assert_eq!(list(&texts), "job 0, job 1, job 2, job 3, job 4, and 3 more");
    }
}
