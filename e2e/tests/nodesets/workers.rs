//! A set of workers of either API, and what tests do to it.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use e2e::cluster::{Cluster, Job, is_webhook_away};
use e2e::output_of;
use serde_json::{Value, json};

use crate::{jobs, slinky};

/// The two APIs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Api {
    Nebius,
    Slinky,
}

/// A set of workers. Pods, host names and Slurm nodes are `<name>-<ordinal>`.
pub struct Workers<'a> {
    pub cluster: &'a Cluster,
    pub api: Api,
    pub name: String,
    namespace: String,
}

/// The uids of pods by name: they tell whether pods are still the same.
pub type Pods = BTreeMap<String, String>;

impl<'a> Workers<'a> {
    /// Makes a set in the namespace of the cluster, and waits until all its workers take jobs.
    pub fn make(cluster: &'a Cluster, api: Api, what: &str, replicas: usize) -> Result<Self> {
        Self::make_in(cluster, cluster.namespace(), api, what, replicas)
    }

    /// The same in another namespace; only sets of `slinky.slurm.net` can be there.
    pub fn make_in(
        cluster: &'a Cluster,
        namespace: &str,
        api: Api,
        what: &str,
        replicas: usize,
    ) -> Result<Self> {
        let letter = match api {
            Api::Nebius => "n",
            Api::Slinky => "s",
        };
        let workers = Self { cluster, api, name: format!("{what}-{letter}"), namespace: namespace.into() };
        let objects = match api {
            Api::Nebius => vec![nebius(cluster, &workers.name, replicas)?],
            Api::Slinky => {
                let known = [
                    "get",
                    "clusters.slinky.slurm.net",
                    slinky::CLUSTER,
                    "--ignore-not-found",
                    "--output",
                    "name",
                ];
                let is_connected = !workers.kubectl(&known)?.is_empty();
                let mut objects = if is_connected { Vec::new() } else { slinky::connection(cluster)? };
                objects.push(slinky::set(cluster, &workers.name, replicas)?);
                objects
            }
        };
        for object in objects {
            workers.change(|| {
                output_of(workers.command()?.args(["apply", "--filename", "-"]), Some(&object.to_string()))
            })?;
        }
        let all: Vec<usize> = (0..replicas).collect();
        workers.wait_idle(&all)?;
        Ok(workers)
    }

    /// The kind, as kubectl wants it where both groups have it.
    pub fn kind(&self) -> &'static str {
        match self.api {
            Api::Nebius => "nodesets.slurm.nebius.ai",
            Api::Slinky => "nodesets.slinky.slurm.net",
        }
    }

    /// The pod, and the Slurm node, with this ordinal.
    pub fn pod(&self, ordinal: usize) -> String {
        format!("{}-{ordinal}", self.name)
    }

    /// Its namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// kubectl in its namespace, to be run in another way.
    pub fn command(&self) -> Result<Command> {
        let mut command = self.cluster.rig().kubectl()?;
        command.args(["--namespace", &self.namespace]);
        Ok(command)
    }

    /// kubectl in its namespace.
    pub fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        output_of(self.command()?.args(arguments), None)
    }

    /// `soperator nodeset VERB NAME ...`; for sets in the cluster's namespace.
    pub fn soperator(&self, verb: &str, arguments: &[&str]) -> Result<String> {
        let mut command = self.cluster.soperator(&["nodeset", verb, &self.name])?;
        output_of(command.args(arguments), None)
    }

    /// Does something that the operator's webhook is asked about, again while that is away.
    fn change<T>(&self, change: impl Fn() -> Result<T>) -> Result<T> {
        let outcome = Cell::new(None);
        self.wait("the operator's webhook answers", || match change() {
            Err(error) if is_webhook_away(&error) => Err(error),
            other => {
                outcome.set(Some(other));
                Ok(true)
            }
        })?;
        outcome.take().context("no outcome")?
    }

    /// Waits, and tells about the set when it was in vain.
    pub fn wait(&self, what: &str, condition: impl Fn() -> Result<bool>) -> Result<()> {
        self.cluster
            .wait(&format!("{} of {}", what, self.name), condition)
            .with_context(|| self.soperator("status", &[]).unwrap_or_else(|error| format!("{error:#}")))
    }

    /// Sets the number of replicas by the scale subresource, as an autoscaler does.
    pub fn scale(&self, replicas: usize) -> Result<()> {
        let replicas = format!("--replicas={replicas}");
        self.change(|| self.kubectl(&["scale", self.kind(), &self.name, &replicas])).map(drop)
    }

    /// Asks for new pods, as a person does.
    pub fn restart(&self) -> Result<()> {
        self.change(|| self.soperator("restart", &[])).map(drop)
    }

    /// The set as JSON.
    pub fn get(&self) -> Result<Value> {
        Ok(serde_json::from_str(&self.kubectl(&["get", self.kind(), &self.name, "--output", "json"])?)?)
    }

    /// Status and message of a condition of the set; empty if it is not there.
    pub fn condition(&self, type_: &str) -> Result<(String, String)> {
        let set = self.get()?;
        let all = set["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = all.iter().find(|condition| condition["type"] == type_).cloned().unwrap_or_default();
        let text = |key: &str| found[key].as_str().unwrap_or_default().to_string();
        Ok((text("status"), text("message")))
    }

    /// Its pods, also those that terminate.
    pub fn pods(&self) -> Result<Pods> {
        let of = |pod: &Value| -> Option<(String, String)> {
            let meta = &pod["metadata"];
            let name = meta["name"].as_str()?;
            let ordinal = name.strip_prefix(&self.name)?.strip_prefix('-')?;
            ordinal.parse::<usize>().ok()?;
            Some((name.into(), meta["uid"].as_str()?.into()))
        };
        let pods: Value = serde_json::from_str(&self.kubectl(&["get", "pods", "--output", "json"])?)?;
        Ok(pods["items"].as_array().into_iter().flatten().filter_map(of).collect())
    }

    /// How many of its pods are ready and not on their way out.
    pub fn ready(&self) -> Result<usize> {
        let pods: Value = serde_json::from_str(&self.kubectl(&["get", "pods", "--output", "json"])?)?;
        let is_ready = |pod: &&Value| {
            let conditions = pod["status"]["conditions"].as_array();
            let is_own = pod["metadata"]["ownerReferences"][0]["name"] == *self.name;
            is_own
                && pod["metadata"]["deletionTimestamp"].is_null()
                && conditions.is_some_and(|all| {
                    all.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
                })
        };
        Ok(pods["items"].as_array().into_iter().flatten().filter(is_ready).count())
    }

    /// State and reason of a Slurm node; none if Slurm has no such node.
    pub fn node(&self, ordinal: usize) -> Result<Option<(String, String)>> {
        let shown = self.cluster.on_controller(&[
            "sinfo",
            "--Node",
            "--noheader",
            "--nodes",
            &self.pod(ordinal),
            "--format",
            "%T|%E",
        ])?;
        Ok(shown
            .lines()
            .next()
            .and_then(|line| line.split_once('|'))
            .map(|(state, reason)| (state.trim().into(), reason.trim().into())))
    }

    /// Whether a node is drained or drains, and why; none if it is not.
    pub fn drain(&self, ordinal: usize) -> Result<Option<String>> {
        Ok(self.node(ordinal)?.filter(|(state, _)| state.contains("drain")).map(|(_, reason)| reason))
    }

    /// Waits until these workers are ready and idle.
    pub fn wait_idle(&self, ordinals: &[usize]) -> Result<()> {
        self.wait("workers are idle", || {
            for ordinal in ordinals {
                if self.node(*ordinal)?.is_none_or(|(state, _)| state != "idle") {
                    return Ok(false);
                }
            }
            Ok(self.ready()? >= ordinals.len())
        })
    }

    /// Waits until the operator has drained a worker.
    pub fn wait_drained(&self, ordinal: usize) -> Result<()> {
        self.wait(&format!("{} is drained by the operator", self.pod(ordinal)), || {
            Ok(self.drain(ordinal)?.is_some_and(|reason| reason.starts_with("slurm-operator: ")))
        })
    }

    /// A job on a worker that goes on until it is told to end.
    pub fn job(&self, ordinal: usize) -> Result<Job> {
        jobs::endless(self.cluster, &self.pod(ordinal))
    }

    /// Waits until a pod is gone.
    pub fn wait_gone(&self, ordinal: usize) -> Result<()> {
        self.wait(&format!("{} is gone", self.pod(ordinal)), || {
            Ok(!self.pods()?.contains_key(&self.pod(ordinal)))
        })
    }

    /// For this time these pods must be there, the same ones, and none of them on its way out.
    pub fn stay(&self, time: Duration, pods: &Pods) -> Result<()> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            let now = self.pods()?;
            if let Some((pod, _)) = pods.iter().find(|(pod, uid)| now.get(*pod) != Some(*uid)) {
                bail!("{pod} is gone, or another one\n{}", self.cluster.story());
            }
            let ends = "jsonpath={.items[?(@.metadata.deletionTimestamp)].metadata.name}";
            let ending = self.kubectl(&["get", "pods", "--output", ends])?;
            if let Some(pod) = ending.split_whitespace().find(|pod| pods.contains_key(*pod)) {
                bail!("{pod} is on its way out\n{}", self.cluster.story());
            }
            std::thread::sleep(Duration::from_millis(500));
        }
        Ok(())
    }

    /// Deletes a pod without jobs. An operator that another test has killed cannot say yet that it has none.
    pub fn delete_pod(&self, ordinal: usize) -> Result<()> {
        self.wait("an idle worker may be deleted", || {
            self.kubectl(&["delete", "pod", &self.pod(ordinal), "--wait=false"])?;
            Ok(true)
        })
    }

    /// Deletes the set, and returns at once.
    pub fn delete(&self) -> Result<()> {
        self.kubectl(&["delete", self.kind(), &self.name, "--wait=false"]).map(drop)
    }

    /// Waits until the set and all its pods and Slurm nodes are gone.
    pub fn wait_all_gone(&self) -> Result<()> {
        self.wait("everything is gone", || {
            let left =
                self.kubectl(&["get", self.kind(), &self.name, "--ignore-not-found", "--output", "name"])?;
            Ok(left.is_empty() && self.pods()?.is_empty())
        })
    }

    /// The same at the end of a test.
    pub fn clear(&self) -> Result<()> {
        self.delete()?;
        self.wait_all_gone()
    }
}

/// The pods of a set whose ordinals are these.
pub fn some(workers: &Workers<'_>, ordinals: &[usize]) -> Result<Pods> {
    let mut pods = workers.pods()?;
    pods.retain(|pod, _| ordinals.iter().any(|ordinal| *pod == workers.pod(*ordinal)));
    if pods.len() != ordinals.len() {
        bail!("not all of {ordinals:?} are among {pods:?}");
    }
    Ok(pods)
}

/// A set like the one that `slurmNodes.worker` has become, without claims.
fn nebius(cluster: &Cluster, name: &str, replicas: usize) -> Result<Value> {
    let mut spec = cluster.get("nodesets.slurm.nebius.ai", &cluster.object("worker"))?["spec"].take();
    spec["replicas"] = replicas.into();
    spec["maxUnavailable"] = 1.into();
    spec["slurmd"]["resources"] = json!({"cpu": "50m", "memory": "256Mi"});
    let volumes = &mut spec["slurmd"]["volumes"];
    volumes["spool"] = json!({"emptyDir": {}});
    if let Some(mounts) = volumes["customVolumeMounts"].as_array_mut() {
        mounts.retain(|mount| mount["mountPath"] != "/var/spool/slurmd");
    }
    Ok(json!({
        "apiVersion": "slurm.nebius.ai/v1alpha1", "kind": "NodeSet", "metadata": {"name": name}, "spec": spec,
    }))
}
