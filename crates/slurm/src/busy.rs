//! Whether a node is busy: the law "jobs are sacred", in one place.
//!
//! 1. Busy comes from jobs and nodes together: a node with a suspended job reads IDLE.
//! 2. Unknown is busy.
//!
//! [`occupancy`] is the only way to [`Occupancy::Free`], and it wants to know when each list was asked for and when its answer
//! came, so that nobody can leave out a part of the law by accident.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::{Hold, HostList, Job, JobId, Node, NodeBase};

/// More places of jobs on nodes than this are not indexed; the jobs beyond count for every node.
const MAX_PLACES: usize = 5_000_000;

/// A point on a clock that never goes back. All moments that are compared must come from one clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(Duration);

impl Moment {
    /// The moment that lies so far behind the start of the clock.
    pub const fn after_start(time: Duration) -> Self {
        Self(time)
    }

    /// The moment that lies so much earlier, or the start of the clock.
    pub const fn earlier(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(by))
    }

    /// How long ago the other moment was; zero if it is still to come.
    pub const fn since(self, other: Self) -> Duration {
        self.0.saturating_sub(other.0)
    }
}

/// When a list was asked for, and when its answer was complete. What it tells was true somewhere in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Before the request was sent.
    pub asked: Moment,
    /// After the answer had come.
    pub answered: Moment,
}

impl Reading {
    /// Whether this was asked for only after the other answer had come.
    pub fn is_after(&self, other: &Self) -> bool {
        self.asked >= other.answered
    }
}

/// What is known of one node.
#[derive(Clone, Copy, Debug)]
pub enum NodeView<'a> {
    /// Slurm told about it.
    Seen(&'a Node, Reading),
    /// Slurm told that there is no such node: it is missing from a complete list, or a lookup said so.
    Absent(Reading),
    /// Nobody can tell: no answer, or a list that is not known to be complete.
    Unknown,
}

/// Everything that [`occupancy`] needs to know.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    /// What is known of the node.
    pub node: NodeView<'a>,
    /// The jobs, if their list is complete, and when it was read.
    pub jobs: Option<(&'a Holders, Reading)>,
    /// What was asked for before this moment is too old.
    pub not_before: Moment,
}

/// Whether jobs are on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Occupancy {
    /// Jobs are on it, or may be.
    Busy(Reason),
    /// No job is on it, but the next may come at any moment. Drain it, then look again.
    Idle,
    /// No job is on it, and none can come. Only now may the node be taken away.
    Free,
}

impl Occupancy {
    /// Whether jobs are on the node, or may be.
    pub const fn is_busy(&self) -> bool {
        matches!(self, Self::Busy(_))
    }

    /// Whether the node may be taken away.
    pub const fn is_free(&self) -> bool {
        matches!(self, Self::Free)
    }
}

/// Why a node counts as busy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A job holds it.
    Job(JobId),
    /// A job holds nodes, and nobody can tell which.
    JobSomewhere(JobId),
    /// Its own state says that jobs are on it.
    State(String),
    /// Its state has words that we do not know, or says that Slurm does not know.
    UnclearState(String),
    /// Nobody can tell anything of the node.
    NodeUnknown,
    /// What is known of the node is too old.
    NodeOld,
    /// There is no complete list of jobs.
    JobsUnknown,
    /// The list of jobs is too old.
    JobsOld,
    /// The jobs were asked for before the node was seen drained, so one may have started in between.
    JobsBeforeNode,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Job(id) => write!(f, "job {id} is on it"),
            Self::JobSomewhere(id) => write!(f, "job {id} holds nodes, and its list of nodes cannot be read"),
            Self::State(state) => write!(f, "its state is {state}"),
            Self::UnclearState(state) if state.is_empty() => f.write_str("it has no state"),
            Self::UnclearState(state) => write!(f, "its state {state} does not tell whether jobs are on it"),
            Self::NodeUnknown => f.write_str("Slurm did not tell about the node"),
            Self::NodeOld => f.write_str("what Slurm told about the node is too old"),
            Self::JobsUnknown => f.write_str("Slurm did not tell its jobs"),
            Self::JobsOld => f.write_str("what Slurm told about its jobs is too old"),
            Self::JobsBeforeNode => f.write_str("the jobs were read before the node was seen drained"),
        }
    }
}

/// Which jobs hold which nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holders {
    by_node: BTreeMap<Box<str>, Vec<JobId>>,
    /// Jobs that hold nodes, but nobody can tell which: they count for every node.
    everywhere: Vec<JobId>,
}

impl Holders {
    /// Reads a **complete** list of jobs.
    pub fn new<'a>(jobs: impl IntoIterator<Item = &'a Job>) -> Self {
        let mut holders = Self::default();
        let mut places = 0;
        for job in jobs {
            match (job.state.holds_nodes(), &*job.nodes) {
                (Hold::HoldsNot, _) => {}
                // Whatever the unknown word means, a job that waits or is over and names no node has none.
                (Hold::Unclear, "") if job.state.base().is_some() => {}
                (Hold::Holds | Hold::Unclear, nodes) => match HostList::parse(nodes) {
                    Ok(list) if !list.is_empty() && places + list.len() <= MAX_PLACES => {
                        places += list.len();
                        for name in list.names() {
                            holders.by_node.entry(String::from(name).into()).or_default().push(job.id);
                        }
                    }
                    _ => holders.everywhere.push(job.id),
                },
            }
        }
        holders
    }

    /// The jobs that hold the node, as far as they name it.
    pub fn of(&self, node: &str) -> &[JobId] {
        self.by_node.get(node).map_or(&[], Vec::as_slice)
    }

    /// The jobs that hold nodes, and nobody can tell which.
    pub fn everywhere(&self) -> &[JobId] {
        &self.everywhere
    }

    /// The nodes that jobs hold, with those jobs.
    pub fn nodes(&self) -> impl Iterator<Item = (&str, &[JobId])> {
        self.by_node.iter().map(|(name, jobs)| (&**name, jobs.as_slice()))
    }
}

/// Judges whether jobs are on the node with this name.
pub fn occupancy(name: &str, evidence: &Evidence<'_>) -> Occupancy {
    match judge(name, evidence) {
        Ok(occupancy) => occupancy,
        Err(reason) => Occupancy::Busy(reason),
    }
}

fn judge(name: &str, evidence: &Evidence<'_>) -> Result<Occupancy, Reason> {
    let (holders, jobs_read) = evidence.jobs.ok_or(Reason::JobsUnknown)?;
    if jobs_read.asked < evidence.not_before {
        return Err(Reason::JobsOld);
    }
    if let Some(job) = holders.of(name).first() {
        return Err(Reason::Job(*job));
    }
    if let Some(job) = holders.everywhere().first() {
        return Err(Reason::JobSomewhere(*job));
    }
    let (node_read, takes_no_jobs) = match evidence.node {
        NodeView::Unknown => return Err(Reason::NodeUnknown),
        NodeView::Absent(read) => (read, true),
        NodeView::Seen(node, read) => (read, judge_state(node)?),
    };
    if node_read.asked < evidence.not_before {
        return Err(Reason::NodeOld);
    }
    if !takes_no_jobs {
        return Ok(Occupancy::Idle);
    }
    if !jobs_read.is_after(&node_read) {
        return Err(Reason::JobsBeforeNode);
    }
    Ok(Occupancy::Free)
}

/// Whether the node takes no more jobs, if its state shows none.
fn judge_state(node: &Node) -> Result<bool, Reason> {
    let state = &node.state;
    if state.is_at_work() {
        return Err(Reason::State(state.to_string()));
    }
    if !state.is_understood() || matches!(state.base(), Some(NodeBase::Unknown | NodeBase::Error)) {
        return Err(Reason::UnclearState(state.to_string()));
    }
    Ok(state.is_drained())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{JobState, NodeState, Number};

    fn node(state: &str) -> Node {
        Node {
            name: "w-1".into(),
            state: NodeState::from_words(state.split('+').filter(|w| !w.is_empty())),
            ..Node::default()
        }
    }

    fn job(id: u32, state: &str, nodes: &str) -> Job {
        Job {
            id: JobId(id),
            array_job_id: None,
            array_task_id: None,
            het_job_id: None,
            node_count: 1,
            cpus: 1,
            state: JobState::from_words(state.split('+')),
            name: "".into(),
            nodes: nodes.into(),
            origin: Arc::default(),
            reason: "".into(),
            tres: "".into(),
            submit_time: 0,
            start_time: 0,
            end_time: 0,
            time_limit: Number::Unset,
        }
    }

    const fn at(second: u64) -> Moment {
        Moment::after_start(Duration::from_secs(second))
    }

    const fn read(asked: u64, answered: u64) -> Reading {
        Reading { asked: at(asked), answered: at(answered) }
    }

    /// The node was read in seconds 10 to 11, the jobs in seconds 11 to 12, and both are young enough.
    fn judged(state: &str, jobs: &[Job]) -> Occupancy {
        let (node, holders) = (node(state), Holders::new(jobs));
        let evidence = Evidence {
            node: NodeView::Seen(&node, read(10, 11)),
            jobs: Some((&holders, read(11, 12))),
            not_before: at(5),
        };
        occupancy("w-1", &evidence)
    }

    #[test]
    fn a_drained_node_without_jobs_is_free() {
        assert_eq!(judged("IDLE+DRAIN", &[]), Occupancy::Free);
        assert_eq!(judged("DOWN+DRAIN+NOT_RESPONDING", &[]), Occupancy::Free);
        assert_eq!(
            judged("IDLE+DRAIN", &[job(1, "COMPLETED", "w-1"), job(2, "PENDING", "")]),
            Occupancy::Free
        );
    }

    #[test]
    fn an_idle_node_that_takes_jobs_is_not_free() {
        for state in ["IDLE", "DOWN", "IDLE+PLANNED", "FUTURE", "IDLE+DRAIN+UNDRAIN"] {
            assert_eq!(judged(state, &[]), Occupancy::Idle, "{state}");
        }
    }

    #[test]
    fn every_holding_job_makes_its_node_busy_whatever_the_nodes_state() {
        for state in [
            "RUNNING",
            "SUSPENDED",
            "RUNNING+STOPPED",
            "COMPLETED+COMPLETING",
            "RUNNING+CONFIGURING",
            "COMPLETED+STAGE_OUT",
            "PENDING+SIGNALING",
            "PENDING+RESIZING",
        ] {
            for node in ["IDLE", "IDLE+DRAIN", "DOWN+DRAIN"] {
                let busy = judged(node, &[job(7, state, "w-[0-3]")]);
                assert_eq!(busy, Occupancy::Busy(Reason::Job(JobId(7))), "{state} on {node}");
            }
            assert_eq!(
                judged("IDLE+DRAIN", &[job(7, state, "w-[2-3]")]),
                Occupancy::Free,
                "{state} elsewhere"
            );
        }
    }

    #[test]
    fn the_nodes_own_state_makes_it_busy_without_any_job() {
        for state in ["ALLOCATED", "MIXED", "ALLOCATED+DRAIN", "MIXED+DRAIN", "IDLE+COMPLETING+DRAIN"] {
            assert_eq!(judged(state, &[]), Occupancy::Busy(Reason::State(state.into())));
        }
    }

    #[test]
    fn a_state_that_nobody_can_read_is_busy() {
        for state in ["", "DRAIN", "UNKNOWN+DRAIN", "ERROR+DRAIN", "IDLE+DRAIN+WOBBLING", "WOBBLING+DRAIN"] {
            assert!(matches!(judged(state, &[]), Occupancy::Busy(Reason::UnclearState(_))), "{state}");
        }
    }

    #[test]
    fn a_job_in_an_unknown_state_holds_the_nodes_that_it_names() {
        let busy = judged("IDLE+DRAIN", &[job(7, "WOBBLING", "w-1")]);
        assert_eq!(busy, Occupancy::Busy(Reason::Job(JobId(7))));
        let busy = judged("IDLE+DRAIN", &[job(7, "COMPLETED+WOBBLING", "w-1")]);
        assert_eq!(busy, Occupancy::Busy(Reason::Job(JobId(7))));
        assert_eq!(judged("IDLE+DRAIN", &[job(7, "PENDING+WOBBLING", "")]), Occupancy::Free);
    }

    #[test]
    fn a_holding_job_whose_nodes_cannot_be_read_makes_every_node_busy() {
        for nodes in ["", "w-[1", "w-[0-99999999]", "w-[5-1]"] {
            let busy = judged("IDLE+DRAIN", &[job(7, "RUNNING", nodes)]);
            assert_eq!(busy, Occupancy::Busy(Reason::JobSomewhere(JobId(7))), "{nodes}");
        }
        let busy = judged("IDLE+DRAIN", &[job(7, "WOBBLING", "")]);
        assert_eq!(busy, Occupancy::Busy(Reason::JobSomewhere(JobId(7))));
    }

    #[test]
    fn no_answer_is_busy() {
        let (node, holders) = (node("IDLE+DRAIN"), Holders::default());
        let good = Evidence {
            node: NodeView::Seen(&node, read(10, 11)),
            jobs: Some((&holders, read(11, 12))),
            not_before: at(5),
        };
        assert_eq!(occupancy("w-1", &good), Occupancy::Free);
        let no_node = Evidence { node: NodeView::Unknown, ..good };
        assert_eq!(occupancy("w-1", &no_node), Occupancy::Busy(Reason::NodeUnknown));
        let no_jobs = Evidence { jobs: None, ..good };
        assert_eq!(occupancy("w-1", &no_jobs), Occupancy::Busy(Reason::JobsUnknown));
    }

    #[test]
    fn an_old_answer_is_busy() {
        let (node, holders) = (node("IDLE+DRAIN"), Holders::default());
        let good = Evidence {
            node: NodeView::Seen(&node, read(10, 11)),
            jobs: Some((&holders, read(11, 12))),
            not_before: at(10),
        };
        assert_eq!(occupancy("w-1", &good), Occupancy::Free);
        let old_node = Evidence { not_before: at(11), ..good };
        assert_eq!(occupancy("w-1", &old_node), Occupancy::Busy(Reason::NodeOld));
        let both_old = Evidence { not_before: at(12), ..good };
        assert_eq!(occupancy("w-1", &both_old), Occupancy::Busy(Reason::JobsOld));
    }

    #[test]
    fn jobs_asked_for_before_the_node_was_seen_drained_prove_nothing() {
        let (node, holders) = (node("IDLE+DRAIN"), Holders::default());
        for jobs_asked in [8, 10] {
            let evidence = Evidence {
                node: NodeView::Seen(&node, read(10, 11)),
                jobs: Some((&holders, read(jobs_asked, 15))),
                not_before: at(5),
            };
            assert_eq!(occupancy("w-1", &evidence), Occupancy::Busy(Reason::JobsBeforeNode));
        }
    }

    #[test]
    fn a_node_that_slurm_does_not_have_is_free_unless_a_job_names_it() {
        let absent = |jobs: &[Job], jobs_asked| {
            let holders = Holders::new(jobs);
            occupancy(
                "w-1",
                &Evidence {
                    node: NodeView::Absent(read(10, 11)),
                    jobs: Some((&holders, read(jobs_asked, 15))),
                    not_before: at(5),
                },
            )
        };
        assert_eq!(absent(&[], 11), Occupancy::Free);
        assert_eq!(absent(&[], 9), Occupancy::Busy(Reason::JobsBeforeNode));
        assert_eq!(absent(&[job(7, "RUNNING", "w-1")], 11), Occupancy::Busy(Reason::Job(JobId(7))));
    }

    #[test]
    fn tasks_of_arrays_and_parts_of_heterogeneous_jobs_count_one_by_one() {
        let task = Job { array_job_id: Some(JobId(5)), array_task_id: Some(1), ..job(6, "RUNNING", "w-1") };
        let part = Job { het_job_id: Some(JobId(8)), ..job(9, "RUNNING", "w-2") };
        let holders = Holders::new(&[task, part]);
        assert_eq!(holders.of("w-1"), [JobId(6)]);
        assert_eq!(holders.of("w-2"), [JobId(9)]);
    }
}
