//! Every fault at every place of the life of a set of workers: no job is lost, and the end is the same.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Result;
use api::nebius::{NodeSet, SlurmCluster};
use engine::client::{BoxError, Verb};
use engine::testing::sweep::{self, Choice, Scenario, Step};
use engine::testing::{Injector, World, Write};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Secret, Service, ServiceAccount};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use kube::{Client, Config, ResourceExt as _};
use operator::controllers::Setup;
use parking_lot::Mutex;
use rig::SlurmMachine;
use rig::slurm::Version;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::place::{config, connect, manifest, operate_with, server, setup};
use crate::slurm_between::stand_between;
use crate::slurm_faults::{self, SlurmFaults};
use crate::slurm_place::{
    CLUSTER, Kubelet, SET, jwt_secret, links, machine, node_set, start_job, worker_account,
};

/// What the user does, one after the other.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// Makes the set with so many workers.
    Make(i32),
    /// Wants so many workers.
    Scale(i32),
    /// Wants so many workers while a job runs on this node for a few seconds.
    ScaleUnderJob(i32, &'static str),
    /// Wants other pods.
    Roll(&'static str),
    /// Wants other pods while a job runs on this node for a few seconds.
    RollUnderJob(&'static str, &'static str),
    /// Wants the pods of the beginning again while a job runs on this node for a few seconds.
    RollBackUnderJob(&'static str),
    /// Deletes the set.
    Delete,
    /// Deletes the set while a job runs on this node for a few seconds.
    DeleteUnderJob(&'static str),
}

impl Act {
    fn deletes(self) -> bool {
        matches!(self, Self::Delete | Self::DeleteUnderJob(_))
    }

    /// The node that a job runs on meanwhile.
    fn job(self) -> Option<&'static str> {
        match self {
            Self::ScaleUnderJob(_, node)
            | Self::RollUnderJob(_, node)
            | Self::RollBackUnderJob(node)
            | Self::DeleteUnderJob(node) => Some(node),
            Self::Make(_) | Self::Scale(_) | Self::Roll(_) | Self::Delete => None,
        }
    }
}

/// The life of a set.
struct Life {
    name: &'static str,
    config: Config,
    acts: Vec<Act>,
    /// The first act with faults. Those before are the beginning of another life too.
    faults_from: usize,
    /// Without it pods never start, and nobody has to be asked.
    has_slurm: bool,
    /// Machines that no run uses now.
    machines: Mutex<Vec<Arc<SlurmMachine>>>,
    /// What each run that is under way has, by its namespace.
    runs: Mutex<BTreeMap<String, Run>>,
    /// How many writes to Slurm the longest run made, and how many of them before faults may be.
    slurm_writes: AtomicUsize,
    slurm_writes_before: AtomicUsize,
    /// Its pods wait for nobody, so many as this are wanted in the end of each step.
    states: Vec<(i32, Option<&'static str>)>,
}

/// The Slurm of one run.
struct Run {
    slurm: Arc<SlurmMachine>,
    kubelet: Kubelet,
    faults: Arc<SlurmFaults>,
    url: String,
}

impl Life {
    fn new(name: &'static str, config: Config, acts: Vec<Act>, faults_from: usize, has_slurm: bool) -> Self {
        let (mut replicas, mut value, mut states) = (0, None, Vec::new());
        for act in &acts {
            match act {
                Act::Make(count) | Act::Scale(count) | Act::ScaleUnderJob(count, _) => replicas = *count,
                Act::Roll(text) | Act::RollUnderJob(text, _) => value = Some(*text),
                Act::RollBackUnderJob(_) => value = None,
                Act::Delete | Act::DeleteUnderJob(_) => replicas = 0,
            }
            states.push((replicas, value));
        }
        Self {
            name,
            config,
            acts,
            faults_from,
            has_slurm,
            machines: Mutex::default(),
            runs: Mutex::default(),
            slurm_writes: AtomicUsize::default(),
            slurm_writes_before: AtomicUsize::default(),
            states,
        }
    }

    /// A Slurm for a run on this namespace, as if nothing had been.
    async fn slurm(&self, client: Client, namespace: &str) -> Result<()> {
        let free = self.machines.lock().pop();
        let slurm = match free {
            Some(slurm) => slurm,
            None => machine(Version::V26_05, 3)?,
        };
        reset(&slurm);
        let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
        secrets.create(&PostParams::default(), &jwt_secret(CLUSTER, slurm.jwt_key()?)?).await?;
        let kubelet = Kubelet::start(client, namespace, Arc::clone(&slurm));
        let faults = Arc::new(SlurmFaults::default());
        let sees = Arc::clone(&faults);
        let url = stand_between(&slurm.rest_url()?, move |request| sees.see(request)).await?;
        self.runs.lock().insert(namespace.into(), Run { slurm, kubelet, faults, url });
        Ok(())
    }
}

fn kinds() -> Vec<ApiResource> {
    vec![
        ApiResource::erase::<NodeSet>(&()),
        ApiResource::erase::<ConfigMap>(&()),
        ApiResource::erase::<Service>(&()),
        ApiResource::erase::<PersistentVolumeClaim>(&()),
        ApiResource::erase::<Pod>(&()),
        ApiResource::erase::<PodDisruptionBudget>(&()),
        ApiResource::erase::<ControllerRevision>(&()),
    ]
}

async fn change(client: &Client, namespace: &str, patch: Value) -> Result<(), BoxError> {
    let sets: Api<NodeSet> = Api::namespaced(client.clone(), namespace);
    sets.patch(SET, &PatchParams::default(), &Patch::Merge(&patch)).await?;
    Ok(())
}

impl Scenario for Life {
    fn name(&self) -> &str {
        self.name
    }

    fn client(&self, injector: Arc<Injector>) -> Result<Client, BoxError> {
        Ok(connect(self.config.clone(), Some(injector))?)
    }

    fn plain_client(&self) -> Result<Client, BoxError> {
        Ok(connect(self.config.clone(), None)?)
    }

    fn namespace(&self) -> Step<'_, String> {
        async {
            let namespace = server().await?.namespace(self.name).await?.name().to_string();
            let client = self.plain_client()?;
            if self.has_slurm {
                self.slurm(client.clone(), &namespace).await?;
            }
            let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), &namespace);
            accounts.create(&PostParams::default(), &worker_account(CLUSTER)?).await?;
            let clusters: Api<SlurmCluster> = Api::namespaced(client, &namespace);
            let cluster: SlurmCluster = serde_json::from_value(manifest(CLUSTER)?)?;
            clusters.create(&PostParams::default(), &cluster).await?;
            Ok(namespace)
        }
        .boxed()
    }

    fn start(&self, client: Client, namespace: &str, stop: CancellationToken) -> BoxFuture<'static, ()> {
        let url = self.runs.lock().get(namespace).map(|run| run.url.clone()).unwrap_or_default();
        let setup =
            Setup { links: links(url), controllers: vec![operator::nodeset::NAME], ..setup(namespace) };
        operate_with(client, setup, stop).boxed()
    }

    fn steps(&self) -> usize {
        self.acts.len()
    }

    fn faults_from(&self) -> usize {
        self.faults_from
    }

    fn patience(&self) -> Duration {
        Duration::from_secs(60)
    }

    fn at_once(&self) -> usize {
        4
    }

    fn own_faults(&self) -> Vec<String> {
        if !self.has_slurm {
            return Vec::new();
        }
        let before = self.slurm_writes_before.load(Ordering::Relaxed);
        let writes = self.slurm_writes.load(Ordering::Relaxed);
        let faults = slurm_faults::all(before + 1..=writes, self.faults_from..self.acts.len());
        faults.iter().map(ToString::to_string).collect()
    }

    fn arm(&self, namespace: &str, fault: &str) {
        if let Some(run) = self.runs.lock().get(namespace) {
            run.faults.arm(fault);
        }
    }

    fn end<'a>(&'a self, namespace: &'a str) -> Step<'a, ()> {
        async move {
            let Some(run) = self.runs.lock().remove(namespace) else { return Ok(()) };
            let lost = run.kubelet.lost();
            self.slurm_writes.fetch_max(run.faults.writes(), Ordering::Relaxed);
            // It ends its slurmds, and the next run can have the machine.
            run.kubelet.end().await;
            self.machines.lock().push(run.slurm);
            if lost.is_empty() { Ok(()) } else { Err(format!("pods went under jobs: {lost:?}").into()) }
        }
        .boxed()
    }

    fn act<'a>(&'a self, client: &'a Client, namespace: &'a str, step: usize) -> Step<'a, ()> {
        async move {
            let slurm = self.runs.lock().get(namespace).map(|run| {
                if step == self.faults_from {
                    self.slurm_writes_before.fetch_max(run.faults.writes(), Ordering::Relaxed);
                }
                run.faults.step(step);
                Arc::clone(&run.slurm)
            });
            let sets: Api<NodeSet> = Api::namespaced(client.clone(), namespace);
            let roll = |text: Option<&str>| json!({ "spec": { "workerAnnotations": { "roll": text } } });
            if let (Some(slurm), Some(node)) = (slurm, self.acts[step].job()) {
                // It looks at Slurm until the job runs; the other runs go on meanwhile.
                tokio::task::spawn_blocking(move || start_job(&slurm, node, "sleep 3")).await??;
            }
            match self.acts[step] {
                Act::Make(replicas) => {
                    sets.create(&PostParams::default(), &node_set(SET, CLUSTER, replicas)?).await?;
                }
                Act::Scale(replicas) | Act::ScaleUnderJob(replicas, _) => {
                    change(client, namespace, json!({ "spec": { "replicas": replicas } })).await?;
                }
                Act::Roll(text) | Act::RollUnderJob(text, _) => {
                    change(client, namespace, roll(Some(text))).await?;
                }
                Act::RollBackUnderJob(_) => change(client, namespace, roll(None)).await?,
                Act::Delete | Act::DeleteUnderJob(_) => {
                    sets.delete(SET, &DeleteParams::background()).await?;
                }
            }
            Ok(())
        }
        .boxed()
    }

    fn is_done<'a>(&'a self, client: &'a Client, namespace: &'a str, step: usize) -> Step<'a, bool> {
        async move {
            let (replicas, value) = self.states[step];
            let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
            let pods = pods.list(&ListParams::default()).await?.items;
            let as_wanted = |pod: &Pod| {
                pod.metadata.deletion_timestamp.is_none()
                    && pod.annotations().get("roll").map(String::as_str) == value
            };
            if pods.len() != usize::try_from(replicas)? || !pods.iter().all(as_wanted) {
                return Ok(false);
            }
            let sets: Api<NodeSet> = Api::namespaced(client.clone(), namespace);
            let Some(set) = sets.get_opt(SET).await? else {
                return Ok(self.acts[step].deletes());
            };
            if self.acts[step].deletes() {
                return Ok(false);
            }
            let Some(status) = set.status else { return Ok(false) };
            let settled = status.observed_generation == set.metadata.generation;
            // With Slurm all of them work in the end, none is drained, and so all are protected again.
            let work = || status.phase == "Ready" && pods.iter().all(is_protected);
            Ok(settled && (!self.has_slurm || work()))
        }
        .boxed()
    }

    fn world<'a>(&'a self, client: &'a Client, namespace: &'a str) -> Step<'a, World> {
        async move {
            let mask = |kind: &str, value: &mut Value| {
                if kind == "ConfigMap" && value["metadata"]["name"] == "kube-root-ca.crt" {
                    *value = Value::Null;
                    return;
                }
                // Which revisions there are depends on the namespace, which is part of their content; how many does not.
                if kind == "ControllerRevision" {
                    *value = Value::Null;
                    return;
                }
                if let Some(labels) = value["metadata"]["labels"].as_object_mut() {
                    labels.remove(operator::nodeset::REVISION);
                }
                if kind != "NodeSet"
                    && let Some(object) = value.as_object_mut()
                {
                    object.remove("status");
                }
            };
            let sets: Api<NodeSet> = Api::namespaced(client.clone(), namespace);
            if sets.get_opt(SET).await?.is_none() {
                // When the garbage collector comes to the rest is its own business.
                let kinds = [ApiResource::erase::<NodeSet>(&()), ApiResource::erase::<Pod>(&())];
                return Ok(World::read(client, namespace, &kinds, mask).await?);
            }
            let mut world = World::read(client, namespace, &kinds(), mask).await?;
            let revisions: Api<ControllerRevision> = Api::namespaced(client.clone(), namespace);
            let count = revisions.list(&ListParams::default()).await?.items.len();
            world.objects.insert("revisions".into(), count.into());
            Ok(world)
        }
        .boxed()
    }

    fn monitor(&self, writes: &[Write]) -> Result<(), String> {
        for write in writes {
            let (call, body) = (&write.call, &write.body);
            let of_pod = call.resource == "pods";
            if of_pod
                && call.verb == Verb::Delete
                && (body["preconditions"]["uid"].is_null()
                    || body["preconditions"]["resourceVersion"].is_null())
            {
                return Err(format!("{call} without the version of what was looked at"));
            }
            let makes = call.verb == Verb::Create && call.subresource.is_none();
            if makes && body["metadata"]["ownerReferences"].is_null() {
                return Err(format!("{call} makes an object without an owner"));
            }
        }
        let statuses: Vec<&Value> = writes
            .iter()
            .filter(|write| write.call.subresource.is_some() && write.call.resource == "nodesets")
            .filter(|write| write.status.is_some_and(|status| status < 300))
            .map(|write| &write.body["status"])
            .collect();
        // One whose answer was lost is sent a second time, which changes nothing.
        if let Some(same) = statuses.windows(3).find(|same| same.iter().all(|status| *status == same[0])) {
            return Err(format!("the same status was written again and again: {}", same[0]));
        }
        Ok(())
    }
}

/// Whether it is held against evictions, as all are but those whose node is drained and free.
fn is_protected(pod: &Pod) -> bool {
    pod.labels().contains_key(operator::nodeset::PROTECT)
}

/// All nodes take jobs, as if nothing had been.
fn reset(slurm: &SlurmMachine) {
    let _ = slurm.exec(&["scancel", "--user=root"]);
    for number in 0..3 {
        let node = format!("NodeName=w-{number}");
        let _ = slurm.exec(&["scontrol", "update", &node, "State=UNDRAIN"]);
        let _ = slurm.exec(&["scontrol", "update", &node, "State=RESUME"]);
    }
}

async fn sweep(life: Life, sample: usize) -> Result<()> {
    let report = sweep::run(Arc::new(life), Choice::from_env(sample, 5)).await;
    println!("{} of {} cases ran, {} failed", report.cases, report.of, report.failures.len());
    assert!(report.cases > 0, "{}", report.failures.join("\n"));
    assert!(report.failures.is_empty(), "{}", report.failures.join("\n"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn every_fault_in_the_life_of_workers_that_never_start_leads_to_the_same_end() -> Result<()> {
    let acts = vec![
        Act::Make(2),
        Act::Scale(4),
        Act::Scale(1),
        Act::Roll("one"),
        Act::Roll("two"),
        Act::Roll("one"),
        Act::Delete,
    ];
    sweep(Life::new("workers-never-start", config().await?, acts, 0, false), 8).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn no_fault_costs_a_job_of_workers_that_come_and_go() -> Result<()> {
    let acts = vec![Act::Make(2), Act::ScaleUnderJob(1, "w-1"), Act::Scale(3)];
    sweep(Life::new("workers-scale-under-jobs", config().await?, acts, 0, true), 2).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn no_fault_costs_a_job_of_workers_that_are_replaced() -> Result<()> {
    let acts = vec![Act::Make(2), Act::RollUnderJob("one", "w-1"), Act::RollBackUnderJob("w-0")];
    sweep(Life::new("workers-roll-under-jobs", config().await?, acts, 1, true), 2).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn no_fault_costs_a_job_of_workers_that_end() -> Result<()> {
    let acts = vec![Act::Make(2), Act::DeleteUnderJob("w-1")];
    sweep(Life::new("workers-end-under-jobs", config().await?, acts, 1, true), 2).await
}
