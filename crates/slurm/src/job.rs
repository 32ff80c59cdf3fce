//! A job, as slurmctld knows it.

use std::fmt;
use std::sync::Arc;

use crate::{JobState, Number};

/// The number of a job. Each task of an array and each part of a heterogeneous job has its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub u32);

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A job. Times are seconds since 1970, 0 when there is none.
///
/// Small on purpose: a snapshot may hold 100,000 of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its number.
    pub id: JobId,
    /// The number of the array, if this is (tasks of) one.
    pub array_job_id: Option<JobId>,
    /// The task of the array, if this record is about a single one.
    pub array_task_id: Option<u32>,
    /// The number of the first part of a heterogeneous job, if this is a part of one.
    pub het_job_id: Option<JobId>,
    /// How many nodes it has or wants.
    pub node_count: u32,
    /// How many CPUs it has or wants.
    pub cpus: u32,
    /// Its state.
    pub state: JobState,
    /// The name that the user gave it.
    pub name: Box<str>,
    /// The nodes that it has, as a host list. Finished jobs keep it.
    pub nodes: Arc<str>,
    /// Who started it, and where.
    pub origin: Arc<JobOrigin>,
    /// Why it waits or failed.
    pub reason: Arc<str>,
    /// The resources that it has.
    pub tres: Arc<str>,
    /// When it was submitted.
    pub submit_time: u64,
    /// When it started, or is expected to.
    pub start_time: u64,
    /// When it ended, or is expected to.
    pub end_time: u64,
    /// Its time limit in minutes.
    pub time_limit: Number,
}

/// Who started a job, and where it runs: the same for many jobs, so they share it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobOrigin {
    /// The number of the user.
    pub user_id: u32,
    /// The name of the user.
    pub user: Arc<str>,
    /// The account that pays.
    pub account: Arc<str>,
    /// The partition, or several with commas while it waits.
    pub partition: Arc<str>,
    /// The quality of service.
    pub qos: Arc<str>,
    /// The reservation that it uses.
    pub reservation: Arc<str>,
}
