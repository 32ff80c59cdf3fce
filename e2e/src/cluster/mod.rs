//! Slurm clusters on the rig, made by the operator from the charts, as users make them.

mod install;
mod operator;
mod program;
mod slurm;
mod ssh;

use std::cell::Cell;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rig::Rig;
use rig::slurm::Version;
use serde_json::Value;

pub use install::{Settings, Turn, shared};
pub use operator::{OperatorKill, OperatorPeace};
pub use slurm::Job;
pub use ssh::{Session, Ssh};

use crate::{output_of, wait_until_for};

/// The cluster's name in every chart of these tests.
pub const NAME: &str = "slurm1";
/// How many workers the example has.
pub const WORKERS: usize = 2;
/// How long a cluster may take until all of it works; the machine may be busy with other tests.
const START_PATIENCE: Duration = Duration::from_secs(300);

/// The root of the checkout: charts and examples are below it.
pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A SlurmCluster on the rig, and the ways to look at it.
pub struct Cluster {
    rig: &'static Rig,
    namespace: String,
    name: String,
    version: Version,
    ssh: Ssh,
}

impl Cluster {
    /// Its namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Which Slurm it runs.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The rig that it is on.
    pub fn rig(&self) -> &'static Rig {
        self.rig
    }

    /// `<name>-<rest>`, as the objects of a cluster are called.
    pub fn object(&self, rest: &str) -> String {
        format!("{}-{rest}", self.name)
    }

    /// The pod of slurmctld.
    pub fn controller(&self) -> String {
        self.object("controller-0")
    }

    /// The pod of a worker.
    pub fn worker(&self, ordinal: usize) -> String {
        self.object(&format!("worker-{ordinal}"))
    }

    /// The first login pod.
    pub fn login(&self) -> String {
        self.object("login-0")
    }

    /// kubectl in its namespace.
    pub fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        output_of(self.command()?.args(arguments), None)
    }

    /// kubectl in its namespace, to be run in another way.
    pub fn command(&self) -> Result<Command> {
        let mut command = self.rig.kubectl()?;
        command.args(["--namespace", &self.namespace]);
        Ok(command)
    }

    /// Applies manifests in its namespace, again while the operator's webhook is away.
    pub fn apply(&self, manifests: &str) -> Result<String> {
        self.once_the_webhook_answers(|| {
            output_of(self.command()?.args(["apply", "--filename", "-"]), Some(manifests))
        })
    }

    /// An object as JSON.
    pub fn get(&self, kind: &str, name: &str) -> Result<Value> {
        Ok(serde_json::from_str(&self.kubectl(&["get", kind, name, "--output", "json"])?)?)
    }

    /// Whether an object is there.
    pub fn exists(&self, kind: &str, name: &str) -> Result<bool> {
        Ok(!self.kubectl(&["get", kind, name, "--ignore-not-found", "--output", "name"])?.is_empty())
    }

    /// Changes the spec of the SlurmCluster by a merge patch, again while the operator's webhook is away.
    pub fn patch(&self, spec: &Value) -> Result<()> {
        let patch = serde_json::json!({ "spec": spec }).to_string();
        let arguments = ["patch", "slurmcluster", &self.name, "--type", "merge", "--patch", &patch];
        self.once_the_webhook_answers(|| self.kubectl(&arguments)).map(drop)
    }

    /// While the operator is away, so is its webhook, and the API server takes no change: then it is tried again, as users do.
    fn once_the_webhook_answers(&self, change: impl Fn() -> Result<String>) -> Result<String> {
        let outcome = Cell::new(None);
        self.wait("the operator's webhook answers", || match change() {
            Err(error) if is_webhook_away(&error) => Err(error),
            other => {
                outcome.set(Some(other));
                Ok(true)
            }
        })?;
        outcome.take().context("nothing was tried")?
    }

    /// Runs a command in a container of a pod.
    pub fn exec(&self, pod: &str, container: &str, command: &[&str]) -> Result<String> {
        self.kubectl(&[&["exec", pod, "--container", container, "--"], command].concat())
    }

    /// Runs a command in slurmctld's container.
    pub fn on_controller(&self, command: &[&str]) -> Result<String> {
        self.exec(&self.controller(), "slurmctld", command)
    }

    /// Runs a shell command on the login pod over SSH, with the key that the cluster was made with.
    pub fn run(&self, command: &str) -> Result<String> {
        self.ssh.run(command)
    }

    /// Whether a session that was opened by [`Ssh::session`] lives.
    pub fn has_session(&self) -> bool {
        self.exec(&self.login(), "sshd", &["pgrep", "--full", &format!("^{}", ssh::SESSION)]).is_ok()
    }

    /// The way to the login pod.
    pub fn ssh(&self) -> &Ssh {
        &self.ssh
    }

    /// The uid of a pod, which tells whether it is still the same one.
    pub fn pod_uid(&self, pod: &str) -> Result<String> {
        self.kubectl(&["get", "pod", pod, "--output", "jsonpath={.metadata.uid}"])
    }

    /// A condition of the SlurmCluster.
    pub fn condition(&self, kind: &str) -> Result<Option<Condition>> {
        let cluster = self.get("slurmcluster", &self.name)?;
        let conditions = cluster["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let text = |condition: &Value, field: &str| condition[field].as_str().unwrap_or_default().to_string();
        Ok(conditions.iter().find(|condition| condition["type"] == kind).map(|condition| Condition {
            status: text(condition, "status"),
            reason: text(condition, "reason"),
            message: text(condition, "message"),
        }))
    }

    /// Waits until `condition` holds, for as long as a test may take; errors count as "not yet".
    pub fn wait(&self, what: &str, condition: impl Fn() -> Result<bool>) -> Result<()> {
        wait_until_for(START_PATIENCE, what, condition).with_context(|| self.story())
    }

    /// Waits until the operator says that everything works, about the spec as it is now.
    pub fn wait_available(&self) -> Result<()> {
        self.wait("the cluster is available", || {
            let cluster = self.get("slurmcluster", &self.name)?;
            let status = &cluster["status"];
            Ok(status["phase"] == "Available"
                && status["observedGeneration"] == cluster["metadata"]["generation"])
        })
    }

    /// What somebody who reads a failed test wants to know.
    pub fn story(&self) -> String {
        let show = |arguments: &[&str]| self.kubectl(arguments).unwrap_or_else(|error| format!("{error:#}"));
        let status = show(&["get", "slurmcluster", &self.name, "--output", "jsonpath={.status}"]);
        let pods = show(&["get", "pods", "--output", "wide"]);
        let events = show(&["get", "events", "--sort-by=.lastTimestamp"]);
        let tail = |text: &str| {
            let lines: Vec<&str> = text.lines().collect();
            lines[lines.len().saturating_sub(20)..].join("\n")
        };
        let controller = show(&["logs", &self.controller(), "--container", "slurmctld", "--tail", "25"]);
        let operator = operator::logs(self.rig).unwrap_or_else(|error| format!("{error:#}"));
        format!(
            "status: {status}\n\n{pods}\nevents:\n{}\n\nslurmctld:\n{controller}\noperator:\n{operator}",
            tail(&events)
        )
    }
}

/// Whether the API server could not ask the operator about an object.
pub fn is_webhook_away(error: &anyhow::Error) -> bool {
    format!("{error:#}").contains("failed calling webhook")
}

/// A condition of an object's status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// True, False or Unknown.
    pub status: String,
    /// A word.
    pub reason: String,
    /// A sentence.
    pub message: String,
}

/// Runs Helm from the root of the checkout.
fn helm(rig: &Rig, arguments: &[&str], values: Option<&str>) -> Result<String> {
    output_of(rig.helm()?.args(arguments).current_dir(root()), values)
        .with_context(|| format!("helm {}", arguments.join(" ")))
}

/// The image tag of a Slurm version, as the examples write it.
fn with_version(text: &str, version: Version) -> Result<String> {
    let (default, wanted) = (crate::image("slurm-24.11")?, crate::image(recipe(version))?);
    // A values file may give repository and tag apart.
    let tag = |image: &str| image.rsplit(':').next().unwrap_or_default().to_string();
    if !text.contains(&tag(&default)) {
        bail!("the example does not name {default}");
    }
    let text = text.replace(&tag(&default), &tag(&wanted));
    // Users' commands are of the same version as the daemons.
    let (default, wanted) = (crate::image("jail")?, crate::image(jail_recipe(version))?);
    if !text.contains(&default) && text.contains("populateJail") {
        bail!("the example does not name {default}");
    }
    Ok(text.replace(&default, &wanted))
}

fn jail_recipe(version: Version) -> &'static str {
    match version {
        Version::V24_11 => "jail",
        Version::V26_05 => "jail-26.05",
    }
}

fn recipe(version: Version) -> &'static str {
    match version {
        Version::V24_11 => "slurm-24.11",
        Version::V26_05 => "slurm-26.05",
    }
}
