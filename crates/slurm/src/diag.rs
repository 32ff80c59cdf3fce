//! How the controller is doing.

/// Counters of slurmctld. Times are microseconds; counts run since the last reset, at midnight as a rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diag {
    /// Threads that serve requests now.
    pub server_threads: u64,
    /// Messages that wait to go to nodes.
    pub agent_queue: u64,
    /// Messages that wait to go to slurmdbd.
    pub dbd_agent_queue: u64,
    /// How long the last scheduling cycle took.
    pub schedule_cycle_last: u64,
    /// How long the longest one took.
    pub schedule_cycle_max: u64,
    /// How long one takes on average.
    pub schedule_cycle_mean: u64,
    /// How long the last backfilling cycle took.
    pub backfill_cycle_last: u64,
    /// How long one takes on average.
    pub backfill_cycle_mean: u64,
    /// Jobs that wait.
    pub jobs_pending: u64,
    /// Jobs that run.
    pub jobs_running: u64,
    /// Jobs submitted.
    pub jobs_submitted: u64,
    /// Jobs started.
    pub jobs_started: u64,
    /// Jobs completed.
    pub jobs_completed: u64,
    /// Jobs cancelled.
    pub jobs_canceled: u64,
    /// Jobs that failed by a fault of Slurm.
    pub jobs_failed: u64,
    /// Requests by kind.
    pub rpcs_by_type: Vec<RpcCount>,
    /// Requests by user.
    pub rpcs_by_user: Vec<RpcCount>,
}

/// Requests of one kind, or of one user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RpcCount {
    /// The kind or the user.
    pub name: String,
    /// How many.
    pub count: u64,
    /// How long all of them took together, in microseconds.
    pub total_time: u64,
}
