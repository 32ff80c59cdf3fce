//! Speed and memory of sets of workers: a real API server, kwok's nodes or none, a real Slurm, and the real program as a process
//! of its own.
//!
//! ```text
//! nodesets [scale|steady|many|drain|memory]... [--workers N] [--peer PATH ...]
//! ```
//!
//! The sets are those of `slinky.slurm.net`, because a peer can do the same work; everything behind the front end is shared with
//! `slurm.nebius.ai`. docs/benchmarks.md tells what each part does.

mod drain;
mod many;
mod memory;
mod options;
mod place;
mod pods;
mod proxy;
mod report;
mod scale;
mod slurm;
mod steady;
mod subject;
mod work;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser as _;

use crate::options::{Options, Part};
use crate::report::Report;
use crate::subject::Program;

/// Decoding a NodeSet without optimisation takes more than the usual 2 MiB.
const STACK: usize = 8 << 20;

fn main() -> Result<ExitCode> {
    let options = Options::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_stack_size(STACK)
        .enable_all()
        .build()?;
    let good = runtime.block_on(run(&options))?;
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs all parts that are wanted. Returns whether all limits were kept.
async fn run(options: &Options) -> Result<bool> {
    let mut report = Report::default();
    report.note(format!("program: {}", Program::ours(options)?.path()));
    report.note(
        "Slurm: real slurmctld and slurmrestd 26.05; nodes without slurmd that slurmctld is told are idle",
    );
    report.note("       (`drain`: with a slurmd each; `memory`: recorded records, multiplied)");
    if options.wants(Part::Scale) {
        scale::run(options, &mut report).await?;
    }
    if options.wants(Part::Steady) {
        steady::run(options, &mut report).await?;
    }
    if options.wants(Part::Many) {
        many::run(options, &mut report).await?;
    }
    if options.wants(Part::Drain) {
        drain::run(options, &mut report).await?;
    }
    if options.wants(Part::Memory) {
        memory::run(options, &mut report).await?;
    }
    Ok(report.end())
}
