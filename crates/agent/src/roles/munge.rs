//! munged, with the key of the cluster. A new key starts it anew.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::Signal;
use slurm::agent::path;

use super::RUN;
use super::keep::{Plan, keep};
use crate::agent::Agent;
use crate::daemon::Daemon;
use crate::files::{self, Watched};
use crate::{lookup, munge_socket, programs};

struct Munge {
    key: Watched,
}

/// Runs munged.
pub fn run(agent: &Agent) -> Result<(), String> {
    let mut plan = Munge { key: Watched::new([path::MUNGE_KEY]) };
    keep(agent, "munged", &mut plan)
}

impl Plan for Munge {
    fn command(&mut self, agent: &Agent) -> Result<Command, String> {
        let own = lookup::user(&agent.children, "munge").unwrap_or(lookup::ROOT);
        self.key.changed();
        let key =
            fs::read(path::MUNGE_KEY).map_err(|error| format!("cannot read {}: {error}", path::MUNGE_KEY))?;
        let directory = Path::new(RUN).join("munge");
        let socket_directory = Path::new(path::MUNGE_SOCKET_DIR);
        for (directory, mode) in [(directory.as_path(), 0o700), (socket_directory, 0o755)] {
            // munged refuses directories that others may write to, as a fresh emptyDir is.
            files::make_directory(directory)
                .and_then(|()| fs::set_permissions(directory, Permissions::from_mode(mode)))
                .and_then(|()| files::give(directory, own))
                .map_err(|error| format!("cannot make {}: {error}", directory.display()))?;
        }
        let copy = directory.join("munge.key");
        files::write(&copy, &key, own, 0o400)?;
        let mut command = programs::command("munged")?;
        command
            .arg("--foreground")
            .arg(format!("--key-file={}", copy.display()))
            .arg(format!("--seed-file={}", directory.join("munged.seed").display()))
            .arg(format!("--pid-file={}", directory.join("munged.pid").display()))
            .arg(format!("--socket={}", munge_socket::file().display()))
            .uid(own.uid)
            .gid(own.gid);
        Ok(command)
    }

    fn look(&mut self, agent: &Agent, daemon: &mut Daemon) {
        if self.key.changed() {
            agent.say("the key has changed: munged is started with it");
            daemon.stop(Signal::SIGTERM, self.stop_patience());
        }
    }

    fn stop_patience(&self) -> Duration {
        Duration::from_secs(5)
    }
}
