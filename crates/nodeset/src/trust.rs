//! How far Slurm's lists can be believed: law, rule 2.

use std::collections::{BTreeMap, BTreeSet};

use slurm::{Evidence, Job, JobId, Moment, Node, NodeView, Occupancy, Reason, occupancy};

use crate::facts::{Answer, Facts, Identity, Owner, Slurm};
use crate::time::UnixTime;

/// Why Slurm's word counts for nothing now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Distrust<'f> {
    /// There is no cluster to ask.
    NoCluster,
    /// Nobody answers.
    Silent(&'f str),
    /// The list of nodes is empty: slurmctld lost its state, or has not read it yet.
    Empty,
    /// The lists are another cluster's.
    Foreign,
    /// None of our nodes is in the list, and nobody can tell whether it is our cluster's.
    NoneOfOurs,
    /// The last answer is too old.
    Old,
    /// The list of jobs is missing.
    NoJobs,
}

impl Distrust<'_> {
    /// A word for it.
    pub(crate) const fn reason(self) -> &'static str {
        match self {
            Self::NoCluster => "NoCluster",
            Self::Silent(_) => "NoAnswer",
            Self::Empty => "EmptyList",
            Self::Foreign => "ForeignCluster",
            Self::NoneOfOurs => "NoneOfOurNodes",
            Self::Old => "OldAnswer",
            Self::NoJobs => "NoJobList",
        }
    }

    /// What is wrong, and what to do.
    pub(crate) fn message(self) -> String {
        match self {
            Self::NoCluster => "the cluster of this set does not exist; make it, or correct the name".into(),
            Self::Silent(why) => why.to_owned(),
            Self::Empty => "slurmctld says that it has no nodes at all, so nothing is believed to be free; \
                            check its state directory"
                .into(),
            Self::Foreign => {
                "another cluster answers than the one of this set, so nothing is believed to be free; \
                              check the address of slurmrestd and the token"
                    .into()
            }
            Self::NoneOfOurs => {
                "slurmctld lists nodes, but none of this set, so nothing is believed to be free; \
                                 check that the address of slurmrestd is the one of this cluster"
                    .into()
            }
            Self::Old => {
                "slurmrestd has not answered for too long; the last answer counts for nothing".into()
            }
            Self::NoJobs => "slurmrestd did not give its jobs, so nothing is believed to be free".into(),
        }
    }
}

/// Slurm's lists, as far as they are about this set, and how far they are believed.
#[derive(Debug)]
pub(crate) struct Lists<'f> {
    answer: Option<&'f Answer<'f>>,
    nodes: BTreeMap<&'f str, &'f Node>,
    distrust: Option<Distrust<'f>>,
    believes_absence: bool,
}

impl<'f> Lists<'f> {
    /// Reads the lists.
    pub(crate) fn new(facts: &'f Facts<'f>) -> Self {
        let answer = match &facts.slurm {
            Slurm::NoCluster => return Self::nothing(Distrust::NoCluster),
            Slurm::Silent(why) => return Self::nothing(Distrust::Silent(why)),
            Slurm::Answer(answer) => answer,
        };
        if !planted!(TrustsAnyList) {
            if answer.identity == Identity::Foreign {
                return Self::nothing(Distrust::Foreign);
            }
            if answer.nodes.is_empty() {
                return Self::nothing(Distrust::Empty);
            }
        }
        let ours = || facts.pods.iter().filter(|pod| pod.owner == Owner::Set);
        let names: BTreeSet<&str> = ours().map(|pod| pod.slurm_node).collect();
        let nodes: BTreeMap<&str, &Node> = answer
            .nodes
            .iter()
            .filter(|node| facts.set.ordinal_of_node(&node.name).is_some() || names.contains(&*node.name))
            .map(|node| (&*node.name, &**node))
            .collect();
        let any_of_pods = names.iter().any(|name| nodes.contains_key(name));
        let believes_absence = planted!(TrustsAnyList) || answer.identity == Identity::Proven || any_of_pods;
        let distrust = if answer.nodes_read.asked < answer.not_before {
            Some(Distrust::Old)
        } else if !believes_absence && ours().any(|pod| pod.started.is_some()) {
            Some(Distrust::NoneOfOurs)
        } else {
            match answer.jobs {
                None => Some(Distrust::NoJobs),
                Some(jobs) if jobs.read.asked < answer.not_before => Some(Distrust::Old),
                Some(_) => None,
            }
        };
        Self { answer: Some(answer), nodes, distrust, believes_absence }
    }

    const fn nothing(distrust: Distrust<'f>) -> Self {
        Self { answer: None, nodes: BTreeMap::new(), distrust: Some(distrust), believes_absence: false }
    }

    /// Why the lists count for nothing, if they do.
    pub(crate) const fn distrust(&self) -> Option<Distrust<'f>> {
        self.distrust
    }

    /// Whether there are lists of our cluster, however old.
    pub(crate) const fn any(&self) -> bool {
        self.answer.is_some()
    }

    /// Whether the list of nodes is young enough to act on.
    pub(crate) fn is_fresh(&self) -> bool {
        self.answer.is_some_and(|answer| answer.nodes_read.asked >= not_before(answer))
    }

    /// Whether a node that is not in the list is not there.
    pub(crate) fn knows_absence(&self) -> bool {
        self.is_fresh() && self.believes_absence
    }

    /// The node with this name, however old the list is.
    pub(crate) fn node(&self, name: &str) -> Option<&'f Node> {
        self.nodes.get(name).copied()
    }

    /// All nodes that have names of this set.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = &'f Node> {
        self.nodes.values().copied()
    }

    /// Whether jobs are on the node, by the law.
    pub(crate) fn occupancy(&self, name: &str) -> Occupancy {
        let Some(answer) = self.answer else {
            return if planted!(UnknownIsFree) {
                Occupancy::Free
            } else {
                Occupancy::Busy(Reason::NodeUnknown)
            };
        };
        let node = match self.node(name) {
            Some(node) => NodeView::Seen(node, answer.nodes_read),
            None if self.believes_absence => NodeView::Absent(answer.nodes_read),
            None => NodeView::Unknown,
        };
        let jobs = answer.jobs.map(|jobs| (jobs.holders, jobs.read));
        let evidence = Evidence { node, jobs, not_before: not_before(answer) };
        #[cfg(test)]
        if let Some(wrong) = crate::bug::wrong_occupancy(name, &evidence) {
            return wrong;
        }
        occupancy(name, &evidence)
    }

    /// When the last job on the node ends.
    pub(crate) fn until(&self, name: &str, occupancy: &Occupancy) -> Until {
        let known = self.answer.and_then(|answer| answer.jobs);
        let Some(jobs) = known.filter(|_| occupancy.is_busy()) else {
            return if occupancy.is_busy() { Until::Unknown } else { Until::Over };
        };
        let ends = jobs.holders.of(name).iter().map(|id| end_of(jobs.list, *id));
        // Busy, and no job says so: then nobody knows.
        ends.max().unwrap_or(Until::Unknown)
    }
}

fn not_before(answer: &Answer<'_>) -> Moment {
    if planted!(OldIsFresh) { Moment::default() } else { answer.not_before }
}

/// When a node becomes free.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Until {
    /// No job is on it.
    Over,
    /// The time limit of the last job ends then.
    At(UnixTime),
    /// There is no limit, or nobody knows.
    Unknown,
}

impl Until {
    /// The time, if it is known.
    pub(crate) const fn time(self) -> Option<UnixTime> {
        match self {
            Self::At(time) => Some(time),
            Self::Over | Self::Unknown => None,
        }
    }
}

fn end_of(jobs: &[std::sync::Arc<Job>], id: JobId) -> Until {
    let job = jobs.binary_search_by_key(&id, |job| job.id).ok().map(|at| &jobs[at]);
    let end = job.filter(|job| job.start_time > 0).and_then(|job| {
        let minutes = job.time_limit.value()?;
        Some(UnixTime(job.start_time.saturating_add(minutes.saturating_mul(60))))
    });
    end.map_or(Until::Unknown, Until::At)
}
