//! What Slurm says of a worker.

use std::time::Duration;

use slurm::{Job, Node, Occupancy};
use slurm_client::Snapshot;

/// A snapshot that was just read is young enough.
const MAX_AGE: Duration = Duration::from_secs(300);

/// What Slurm says of a worker.
#[derive(Clone, Debug)]
pub(super) enum Word<'a> {
    /// Nothing at all.
    Silent,
    /// That it has no such node.
    Absent,
    /// This.
    Told {
        /// The node.
        node: &'a Node,
        /// Whether jobs are on it, by the law.
        occupancy: Occupancy,
        /// The jobs that hold it.
        jobs: Vec<&'a Job>,
    },
}

impl<'a> Word<'a> {
    /// What the answer says of the node with this name.
    pub(super) fn of(answer: Result<&'a Snapshot, &str>, name: &str) -> Self {
        let Ok(snapshot) = answer else { return Self::Silent };
        match snapshot.node(name) {
            None => Self::Absent,
            Some(node) => Self::Told {
                node,
                occupancy: snapshot.occupancy(name, MAX_AGE),
                jobs: snapshot.jobs_on(name).map(|job| &**job).collect(),
            },
        }
    }

    /// The node, if Slurm told of it.
    pub(super) const fn node(&self) -> Option<&'a Node> {
        match self {
            Self::Told { node, .. } => Some(node),
            Self::Silent | Self::Absent => None,
        }
    }

    /// The jobs that hold the node.
    pub(super) fn jobs(&self) -> &[&'a Job] {
        match self {
            Self::Told { jobs, .. } => jobs,
            Self::Silent | Self::Absent => &[],
        }
    }
}
