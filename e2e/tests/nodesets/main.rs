//! Sets of workers of both APIs, with real Slurm and real jobs: they scale, roll and go without ever ending a job.
//!
//! All tests but one share a cluster, and each has sets of its own in it. The one takes a cluster away with its namespace.

#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic, reason = "this file is a test")]

mod deletion;
mod drains;
mod guard;
mod jobs;
mod place;
mod scale_in;
mod slinky;
mod update;
mod workers;

use anyhow::Result;

/// Does two things at the same time: most of it is waiting.
fn both<A: Send, B: Send>(
    one: impl FnOnce() -> Result<A> + Send,
    two: impl FnOnce() -> Result<B> + Send,
) -> Result<(A, B)> {
    std::thread::scope(|scope| {
        let one = scope.spawn(one);
        let two = two();
        let one = one.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok((one?, two?))
    })
}
