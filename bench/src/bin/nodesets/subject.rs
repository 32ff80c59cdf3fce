//! The measured program: ours, or a peer, as a process of its own.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result};
use bench::{cpu_time, memory_of, peak_of};

use crate::options::{Options, Peer};

/// A program that can be measured.
#[derive(Clone, Debug)]
pub struct Program {
    path: PathBuf,
    flags: Vec<String>,
    env: Vec<(String, String)>,
    /// Whether it takes a file with settings of ours.
    is_ours: bool,
}

impl Program {
    /// `soperator`.
    pub fn ours(options: &Options) -> Result<Self> {
        let path = bench::soperator(options.program.clone())?;
        let flags = ["operator", "--controllers", "slinky-cluster,slinky-nodeset"].map(String::from).to_vec();
        Ok(Self { path, flags, env: Vec::new(), is_ours: true })
    }

    /// The peer, if one is named.
    pub fn peer(peer: &Peer) -> Result<Option<Self>> {
        let Some(path) = peer.path.clone() else { return Ok(None) };
        let mut env = Vec::new();
        for variable in &peer.env {
            let (name, value) =
                variable.split_once('=').with_context(|| format!("--peer-env {variable}: no `=` in it"))?;
            env.push((name.to_owned(), value.to_owned()));
        }
        let flags = peer.flags.split_whitespace().map(String::from).collect();
        Ok(Some(Self { path, flags, env, is_ours: false }))
    }

    /// Its path, for people.
    pub fn path(&self) -> String {
        self.path.display().to_string()
    }

    /// Starts it on a namespace. It ends with the returned value.
    pub fn start(&self, kubeconfig: &Path, namespace: &str) -> Result<Running> {
        let folder = tempfile::tempdir()?;
        // The kernel ends it when we end, however that is.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).arg(&self.path).args(&self.flags);
        if self.is_ours {
            let settings = folder.path().join("settings.yaml");
            std::fs::write(&settings, settings_for(namespace))?;
            command.arg("--config").arg(settings);
        }
        let log = folder.path().join("log");
        let file = File::create(&log)?;
        let child = command
            .env("KUBECONFIG", kubeconfig)
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("{} cannot be started", self.path.display()))?;
        let id = child.id().to_string();
        Ok(Running { child, id, log, _folder: folder })
    }
}

/// Defaults but for what cannot be had here, and without leader election, as peers run.
fn settings_for(namespace: &str) -> String {
    format!(
        "operatorNamespace: {namespace}\nwatchNamespaces: {namespace}\n\
         images: {{ agent: soperator.local/soperator:1 }}\nleaderElection: {{ enabled: false }}\n\
         health: {{ bindAddress: '127.0.0.1:0' }}\nmetrics: {{ enabled: false }}\ndebug: {{ bindAddress: '0' }}\n\
         webhooks: {{ enabled: false }}\nlogging: {{ level: warn }}\n"
    )
}

/// A program that runs.
pub struct Running {
    child: Child,
    id: String,
    log: PathBuf,
    _folder: tempfile::TempDir,
}

impl Drop for Running {
    fn drop(&mut self) {
        // Ended already, perhaps.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    /// Its memory now, in bytes.
    pub fn memory(&self) -> Result<u64> {
        memory_of(&self.id).with_context(|| self.last_words())
    }

    /// The most memory that it had, in bytes.
    pub fn peak(&self) -> Result<u64> {
        peak_of(&self.id).with_context(|| self.last_words())
    }

    /// The CPU time that it has taken.
    pub fn cpu(&self) -> Result<Duration> {
        cpu_time(&self.id).with_context(|| self.last_words())
    }

    /// The end of what it printed, for messages.
    pub fn last_words(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let last = lines.get(lines.len().saturating_sub(15)..).unwrap_or_default().join("\n");
        format!("the program's last lines:\n{last}")
    }
}
