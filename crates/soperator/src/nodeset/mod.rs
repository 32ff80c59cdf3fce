//! `soperator nodeset`: a set of workers as a person sees it, and what a person does to it.

mod drain;
mod explain;
mod find;
mod pod;
mod restart;
mod set;
mod time;
mod view;
mod whose;
mod word;

use std::io::Write;

use clap::{Subcommand, ValueEnum};

use crate::cli::Error;

const AFTER_HELP: &str = "\
A NodeSet may be of slurm.nebius.ai or of slinky.slurm.net. The one that has the name is taken; when both have it, --api says which.

Slurm is asked through the API server where it is a Service, with a token made from the Secret <cluster>-rest-jwt-key, or with the \
token that the Cluster of slinky.slurm.net names; so this needs the rights to read these Secrets, and services/proxy (create, to drain).

Exit codes: 0 done, 1 failed, 2 wrong arguments.";

/// What is asked about a set.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show each worker: its pod, its Slurm node, jobs and until when, and why it is or is not replaced
    #[command(after_help = AFTER_HELP)]
    Status(view::Args),
    /// Let the workers take no more jobs; those that run go on, and the operator does not take it back
    #[command(after_help = AFTER_HELP)]
    Drain(drain::DrainArgs),
    /// Let the workers take jobs again that somebody drained
    #[command(after_help = AFTER_HELP)]
    Undrain(drain::UndrainArgs),
    /// Replace all workers, a few at a time, each when its jobs are over
    #[command(after_help = AFTER_HELP)]
    Restart(restart::Args),
}

/// Which set is meant.
#[derive(Debug, clap::Args)]
struct Target {
    /// The NodeSet
    #[arg(value_name = "NODESET")]
    name: String,
    /// The namespace; without it, that of the kubeconfig
    #[arg(long, short, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// The group of the NodeSet, where both have the name
    #[arg(long, value_enum)]
    api: Option<Api>,
}

/// The groups that have NodeSets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Api {
    /// slurm.nebius.ai
    Nebius,
    /// slinky.slurm.net
    Slinky,
}

impl Api {
    /// The group.
    const fn group(self) -> &'static str {
        match self {
            Self::Nebius => api::nebius::GROUP,
            Self::Slinky => api::slinky::GROUP,
        }
    }

    /// As `--api` writes it.
    const fn word(self) -> &'static str {
        match self {
            Self::Nebius => "nebius",
            Self::Slinky => "slinky",
        }
    }
}

/// Does what was asked.
pub(crate) fn run(args: &Args, out: &mut impl Write) -> Result<(), Error> {
    crate::place::block_on(async {
        match &args.command {
            Command::Status(args) => view::run(args, out).await,
            Command::Drain(args) => drain::drain(args, out).await,
            Command::Undrain(args) => drain::undrain(args, out).await,
            Command::Restart(args) => restart::run(args, out).await,
        }
    })
}
