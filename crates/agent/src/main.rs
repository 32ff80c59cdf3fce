//! `slurm-agent`: the first process of every Slurm container. See `docs/agent.md`.

mod agent;
#[cfg(test)]
mod alone;
mod cgroup;
mod children;
mod conf_sets;
mod daemon;
mod etc_slurm;
mod expand;
mod files;
mod install;
mod jail;
mod lookup;
mod mountinfo;
mod munge_socket;
mod output;
mod populate;
mod probe;
mod proc;
mod programs;
mod registration;
mod roles;
mod serve;
mod slurm_conf;
mod sshd;
mod supervisord;

use std::process::ExitCode;

use ::slurm::agent::command;

use crate::agent::Agent;

const USAGE: &str = "\
usage: slurm-agent install DIR      copies the program there
       slurm-agent probe DAEMON     exit code 0 when the daemon of this pod works
       slurm-agent populate-jail    fills /mnt/jail, and ends
       slurm-agent slurmctld | slurmdbd | slurmrestd | slurmd | munge | login | mariadb";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words[..] {
        [command::INSTALL, directory] => install::install(directory.as_ref()),
        [command::PROBE, daemon] => probe::probe(daemon).map(|line| println!("{line}")),
        [command::POPULATE_JAIL] => return populate::run(),
        [role] if roles::is_role(role) => run(role),
        ["--version" | "-V"] => {
            println!("slurm-agent {}", env!("CARGO_PKG_VERSION"));
            Ok(())
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("slurm-agent: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(role: &str) -> Result<(), String> {
    let agent = Agent::new(role)?;
    if role != command::MUNGE {
        serve::start(&agent);
    }
    if jail::has_users(role) {
        jail::users::follow(&agent);
    }
    roles::run(role, &agent)
}
