//! `soperator slurm`: looks at a Slurm cluster through slurmrestd, and drains and resumes nodes.

mod connection;
mod jobs;
mod nodes;
mod ping;
pub(crate) mod table;
mod token;

use std::future::Future;
use std::io::Write;

use clap::{Subcommand, ValueEnum};

use crate::cli::Error;

pub(crate) use jobs::number as job_number;
pub(crate) use nodes::wait_until_free;

const AFTER_HELP: &str = "\
The token comes from --token-file, or is made from the cluster's JWT key (--key-file) for --user, or is taken from the \
environment variable SLURM_JWT, in this order.

Exit codes: 0 done, 1 failed, 2 wrong arguments.";

/// What is asked of the cluster.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Tell whether the controllers answer; fails if none does
    #[command(after_help = AFTER_HELP)]
    Ping(ping::Args),
    /// List nodes, and whether jobs are on them
    #[command(after_help = AFTER_HELP)]
    Nodes(nodes::ListArgs),
    /// List jobs
    #[command(after_help = AFTER_HELP)]
    Jobs(jobs::Args),
    /// Let nodes take no more jobs; those that run go on
    #[command(after_help = AFTER_HELP)]
    Drain(nodes::DrainArgs),
    /// Let nodes take jobs again
    #[command(after_help = AFTER_HELP)]
    Resume(nodes::ResumeArgs),
    /// Make a token from the JWT key; needs no server
    Token(token::Args),
}

/// The form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// Columns
    Table,
    /// A JSON list
    Json,
}

/// Does what was asked.
pub(crate) fn run(args: &Args, out: &mut impl Write) -> Result<(), Error> {
    match &args.command {
        Command::Ping(args) => ping::run(args, out),
        Command::Nodes(args) => nodes::list(args, out),
        Command::Jobs(args) => jobs::run(args, out),
        Command::Drain(args) => nodes::drain(args, out),
        Command::Resume(args) => nodes::resume(args, out),
        Command::Token(args) => token::run(args, out),
    }
}

/// Runs calls to the end.
fn wait<T>(work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::Slurm(format!("cannot start: {error}")))?;
    runtime.block_on(work)
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::Slurm(error.to_string())
}
