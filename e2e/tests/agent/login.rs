//! A login pod: sessions are counted, and outlive sshd and its host keys.

use std::process::{Child, Stdio};

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

fn mount_host_key(lab: &Lab, name: &str) -> Result<String> {
    let (private, public) = key_pair(lab, name)?;
    lab.mount("sshd-keys", &[("ssh_host_ed25519_key", &private), ("ssh_host_ed25519_key.pub", &public)])?;
    let public = String::from_utf8(public)?;
    Ok(public.split_whitespace().take(2).collect::<Vec<_>>().join(" "))
}

const SSH: [&str; 7] = [
    "ssh",
    "-i",
    "/tmp/user",
    "-oStrictHostKeyChecking=no",
    "-oUserKnownHostsFile=/dev/null",
    "-oBatchMode=yes",
    "root@10.9.0.61",
];

/// A session that lasts until it is killed.
fn session(lab: &Lab, terminal: bool) -> Result<Child> {
    let words = [&SSH[..], if terminal { &["-tt"] } else { &[] }, &["sleep 1000"]].concat();
    Ok(lab
        .machine()
        .command(&words)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?)
}

fn host_key(lab: &Lab) -> Result<String> {
    let said = lab.machine().exec(&["ssh-keyscan", "-t", "ed25519", "10.9.0.61"])?;
    Ok(said.split_whitespace().skip(1).take(2).collect::<Vec<_>>().join(" "))
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
    let said = lab.machine().exec(&[&SSH[..], &["scontrol ping; echo $SLURM_CONF"]].concat())?;
    assert!(said.contains(" is UP") && said.contains("/etc/slurm/slurm.conf"), "{said}");
    sessions(&login, 0)?;
    let mut with_terminal = session(&lab, true)?;
    let mut without = session(&lab, false)?;
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
    without.kill()?;
    without.wait()?;
    sessions(&login, 1)?;
    login.signal("-TERM")?;
    login.wait_until("sshd is closed", || Ok(host_key(&lab).map_or(true, |key| key.is_empty())))?;
    assert_eq!(login.state()?.sessions, Some(1));
    assert!(!login.has_ended());
    with_terminal.kill()?;
    with_terminal.wait()?;
    login.wait_until("the pod has ended", || Ok(login.has_ended()))
}
