//! Jobs to be submitted.

use crate::{JobId, Number};

/// A batch job to be submitted. Nothing is sent where there is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Submission {
    /// The script, with its `#!` line.
    pub script: String,
    /// The name of the job.
    pub name: Option<String>,
    /// Where it runs. Slurm wants it.
    pub working_directory: String,
    /// Its environment, as `NAME=value`. Slurm refuses a job without any.
    pub environment: Vec<String>,
    /// The partition.
    pub partition: Option<String>,
    /// The account that pays.
    pub account: Option<String>,
    /// How many nodes, as `2` or `2-4`.
    pub nodes: Option<String>,
    /// Nodes that it must have, as a host list.
    pub required_nodes: Option<String>,
    /// How many tasks.
    pub tasks: Option<u32>,
    /// The time limit in minutes.
    pub time_limit: Option<Number>,
    /// The tasks of an array, as `1-10%2`.
    pub array: Option<String>,
    /// The reservation that it uses.
    pub reservation: Option<String>,
    /// Where its output goes.
    pub standard_output: Option<String>,
    /// Where its errors go.
    pub standard_error: Option<String>,
    /// Free text.
    pub comment: Option<String>,
}

/// What Slurm answers to a submission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submitted {
    /// The number of the new job.
    pub id: JobId,
    /// What the cluster's own plugin says to the user.
    pub message: String,
}
