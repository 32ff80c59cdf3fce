//! Workers of a real Slurm: an API server with the controllers, slurmctld, and a kubelet that starts a slurmd for each pod.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use api::nebius::NodeSet;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Pod, Secret, ServiceAccount};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use operator::controllers::Setup;
use operator::slurm_links::SlurmLinks;
use parking_lot::Mutex;
use rig::SlurmMachine;
use rig::slurm::{Options, Version};
use serde_json::{Value, json};
use slurm_client::{Pace, Timeouts};
use tokio_util::sync::CancellationToken;

use crate::place::Place;

/// The SlurmCluster: called as the Slurm of every machine is.
pub const CLUSTER: &str = "test";
/// The NodeSet; its pods are `w-0`, `w-1`, ...
pub const SET: &str = "w";

/// A Slurm with nodes `w-0`, `w-1`, ... that no slurmd runs for yet.
pub fn machine(version: Version, nodes: u16) -> Result<Arc<SlurmMachine>> {
    let mut lines = String::new();
    for number in 0..nodes {
        let port = 7100 + number;
        lines += &format!(
            "NodeName=w-{number} NodeAddr=127.0.0.1 Port={port} CPUs=4 RealMemory=4000 State=UNKNOWN\n"
        );
    }
    lines += "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n";
    Ok(Arc::new(SlurmMachine::start(Options::new(version).nodes(0).extra_conf(&lines))?))
}

/// Links to this slurmrestd that look often.
pub fn links(url: String) -> SlurmLinks {
    let second = Duration::from_secs(1);
    let pace = Pace { fast: second / 5, slow: second * 5, longest: second, full: second * 60 };
    let timeouts = Timeouts { answer: second * 3, ..Timeouts::default() };
    SlurmLinks::with(Box::new(move |_, _| url.clone()), pace, timeouts)
}

/// The Secret with the key for tokens of the cluster.
pub fn jwt_secret(cluster: &str, key: Vec<u8>) -> Result<Secret> {
    Ok(Secret {
        metadata: serde_json::from_value(json!({ "name": format!("{cluster}-rest-jwt-key") }))?,
        data: Some([("rest_jwt.key".to_string(), ByteString(key))].into()),
        ..Secret::default()
    })
}

/// What the controller of clusters makes for workers.
pub fn worker_account(cluster: &str) -> Result<ServiceAccount> {
    let labels = json!({ "app.kubernetes.io/managed-by": operator::MANAGER });
    let metadata = json!({ "name": format!("{cluster}-worker-sa"), "labels": labels });
    Ok(serde_json::from_value(json!({ "metadata": metadata }))?)
}

/// The manifest of a NodeSet.
pub fn node_set(name: &str, cluster: &str, replicas: i32) -> Result<NodeSet> {
    let text = include_str!("../../../../examples/api/slurm.nebius.ai/nodeset.yaml");
    let mut set: Value = serde_saphyr::from_str(text)?;
    set["metadata"] = json!({ "name": name });
    set["spec"]["clusterName"] = cluster.into();
    set["spec"]["replicas"] = replicas.into();
    set["spec"]["maxUnavailable"] = 1.into();
    set["spec"]["priorityClass"] = Value::Null;
    Ok(serde_json::from_value(set)?)
}

/// What a kubelet says of a worker that runs.
pub fn running(generation: u32) -> Value {
    let now = jiff::Timestamp::now();
    let started = jiff::Timestamp::from_second(now.as_second()).unwrap_or(now).to_string();
    json!({ "status": {
        "phase": "Running",
        "podIP": "192.0.2.1",
        "podIPs": [{ "ip": "192.0.2.1" }],
        "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": started }],
        "containerStatuses": [{
            "name": "slurmd", "image": "i", "imageID": "", "ready": true, "restartCount": 0, "started": true,
            "containerID": format!("containerd://{generation}"),
            "state": { "running": { "startedAt": started } },
        }],
    } })
}

/// Stands in for the kubelets: starts a slurmd for each pod of a set, ends it with the pod, and notes where jobs were then.
pub struct Kubelet {
    stop: CancellationToken,
    lost: Arc<Mutex<Vec<String>>>,
    ended: CancellationToken,
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Kubelet {
    pub fn start(client: Client, namespace: &str, slurm: Arc<SlurmMachine>) -> Self {
        let (stop, ended) = (CancellationToken::new(), CancellationToken::new());
        let kubelet = Self { stop: stop.clone(), lost: Arc::default(), ended: ended.clone() };
        let lost = Arc::clone(&kubelet.lost);
        let pods: Api<Pod> = Api::namespaced(client, namespace);
        tokio::spawn(async move {
            let mut known = BTreeMap::new();
            while !stop.is_cancelled() {
                if let Err(error) = look(&pods, &slurm, &mut known, &lost).await {
                    eprintln!("kubelet: {error:#}");
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            // The next test finds no slurmd that it did not start.
            for (pod, _) in known {
                let _ = slurm.stop(&format!("slurmd-{pod}"));
            }
            ended.cancel();
        });
        kubelet
    }

    /// Ends it, and all slurmds with it.
    pub async fn end(self) {
        self.stop.cancel();
        self.ended.cancelled().await;
    }

    /// Pods that went while jobs were on them.
    pub fn lost(&self) -> Vec<String> {
        self.lost.lock().clone()
    }
}

static GENERATION: AtomicU32 = AtomicU32::new(1);

async fn look(
    pods: &Api<Pod>,
    slurm: &SlurmMachine,
    known: &mut BTreeMap<String, (String, String)>,
    lost: &Mutex<Vec<String>>,
) -> Result<()> {
    let list = pods.list(&ListParams::default().labels(&format!("slurm.nebius.ai/nodeset={SET}"))).await?;
    let mut now = BTreeMap::new();
    for pod in list {
        // On a node a kubelet would end it; here nobody else does.
        if pod.metadata.deletion_timestamp.is_some() {
            let _ = pods.delete(&pod.name_any(), &DeleteParams::default().grace_period(0)).await;
            continue;
        }
        let image = pod.spec.as_ref().and_then(|spec| spec.containers.iter().find(|c| c.name == "slurmd"));
        let image = image.and_then(|container| container.image.clone()).unwrap_or_default();
        now.insert(pod.name_any(), (pod.uid().unwrap_or_default(), image));
    }
    let gone: Vec<String> =
        known.iter().filter(|(name, id)| now.get(*name) != Some(id)).map(|(name, _)| name.clone()).collect();
    for name in gone {
        known.remove(&name);
        let jobs = slurm.exec(&["squeue", "-h", "-w", &name, "-t", "R,S,CG", "-o", "%i"])?;
        if !jobs.trim().is_empty() {
            lost.lock().push(format!("{name} with {}", jobs.trim()));
        }
        slurm.stop(&format!("slurmd-{name}"))?;
    }
    for (name, id) in now {
        if known.contains_key(&name) {
            continue;
        }
        let daemon = format!("slurmd-{name}");
        match slurm.running(&daemon) {
            None => slurm.start_daemon(&daemon, &["/usr/sbin/slurmd", "-D", "-N", &name])?,
            Some(_) => slurm.start_again(&daemon)?,
        }
        let status = running(GENERATION.fetch_add(1, Ordering::Relaxed));
        // It may have gone by now.
        let _ = pods.patch_status(&name, &PatchParams::default(), &Patch::Strategic(&status)).await;
        known.insert(name, id);
    }
    Ok(())
}

/// A place with a set of workers that all run.
pub struct SlurmPlace {
    pub kubelet: Kubelet,
    pub place: Place,
    pub slurm: Arc<SlurmMachine>,
}

impl SlurmPlace {
    /// With so many workers, each with its node idle.
    pub async fn new(name: &str, version: Version, workers: u16) -> Result<Self> {
        // slurmctld runs elsewhere: the controller of clusters would find that it is not ready, and hold updates back.
        Self::with_setup(name, version, workers, |setup| setup.controllers = vec![operator::nodeset::NAME])
            .await
    }

    /// With other settings.
    pub async fn with_setup(
        name: &str,
        version: Version,
        workers: u16,
        change: impl FnOnce(&mut Setup),
    ) -> Result<Self> {
        let slurm = machine(version, workers)?;
        let links = links(slurm.rest_url()?);
        Self::with_links(name, slurm, workers, links, change).await
    }

    /// With this Slurm, which is asked in this way.
    pub async fn with_links(
        name: &str,
        slurm: Arc<SlurmMachine>,
        workers: u16,
        links: SlurmLinks,
        change: impl FnOnce(&mut Setup),
    ) -> Result<Self> {
        let mut has_clusters = false;
        let place = Place::with_setup(name, |setup| {
            setup.links = links;
            change(setup);
            has_clusters = setup.controllers.contains(&operator::slurmcluster::NAME);
        })
        .await?;
        place.api::<Secret>().create(&Default::default(), &jwt_secret(CLUSTER, slurm.jwt_key()?)?).await?;
        // The set comes first: it must wait for its cluster, and for what the cluster makes for it.
        let set = node_set(SET, CLUSTER, workers.into())?;
        place.api::<NodeSet>().create(&Default::default(), &set).await?;
        place.make(CLUSTER, |manifest| manifest["spec"]["slurmNodes"]["worker"]["size"] = 0.into()).await?;
        if !has_clusters {
            place.api::<ServiceAccount>().create(&Default::default(), &worker_account(CLUSTER)?).await?;
        }
        let kubelet = Kubelet::start(place.client.clone(), place.name(), Arc::clone(&slurm));
        let place = Self { kubelet, place, slurm };
        for number in 0..workers {
            place.until_idle(&format!("w-{number}")).await?;
        }
        place
            .until("the set is ready", async || {
                Ok(place.set().await?.status.filter(|status| status.phase == "Ready"))
            })
            .await?;
        Ok(place)
    }

    pub async fn until<T>(&self, what: &str, check: impl AsyncFn() -> Result<Option<T>>) -> Result<T> {
        match self.place.until(what, check).await {
            Ok(found) => Ok(found),
            Err(error) => {
                let set = self.set().await.ok().and_then(|set| set.status);
                let nodes = self.slurm.exec(&["sinfo", "-N", "-o", "%N %T %E"]).unwrap_or_default();
                let pods = self.uids().await.unwrap_or_default();
                Err(error.context(format!("{set:#?}\n{nodes}\n{pods:?}")))
            }
        }
    }

    /// Waits until nothing has been written for a while. There is no status of a cluster to wait for, as in other places.
    pub async fn until_quiet(&self) -> Result<()> {
        let last = Mutex::new((self.place.writes().len(), Instant::now()));
        self.until("nothing is written", async || {
            let now = self.place.writes().len();
            let mut last = last.lock();
            if last.0 != now {
                *last = (now, Instant::now());
            }
            Ok((last.1.elapsed() > Duration::from_millis(2500)).then_some(()))
        })
        .await
    }

    pub async fn until_idle(&self, node: &str) -> Result<()> {
        let idle = async || Ok(self.state(node)?.starts_with("idle ").then_some(()));
        self.until(&format!("{node} is idle"), idle).await
    }

    /// The state and reason of a Slurm node.
    pub fn state(&self, node: &str) -> Result<String> {
        Ok(self.slurm.exec(&["sinfo", "-h", "-N", "-n", node, "-o", "%T %E"])?.to_lowercase())
    }

    pub async fn set(&self) -> Result<NodeSet> {
        Ok(self.place.api::<NodeSet>().get(SET).await?)
    }

    /// Changes the set by a merge patch.
    pub async fn change(&self, patch: Value) -> Result<()> {
        self.place.api::<NodeSet>().patch(SET, &PatchParams::default(), &Patch::Merge(&patch)).await?;
        Ok(())
    }

    pub async fn scale(&self, replicas: i32) -> Result<()> {
        self.change(json!({ "spec": { "replicas": replicas } })).await
    }

    /// A change of what pods are made from.
    pub async fn roll(&self, value: &str) -> Result<()> {
        self.change(json!({ "spec": { "workerAnnotations": { "roll": value } } })).await
    }

    /// Pods of the set by name, with their uids.
    pub async fn uids(&self) -> Result<BTreeMap<String, String>> {
        let params = ListParams::default().labels(&format!("slurm.nebius.ai/nodeset={SET}"));
        let pods = self.place.api::<Pod>().list(&params).await?;
        Ok(pods.into_iter().map(|pod| (pod.name_any(), pod.uid().unwrap_or_default())).collect())
    }

    pub async fn until_pods(&self, names: &[&str]) -> Result<()> {
        self.until(&format!("the pods are {names:?}"), async || {
            let pods = self.uids().await?;
            Ok(pods.keys().map(String::as_str).eq(names.iter().copied()).then_some(()))
        })
        .await
    }

    /// Starts a job on a node that runs until it is cancelled; returns its number.
    pub fn start_job(&self, node: &str) -> Result<String> {
        start_job(&self.slurm, node, "sleep 1000")
    }

    /// Status, reason and message of a condition of the set.
    pub async fn condition(&self, type_: &str) -> Result<(String, String, String)> {
        let conditions = self.set().await?.status.and_then(|status| status.conditions).unwrap_or_default();
        let found = conditions.into_iter().find(|condition| condition.type_ == type_);
        let found = found.with_context(|| format!("no condition {type_}"))?;
        Ok((found.status, found.reason, found.message))
    }

    /// Waits until a condition of the set has this status and a message or reason that contains this.
    pub async fn until_told(&self, type_: &str, status: &str, part: &str) -> Result<String> {
        self.until(&format!("{type_} is {status} and tells {part:?}"), async || {
            let Ok((now, reason, message)) = self.condition(type_).await else { return Ok(None) };
            Ok((now == status && (message.contains(part) || reason == part)).then_some(message))
        })
        .await
    }
}

/// Starts a job on a node; returns its number when it runs.
pub fn start_job(slurm: &SlurmMachine, node: &str, command: &str) -> Result<String> {
    let job = slurm.exec(&["sbatch", "--parsable", "-w", node, "-o", "/dev/null", "--wrap", command])?;
    let job = job.trim().to_string();
    slurm.wait_for_job(&job, &["RUNNING"])?;
    Ok(job)
}
