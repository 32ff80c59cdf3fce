//! What Slurm says.

use std::sync::Arc;

use slurm::{Holders, Job, Moment, Node, Reading};

/// What Slurm says of its nodes and jobs, or why it says nothing.
#[derive(Clone, Copy, Debug)]
pub enum Slurm<'a> {
    /// The SlurmCluster or Cluster does not exist. While the set is being deleted this means "gone for good".
    NoCluster,
    /// Nobody can be asked, or nobody answered yet: the token is missing, the server is down... The text says which, and is
    /// shown to the user.
    Silent(&'a str),
    /// It answered, now or earlier.
    Answer(Answer<'a>),
}

/// The lists that Slurm sent last.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a> {
    /// Whose lists these are.
    pub identity: Identity,
    /// Every node: the list must be complete.
    pub nodes: &'a [Arc<Node>],
    /// When the nodes were read.
    pub nodes_read: Reading,
    /// Every job; none if no complete list of them was read.
    pub jobs: Option<Jobs<'a>>,
    /// What was asked for before this moment is too old. It is never earlier than the front end's own last write to Slurm.
    pub not_before: Moment,
}

/// All jobs.
#[derive(Clone, Copy, Debug)]
pub struct Jobs<'a> {
    /// Which of them hold which nodes.
    pub holders: &'a Holders,
    /// The jobs, sorted by number: for the times when they end. A job that is not in here ends nobody knows when.
    pub list: &'a [Arc<Job>],
    /// When they were read.
    pub read: Reading,
}

/// Whose lists these are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity {
    /// Slurm told the name of its cluster, and it is the expected one.
    Proven,
    /// Nobody knows which name to expect. A node is then believed to be missing only if others of the set are there.
    Unproven,
    /// Slurm told another name.
    Foreign,
}
