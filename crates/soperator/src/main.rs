//! `soperator`: Slurm clusters on Kubernetes, one program for every control-plane role.
//!
//! A subcommand picks the role. So does the name under which the program is called (see [`role`]).

mod cli;
mod conf;
mod config;
mod crds;
mod desired;
mod diff;
mod gpu_scheduler;
mod jail;
mod nodeset;
mod place;
mod render;
mod role;
mod slurm;
mod slurm_access;
mod status;
mod unmet;
mod validate;

use std::process::ExitCode;

fn main() -> ExitCode {
    match cli::run(std::env::args_os(), &mut std::io::stdout()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => error.report(),
    }
}
