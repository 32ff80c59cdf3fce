//! The one clock by which readings are compared.

use std::sync::LazyLock;

use slurm::Moment;
use tokio::time::Instant;

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Now, on the clock of all moments of this process.
pub fn now() -> Moment {
    Moment::after_start(START.elapsed())
}
