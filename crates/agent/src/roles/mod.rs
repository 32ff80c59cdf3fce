//! What the agent runs as: one kind of container each.

mod client_conf;
mod keep;
mod login;
mod mariadb;
mod munge;
mod slurmctld;
mod slurmd;
mod slurmdbd;
mod slurmrestd;

use slurm::agent::command;

use crate::agent::Agent;

/// Where the agent keeps what only this container needs.
const RUN: &str = "/run/slurm-agent";

const ROLES: [&str; 7] = [
    command::SLURMCTLD,
    command::SLURMDBD,
    command::SLURMRESTD,
    command::SLURMD,
    command::MUNGE,
    command::LOGIN,
    command::MARIADB,
];

/// Whether there is such a role.
pub fn is_role(name: &str) -> bool {
    ROLES.contains(&name)
}

/// Runs until it is told to stop.
///
/// # Errors
///
/// Something that can never work.
pub fn run(role: &str, agent: &Agent) -> Result<(), String> {
    match role {
        command::SLURMCTLD => slurmctld::run(agent),
        command::SLURMDBD => slurmdbd::run(agent),
        command::SLURMRESTD => slurmrestd::run(agent),
        command::SLURMD => slurmd::run(agent),
        command::MUNGE => munge::run(agent),
        command::LOGIN => login::run(agent),
        command::MARIADB => mariadb::run(agent),
        _ => Err(format!("there is no role {role}")),
    }
}

/// A variable that is set and not empty.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
