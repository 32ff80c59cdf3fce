//! sshd: its keys with the right modes, its directories, and its command. New host keys and settings come by SIGHUP, which
//! ends no session.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::Signal;
use slurm::agent::path;

use crate::agent::Agent;
use crate::daemon::Daemon;
use crate::etc_slurm::ETC_SLURM;
use crate::files::{self, FileSet, Watched};
use crate::lookup::ROOT;
use crate::programs;

/// Where sshd wants an empty directory of root's, in the images of all makers.
const EMPTY_DIRECTORIES: [&str; 2] = ["/run/sshd", "/var/empty/sshd"];

/// What sshd is made from.
pub struct Sshd {
    port: Option<String>,
    root_keys: Watched,
    settings: Watched,
}

impl Sshd {
    /// sshd with the mounted settings, on another port than theirs if one is given.
    pub fn new(port: Option<String>) -> Self {
        Self {
            port,
            root_keys: Watched::new([path::ROOT_KEYS]),
            settings: Watched::new([path::SSHD_KEYS, path::SSHD_CONFIG]),
        }
    }

    /// Puts keys in place and gives the command.
    ///
    /// # Errors
    ///
    /// A key cannot be copied, or the image has no sshd.
    pub fn command(&mut self) -> Result<Command, String> {
        self.settings.changed();
        self.root_keys.changed();
        copy_host_keys()?;
        copy_root_keys()?;
        for directory in EMPTY_DIRECTORIES {
            files::make_directory(Path::new(directory))
                .map_err(|error| format!("cannot make {directory}: {error}"))?;
        }
        self.bare_command(&["-D", "-e"])
    }

    fn bare_command(&self, options: &[&str]) -> Result<Command, String> {
        let mut command = programs::command("sshd")?;
        command.args(options).args(["-f", path::SSHD_CONFIG]);
        if let Some(port) = &self.port {
            command.args(["-p", port]);
        }
        let text = fs::read(path::SSHD_CONFIG).unwrap_or_default();
        // The first SetEnv that sshd reads is the only one: the user's stays.
        if !has_set_env(&String::from_utf8_lossy(&text)) {
            command.args(["-o", &format!("SetEnv=SLURM_CONF={ETC_SLURM}/slurm.conf")]);
        }
        Ok(command)
    }

    /// Passes on what changed.
    pub fn look(&mut self, agent: &Agent, daemon: &mut Daemon) {
        if self.root_keys.changed() {
            report(agent, copy_root_keys());
        }
        if self.settings.changed() {
            report(agent, copy_host_keys());
            match self.check(agent) {
                Ok(()) => {
                    agent.say("sshd reads its host keys and settings anew");
                    daemon.signal(Signal::SIGHUP);
                }
                Err(error) => {
                    agent.failed(&format!("sshd keeps its settings, the new ones are bad: {error}"))
                }
            }
        }
    }

    fn check(&self, agent: &Agent) -> Result<(), String> {
        let printed = agent.run(&mut self.bare_command(&["-t"])?, Duration::from_secs(10))?;
        if printed.ended.well() { Ok(()) } else { Err(printed.stderr.trim().to_owned()) }
    }
}

fn report(agent: &Agent, outcome: Result<(), String>) {
    if let Err(error) = outcome {
        agent.failed(&error);
    }
}

fn has_set_env(text: &str) -> bool {
    text.lines().any(|line| line.trim_start().to_ascii_lowercase().starts_with("setenv"))
}

fn copy_host_keys() -> Result<(), String> {
    let from = Path::new(path::SSHD_KEYS);
    let set = FileSet::read(from).map_err(|error| format!("cannot read {}: {error}", from.display()))?;
    for (name, key) in &set.files {
        let mode = if name.ends_with(".pub") { 0o644 } else { 0o600 };
        files::write(&Path::new(path::SSHD_KEYS_COPY).join(name), key, ROOT, mode)?;
    }
    Ok(())
}

fn copy_root_keys() -> Result<(), String> {
    let Ok(keys) = fs::read(path::ROOT_KEYS) else { return Ok(()) };
    let copy = Path::new(path::ROOT_KEYS_COPY);
    files::write(copy, &keys, ROOT, 0o600)?;
    let directory = copy.parent().unwrap_or(Path::new("/root/.ssh"));
    fs::set_permissions(directory, Permissions::from_mode(0o700))
        .map_err(|error| format!("cannot change {}: {error}", directory.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_the_users_own_settings_are_seen() {
        assert!(has_set_env("Port 22\n  setenv A=b\n"));
        assert!(!has_set_env("#SetEnv A=b\nAcceptEnv LANG\n"));
    }
}
