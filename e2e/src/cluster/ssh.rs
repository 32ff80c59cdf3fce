//! Logging in, as users do.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Context, Result};
use rig::Rig;

use crate::output_of;

/// The way to a login pod: ssh, run in a node, because nothing leads into the rig's network from outside.
pub struct Ssh {
    rig: &'static Rig,
    folder: PathBuf,
    namespace: String,
    service: String,
    address: OnceLock<String>,
}

/// The name of the process of an open session.
pub(super) const SESSION: &str = "e2e-session";

/// A session that is open until this value is dropped.
pub struct Session(Child);

impl Drop for Session {
    fn drop(&mut self) {
        // The end of its input is the end of the session.
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

impl Ssh {
    /// With a key of its own, made if it is not there yet.
    pub(super) fn new(rig: &'static Rig, namespace: &str, service: &str) -> Result<Self> {
        let kubeconfig = rig.kubeconfig();
        let folder =
            kubeconfig.parent().context("the rig's directory")?.join("ssh").join(namespace).join(service);
        std::fs::create_dir_all(&folder)?;
        make_key(&folder.join("id_ed25519"))?;
        Ok(Self {
            rig,
            folder,
            namespace: namespace.into(),
            service: service.into(),
            address: OnceLock::new(),
        })
    }

    /// The line that goes into `sshRootPublicKeys`.
    pub fn public_key(&self) -> Result<String> {
        Ok(std::fs::read_to_string(self.folder.join("id_ed25519.pub"))?.trim().to_string())
    }

    /// A key that the cluster does not know.
    pub fn other_key(&self) -> Result<PathBuf> {
        let key = self.folder.join("other");
        make_key(&key)?;
        Ok(key)
    }

    /// The file with the host keys that were seen; strict from the second connection on.
    pub fn known_hosts(&self) -> PathBuf {
        self.folder.join("known_hosts")
    }

    /// Runs a shell command there.
    pub fn run(&self, command: &str) -> Result<String> {
        output_of(self.command(&self.folder.join("id_ed25519"))?.arg(command), None)
    }

    /// The same with another key.
    pub fn run_with_key(&self, key: &Path, command: &str) -> Result<String> {
        output_of(self.command(key)?.arg(command), None)
    }

    /// The same as another user than root.
    pub fn run_as(&self, user: &str, key: &Path, command: &str) -> Result<String> {
        output_of(self.command_as(user, key)?.arg(command), None)
    }

    /// Runs a command with a terminal, types `input`, and returns what the terminal shows.
    pub fn terminal(&self, command: &str, input: &str) -> Result<String> {
        let mut ssh = self.command_as("root", &self.folder.join("id_ed25519"))?;
        output_of(ssh.arg("-tt").arg(command), Some(input))
    }

    /// Copies a file of this machine into the home of a user, with scp.
    pub fn copy_to(&self, user: &str, key: &Path, file: &Path, name: &str) -> Result<()> {
        let (mut scp, place) = self.scp(user, key)?;
        output_of(scp.arg(file).arg(format!("{place}:{name}")), None).map(drop)
    }

    /// Copies a file out of the home of a user, with sftp's protocol as scp speaks it.
    pub fn copy_from(&self, user: &str, key: &Path, name: &str, file: &Path) -> Result<()> {
        let (mut scp, place) = self.scp(user, key)?;
        output_of(scp.arg(format!("{place}:{name}")).arg(file), None).map(drop)
    }

    /// Runs commands of `sftp` in the home of a user, as a batch: the first that fails ends it.
    pub fn sftp(&self, user: &str, key: &Path, batch: &str) -> Result<String> {
        let mut sftp = self.rig.exec("node-1", "sftp")?;
        self.options(&mut sftp, key);
        output_of(sftp.args(["-b", "-"]).arg(format!("{user}@{}", self.address()?)), Some(batch))
    }

    fn scp(&self, user: &str, key: &Path) -> Result<(Command, String)> {
        let mut scp = self.rig.exec("node-1", "scp")?;
        self.options(&mut scp, key);
        Ok((scp, format!("{user}@{}", self.address()?)))
    }

    /// Opens a session and leaves it open.
    pub fn session(&self) -> Result<Session> {
        let mut ssh = self.command(&self.folder.join("id_ed25519"))?;
        ssh.arg(format!("exec -a {SESSION} cat"));
        Ok(Session(ssh.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?))
    }

    fn command(&self, key: &Path) -> Result<Command> {
        self.command_as("root", key)
    }

    fn command_as(&self, user: &str, key: &Path) -> Result<Command> {
        let mut ssh = self.rig.exec("node-1", "ssh")?;
        self.options(&mut ssh, key);
        ssh.arg(format!("{user}@{}", self.address()?));
        Ok(ssh)
    }

    /// The Service's, which it keeps.
    fn address(&self) -> Result<&str> {
        if let Some(known) = self.address.get() {
            return Ok(known);
        }
        let mut kubectl = self.rig.kubectl()?;
        kubectl.args(["--namespace", &self.namespace, "get", "service", &self.service]);
        let address = output_of(kubectl.args(["--output", "jsonpath={.spec.clusterIP}"]), None)?;
        Ok(self.address.get_or_init(|| address))
    }

    fn options(&self, ssh: &mut Command, key: &Path) {
        ssh.arg("-i").arg(key);
        for option in [
            "BatchMode=yes",
            "ConnectTimeout=5",
            "LogLevel=ERROR",
            "StrictHostKeyChecking=accept-new",
            "IdentitiesOnly=yes",
        ] {
            ssh.args(["-o", option]);
        }
        ssh.arg("-o").arg(format!("UserKnownHostsFile={}", self.known_hosts().display()));
    }
}

fn make_key(path: &Path) -> Result<()> {
    if path.exists() {
        return Ok(());
    }
    let mut keygen = Command::new("ssh-keygen");
    output_of(keygen.args(["-q", "-t", "ed25519", "-N", "", "-C", "e2e", "-f"]).arg(path), None).map(drop)
}
