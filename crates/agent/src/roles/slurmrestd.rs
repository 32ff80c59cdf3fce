//! slurmrestd, neither as root nor as Slurm's user: it would act with their power for everyone.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use nix::sys::signal::Signal;
use slurm::agent::env;

use super::client_conf::ClientConf;
use super::keep::{Plan, keep};
use super::variable;
use crate::agent::{Agent, Stopped};
use crate::daemon::Daemon;
use crate::lookup::{self, User};
use crate::programs;
use crate::slurm_conf::Conf;

/// The port where users do not ask for another.
pub const DEFAULT_PORT: u16 = 6820;
/// Who may run it, the first that the image has.
const USERS: [&str; 2] = ["www-data", "nobody"];
/// Where the image has no such user.
const NOBODY: User = User { uid: 65534, gid: 65534 };

struct Slurmrestd {
    conf: ClientConf,
}

/// Runs slurmrestd.
pub fn run(agent: &Agent) -> Result<(), String> {
    let mut conf = None;
    let waited = agent.wait_for(|| {
        conf = Some(ClientConf::new(agent)?);
        Ok(())
    });
    match (waited, conf) {
        (Ok(()), Some(conf)) => keep(agent, "slurmrestd", &mut Slurmrestd { conf }),
        (Err(Stopped), _) | (_, None) => Ok(()),
    }
}

/// Who runs it.
fn user(agent: &Agent, conf: &Conf) -> User {
    let slurm = lookup::user(&agent.children, conf.get("SlurmUser").unwrap_or("root")).ok();
    let known = USERS.iter().filter_map(|name| lookup::user(&agent.children, name).ok());
    known
        .into_iter()
        .find(|user| user.uid != 0 && slurm.is_none_or(|slurm| slurm.uid != user.uid))
        .unwrap_or(NOBODY)
}

impl Plan for Slurmrestd {
    fn command(&mut self, agent: &Agent) -> Result<Command, String> {
        let conf = self.conf.conf();
        let own = user(agent, &conf);
        let plugins =
            if conf.has_slurmdbd() { "openapi/slurmctld,openapi/slurmdbd" } else { "openapi/slurmctld" };
        let mut command = programs::command("slurmrestd")?;
        command.args(["-a", "rest_auth/jwt", "-s", plugins]).arg("-f").arg(self.conf.slurm_conf());
        for (option, name) in [("-t", env::REST_THREADS), ("--max-connections", env::REST_CONNECTIONS)] {
            if let Some(value) = variable(name) {
                command.args([option, &value]);
            }
        }
        command
            .arg(format!(":{}", port()))
            // It proves who its callers are by their tokens, and has no key of its own.
            .env("SLURM_JWT", "daemon")
            .env("SLURM_CONF", self.conf.slurm_conf())
            .current_dir("/")
            .uid(own.uid)
            .gid(own.gid);
        Ok(command)
    }

    fn look(&mut self, agent: &Agent, daemon: &mut Daemon) {
        // It reads the configuration only when it starts.
        if self.conf.refresh(agent) {
            daemon.stop(Signal::SIGTERM, self.stop_patience());
        }
    }
}

/// The port it listens on.
pub fn port() -> u16 {
    variable(env::PORT).and_then(|port| port.parse().ok()).unwrap_or(DEFAULT_PORT)
}
