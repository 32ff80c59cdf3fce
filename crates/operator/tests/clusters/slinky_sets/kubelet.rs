//! Plays the kubelet: each worker's pod gets a slurmd of its own, in a Slurm machine.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{Api, ListParams, Patch, PatchParams};
use rig::SlurmMachine;
use rig::slurm::{Options, Version};
use serde_json::json;
use tokio::task::{JoinHandle, spawn_blocking};

use crate::place::Place;

/// The port of the first slurmd; each has its own.
const FIRST_PORT: u32 = 7100;

/// A Slurm that dynamic nodes can join, with one node that is none of ours.
pub fn slurm(version: Version) -> Result<Arc<SlurmMachine>> {
    Ok(Arc::new(SlurmMachine::start(Options::new(version).nodes(1).extra_conf("MaxNodeCount=40"))?))
}

/// Runs pods until it is dropped.
pub struct Kubelet(JoinHandle<()>);

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Kubelet {
    pub fn start(place: &Place, slurm: &Arc<SlurmMachine>) -> Self {
        let mut rounds =
            Rounds { pods: place.api(), slurm: Arc::clone(slurm), running: BTreeMap::new(), started: 0 };
        Self(tokio::spawn(async move {
            loop {
                if let Err(error) = rounds.go().await {
                    eprintln!("the kubelet of the test: {error:#}");
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }))
    }
}

struct Rounds {
    pods: Api<Pod>,
    slurm: Arc<SlurmMachine>,
    /// Name of the daemon by uid of the pod.
    running: BTreeMap<String, String>,
    started: u32,
}

impl Rounds {
    async fn go(&mut self) -> Result<()> {
        let labelled = ListParams::default().labels("nodeset.slinky.slurm.net/pod-name");
        let pods = self.pods.list(&labelled).await?.items;
        let gone: Vec<String> = self
            .running
            .keys()
            .filter(|uid| !pods.iter().any(|pod| pod.metadata.uid.as_ref() == Some(uid)))
            .cloned()
            .collect();
        for uid in gone {
            if let Some(daemon) = self.running.remove(&uid) {
                let slurm = Arc::clone(&self.slurm);
                spawn_blocking(move || slurm.stop(&daemon)).await??;
            }
        }
        for pod in pods {
            let uid = pod.uid().context("a pod has a uid")?;
            if !self.running.contains_key(&uid) {
                self.run(&pod).await?;
            }
        }
        Ok(())
    }

    async fn run(&mut self, pod: &Pod) -> Result<()> {
        let node =
            pod.spec.as_ref().and_then(|spec| spec.hostname.clone()).context("a worker has a host name")?;
        self.started += 1;
        let daemon = format!("slurmd-{node}-{}", self.started);
        let conf = format!("Port={} CPUs=4 RealMemory=1000", FIRST_PORT + self.started);
        let (slurm, name) = (Arc::clone(&self.slurm), daemon.clone());
        spawn_blocking(move || {
            slurm.start_daemon(&name, &["/usr/sbin/slurmd", "-D", "-Z", "-N", &node, "--conf", &conf])
        })
        .await??;
        self.running.insert(pod.uid().context("a pod has a uid")?, daemon);
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let status = json!({ "status": {
            "phase": "Running",
            "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": now }],
            "containerStatuses": [{
                "name": "slurmd", "image": "i", "imageID": "", "ready": true, "started": true, "restartCount": 0,
                "containerID": format!("test://{}", self.started),
                "state": { "running": { "startedAt": now } },
            }],
        } });
        self.pods.patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Strategic(&status)).await?;
        Ok(())
    }
}
