//! `soperator gpu-scheduler`: the scheduler that pins pods to devices, its webhook, and the programs around them.

mod certs;
mod check;
mod scheduler;
mod status;
mod webhook;

use std::io::Write;

use clap::Subcommand;

use crate::cli::Error;

/// The programs of the GPU scheduler.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    program: Program,
}

#[derive(Debug, Subcommand)]
enum Program {
    /// Run the scheduler: it binds pods to the nodes and devices of their maps
    Scheduler(Box<scheduler::Args>),
    /// Run the admission webhook: it checks maps, and lets containers see their devices
    Webhook(Box<webhook::Args>),
    /// Compare the devices that a pod was promised with those that it sees
    Check(check::Args),
    /// Make the webhook's certificates as files
    Certs(certs::Args),
    /// Show nodes, devices and their owners, and why pods wait
    Status(status::Args),
}

/// Runs a program.
pub(crate) fn run(args: &Args, out: &mut impl Write) -> Result<(), Error> {
    match &args.program {
        Program::Scheduler(args) => scheduler::run(args),
        Program::Webhook(args) => webhook::run(args),
        Program::Check(args) => check::run(args, out),
        Program::Certs(args) => certs::run(args, out),
        Program::Status(args) => status::run(args, out),
    }
}
