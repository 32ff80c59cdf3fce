//! A login pod: sessions are counted, and outlive sshd and its host keys.

use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use rig::slurm::Version;
use slurm::agent::command;

use crate::for_both_versions;
use crate::lab::{Container, LOGIN, Lab};

for_both_versions!(sessions_are_counted_and_outlive_sshd);

const SSHD_CONFIG: &str = "\
Port 22
PermitRootLogin yes
PasswordAuthentication no
UsePAM no
Subsystem sftp internal-sftp
HostKey /etc/ssh/sshd_keys/ssh_host_ed25519_key
";

/// Makes a key pair on the machine and gives its private and public part.
fn key_pair(lab: &Lab, name: &str) -> Result<(Vec<u8>, Vec<u8>)> {
    let file = format!("/tmp/{name}");
    lab.machine().exec(&["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", &file])?;
    let read = |file: &str| std::fs::read(lab.machine().path(file)).context("no key");
    Ok((read(&file)?, read(&format!("{file}.pub"))?))
}

/// Mounts a new host key and gives its fingerprint.
fn mount_host_key(lab: &Lab, name: &str) -> Result<String> {
    let (private, public) = key_pair(lab, name)?;
    lab.mount("sshd-keys", &[("ssh_host_ed25519_key", &private), ("ssh_host_ed25519_key.pub", &public)])?;
    let said = lab.machine().exec(&["ssh-keygen", "-l", "-f", &format!("/tmp/{name}.pub")])?;
    said.split_whitespace().nth(1).map(str::to_owned).context("no fingerprint")
}

/// ssh of this machine in the network of the pods: not every image has one.
fn ssh(lab: &Lab, words: &[&str]) -> Command {
    let mut command = Command::new("nsenter");
    command.args(["--target", &lab.machine().pid().to_string(), "--net", "ssh", "-F", "none", "-i"]);
    command.arg(lab.machine().path("/tmp/user"));
    command.args(["-oStrictHostKeyChecking=no", "-oUserKnownHostsFile=/dev/null", "-oBatchMode=yes"]);
    command.args(["-oIdentitiesOnly=yes", "root@10.9.0.61"]).args(words);
    command
}

/// A session that lasts until its client is killed.
fn session(lab: &Lab, terminal: bool) -> Result<Child> {
    let words: &[&str] = if terminal { &["-tt", "sleep 1000"] } else { &["sleep 1000"] };
    Ok(ssh(lab, words).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?)
}

fn end(mut session: Child) -> Result<()> {
    session.kill()?;
    session.wait()?;
    Ok(())
}

/// The fingerprint of the host key that sshd has, if it takes connections.
fn host_key(lab: &Lab) -> Result<String> {
    let said = String::from_utf8_lossy(&ssh(lab, &["-v", "true"]).output()?.stderr).into_owned();
    let line = said.lines().find_map(|line| line.split_once("Server host key: ssh-ed25519 "));
    Ok(line.map(|(_, key)| key.to_owned()).unwrap_or_default())
}

fn sessions(login: &Container<'_>, count: u32) -> Result<()> {
    login.wait_for_state(&format!("{count} sessions are open"), |state| state.sessions == Some(count))
}

fn sessions_are_counted_and_outlive_sshd(version: Version) -> Result<()> {
    let lab = Lab::start(version)?;
    let first_key = mount_host_key(&lab, "host-1")?;
    let (_, user_key) = key_pair(&lab, "user")?;
    lab.mount("ssh-root-keys", &[("authorized_keys", &user_key)])?;
    lab.mount("ssh-configs", &[("sshd_config", SSHD_CONFIG.as_bytes())])?;
    let controller = lab.controller()?;
    lab.pod(&LOGIN)?;
    let volumes = [
        ("ssh-configs", "/mnt/ssh-configs"),
        ("sshd-keys", "/mnt/sshd-keys"),
        ("ssh-root-keys", "/mnt/ssh-root-keys"),
    ];
    let login = lab.container(&LOGIN, command::LOGIN, &[], &volumes)?;
    login.wait_until_ready()?;
    controller.wait_until_ready()?;
    sessions(&login, 0)?;
    assert_eq!(host_key(&lab)?, first_key);
    assert_eq!(
        login.exec(&["stat", "--format=%a %U", "/etc/ssh/sshd_keys/ssh_host_ed25519_key"])?,
        "600 root\n"
    );

    // What a user sees.
    let said = e2e::output_of(&mut ssh(&lab, &["scontrol ping; echo $SLURM_CONF"]), None)?;
    assert!(said.contains(" is UP") && said.contains("/etc/slurm/slurm.conf"), "{said}");
    sessions(&login, 0)?;
    let with_terminal = session(&lab, true)?;
    let without = session(&lab, false)?;
    sessions(&login, 2)?;

    // New host keys end no session; settings that sshd does not like are not taken.
    let second_key = mount_host_key(&lab, "host-2")?;
    login.wait_until("sshd has the new key", || Ok(host_key(&lab)? == second_key))?;
    lab.mount("ssh-configs", &[("sshd_config", b"Nonsense yes\n")])?;
    login.wait_for_state("the settings are refused", |state| {
        state.last_error.as_deref().is_some_and(|error| error.contains("Nonsense"))
    })?;
    assert_eq!(host_key(&lab)?, second_key);
    assert_eq!((login.state()?.sessions, login.state()?.restarts), (Some(2), 0));

    // A pod that stops takes no more sessions and waits for those that are open.
    end(without)?;
    sessions(&login, 1)?;
    login.signal("-TERM")?;
    login.wait_until("sshd is closed", || Ok(host_key(&lab)?.is_empty()))?;
    assert_eq!(login.state()?.sessions, Some(1));
    assert!(!login.has_ended());
    end(with_terminal)?;
    login.wait_until("the pod has ended", || Ok(login.has_ended()))
}
