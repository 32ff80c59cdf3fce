//! `probe DAEMON`: whether the daemon of this pod works. Quick, and without side effects.

use std::path::{Path, PathBuf};
use std::time::Duration;

use slurm::agent::{command, env, path};

use crate::children::Children;
use crate::conf_sets::ConfSets;
use crate::slurm_conf::Conf;
use crate::{munge_socket, proc, programs, registration};

const PATIENCE: Duration = Duration::from_secs(5);
const SSH_PORT: u16 = 22;
const SLURMDBD_PORT: u16 = 6819;
const SLURMRESTD_PORT: u16 = 6820;
const MARIADB_PORT: u16 = 3306;

/// Says in a line how the daemon is.
///
/// # Errors
///
/// It does not work, and why.
pub fn probe(daemon: &str) -> Result<String, String> {
    match daemon {
        command::SLURMCTLD => slurmctld(),
        command::SLURMD => slurmd(),
        command::MUNGE => munge(),
        command::SLURMDBD => {
            let conf = Conf::of_file(Path::new(path::SLURMDBD_CONFIG))?;
            listens(daemon, conf.port("DbdPort", SLURMDBD_PORT))
        }
        command::SLURMRESTD => listens(daemon, port(SLURMRESTD_PORT)),
        command::LOGIN => listens("sshd", port(SSH_PORT)),
        command::MARIADB => listens(daemon, MARIADB_PORT),
        _ => Err(format!("there is no probe for {daemon:?}")),
    }
}

fn port(default: u16) -> u16 {
    std::env::var(env::PORT).ok().and_then(|port| port.parse().ok()).unwrap_or(default)
}

/// By the kernel's own table: a connection would leave a complaint in the daemon's log.
fn listens(daemon: &str, port: u16) -> Result<String, String> {
    match proc::listens(port) {
        true => Ok(format!("{daemon} listens on port {port}")),
        false => Err(format!("{daemon} does not listen on port {port}")),
    }
}

fn slurmctld() -> Result<String, String> {
    let conf = ConfSets::new(Path::new(path::SLURMCTLD_SPOOL)).shown().join("slurm.conf");
    let said = run("scontrol", &["ping"], Some(conf))?;
    match said.contains(" is UP") {
        true => Ok("slurmctld answers".into()),
        false => Err(said.lines().next().unwrap_or("slurmctld does not answer").to_owned()),
    }
}

/// slurmd answers, and slurmctld knows the node.
fn slurmd() -> Result<String, String> {
    if !registration::is_noted() {
        return Err("slurmd is not registered with slurmctld yet".into());
    }
    run("scontrol", &["show", "slurmd"], None)?;
    Ok("slurmd answers and is registered".into())
}

fn munge() -> Result<String, String> {
    if programs::find("munge").is_some() {
        run("munge", &["--no-input"], None)?;
    } else {
        munge_socket::listens()?;
    }
    Ok("munge answers".into())
}

fn run(program: &str, arguments: &[&str], conf: Option<PathBuf>) -> Result<String, String> {
    let mut command = programs::command(program)?;
    command.args(arguments);
    if let Some(conf) = conf.filter(|conf| conf.exists()) {
        command.env("SLURM_CONF", conf);
    }
    let printed = Children::new().run(&mut command, PATIENCE)?;
    if printed.ended.well() {
        return Ok(printed.stdout);
    }
    let words = if printed.stderr.trim().is_empty() { printed.stdout } else { printed.stderr };
    Err(format!("{program}: {}", words.trim().lines().next().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_daemon_has_no_probe() {
        assert!(probe("slurmx").unwrap_err().contains("no probe"));
    }
}
