//! Whether the controllers answer.

/// What slurmrestd found when it asked a slurmctld for a sign of life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerPing {
    /// The host of the controller.
    pub hostname: String,
    /// Whether it answered. It does not answer a request with a forged token either.
    pub responding: bool,
    /// Whether it is the primary one.
    pub primary: bool,
    /// How long the answer took, in microseconds; 0 when Slurm does not tell.
    pub latency: u64,
}
