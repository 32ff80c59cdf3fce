//! Logging in, as users do.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use rig::Rig;

use crate::output_of;

/// The way to a login pod: ssh, run in a node, because nothing leads into the rig's network from outside.
pub struct Ssh {
    rig: &'static Rig,
    folder: PathBuf,
    namespace: String,
    service: String,
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
        Ok(Self { rig, folder, namespace: namespace.into(), service: service.into() })
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

    /// Opens a session and leaves it open.
    pub fn session(&self) -> Result<Session> {
        let mut ssh = self.command(&self.folder.join("id_ed25519"))?;
        ssh.arg(format!("exec -a {SESSION} cat"));
        Ok(Session(ssh.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?))
    }

    fn command(&self, key: &Path) -> Result<Command> {
        let mut kubectl = self.rig.kubectl()?;
        kubectl.args(["--namespace", &self.namespace, "get", "service", &self.service]);
        let address = output_of(kubectl.args(["--output", "jsonpath={.spec.clusterIP}"]), None)?;
        let mut ssh = self.rig.exec("node-1", "ssh")?;
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
        ssh.arg(format!("root@{address}"));
        Ok(ssh)
    }
}

fn make_key(path: &Path) -> Result<()> {
    if path.exists() {
        return Ok(());
    }
    let mut keygen = Command::new("ssh-keygen");
    output_of(keygen.args(["-q", "-t", "ed25519", "-N", "", "-C", "e2e", "-f"]).arg(path), None).map(drop)
}
