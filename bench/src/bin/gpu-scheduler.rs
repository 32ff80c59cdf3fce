//! The GPU scheduler: the cost of a decision, the rate at which a backlog is bound against raw loops and kube-scheduler on the
//! same real API server, and memory.
//!
//! ```text
//! gpu-scheduler [decide|drain|memory]... [--pods N] [--nodes N]
//! ```
//!
//! docs/benchmarks.md tells what each part does.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use bench::{cpu_time, mb, memory_of, peak_of};
use clap::{Parser, ValueEnum};
use engine::client;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use gpu_scheduler::core::{self, Core, Decision};
use gpu_scheduler::facts::{Node, Pod};
use gpu_scheduler::server::{Health, Options, schedule};
use gpu_scheduler::view::PodView;
use k8s_openapi::api::core::v1::{Namespace, Node as NodeObject, Pod as PodObject};
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config, ResourceExt as _};
use rig::{ControlPlane, Namespace as Place};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// Binds of the raw loops under way at once.
const AT_ONCE: usize = 64;
const PATIENCE: Duration = Duration::from_secs(600);

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    Decide,
    Drain,
    Memory,
}

#[derive(Debug, Parser)]
struct Args {
    /// What to measure; all of it if none is named
    parts: Vec<Part>,
    /// Pods of the backlog
    #[arg(long, default_value_t = 5_000)]
    pods: usize,
    /// Nodes beside it
    #[arg(long, default_value_t = 1_000)]
    nodes: usize,
    /// Pods that are known, for the memory
    #[arg(long, default_value_t = 50_000)]
    known_pods: usize,
    /// Nodes that are known, for the memory
    #[arg(long, default_value_t = 5_000)]
    known_nodes: usize,
    /// The program whose memory is measured
    #[arg(long)]
    program: Option<PathBuf>,
}

/// Prints figures against their limits, and remembers whether one was missed.
#[derive(Default)]
struct Report {
    missed: usize,
}

impl Report {
    fn line(&mut self, text: &str, good: bool, limit: &str) {
        self.missed += usize::from(!good);
        println!("{} {text} (wanted: {limit})", if good { "ok  " } else { "over" });
    }
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<ExitCode> {
    let args = Args::parse();
    let wants = |part| args.parts.is_empty() || args.parts.contains(&part);
    let mut report = Report::default();
    if wants(Part::Decide) {
        decide(&args, &mut report)?;
    }
    if wants(Part::Drain) {
        drain(&args, &mut report).await?;
    }
    if wants(Part::Memory) {
        memory(&args, &mut report).await?;
    }
    Ok(if report.missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn node(number: usize) -> Value {
    let name = format!("node-{number}");
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "labels": { "kubernetes.io/hostname": name, "gpu-node-name": format!("gpu-{number}") } },
    })
}

fn node_status() -> Value {
    json!({
        "allocatable": { "cpu": "64", "memory": "256Gi", "ephemeral-storage": "1Ti", "pods": "250" },
        "conditions": [{ "type": "Ready", "status": "True", "reason": "Bench", "message": "",
                         "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z" }],
    })
}

/// A pod that wants one device of one node. The selector names the same node, so that kube-scheduler has the same choice.
fn pod(number: usize, nodes: usize, scheduler: &str) -> Value {
    let node = number % nodes;
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("pod-{number}"),
            "labels": { "app": "bench" },
            "annotations": { "gpu-scheduling-map": format!("{number}=node-{node}:{}\n", number / nodes) },
        },
        "spec": {
            "schedulerName": scheduler,
            "automountServiceAccountToken": false,
            "nodeSelector": { "kubernetes.io/hostname": format!("node-{node}") },
            "containers": [{
                "name": "main", "image": "example/train:1",
                "resources": { "requests": { "cpu": "100m", "memory": "64Mi" } },
            }],
        },
    })
}

/// What a decision costs, without I/O.
fn decide(args: &Args, report: &mut Report) -> Result<()> {
    let mut core = Core::new(core::Options::default());
    for number in 0..args.known_nodes {
        let mut object = node(number);
        object["status"] = node_status();
        core.set_node(Arc::new(serde_json::from_value::<Node>(object)?), Duration::ZERO);
    }
    let mut pods = Vec::new();
    for number in 0..args.known_pods {
        let mut object = pod(number, args.known_nodes, "gpu-scheduler");
        object["metadata"]["uid"] = format!("uid-{number}").into();
        pods.push(Arc::new(serde_json::from_value::<Pod>(object)?));
    }
    // A crowd that waits for a node that does not exist: it must cost the others nothing.
    for number in 0..10_000 {
        let mut object = pod(number, 1, "gpu-scheduler");
        object["metadata"]["uid"] = format!("waits-{number}").into();
        object["metadata"]["annotations"]["gpu-scheduling-map"] = format!("{number}=missing:0").into();
        core.set_pod(Arc::new(serde_json::from_value::<Pod>(object)?), Duration::ZERO);
    }
    let mut decisions = Vec::new();
    while core.decide(Duration::ZERO, &mut decisions) {}
    decisions.clear();
    // CPU time: whatever else the machine does is not the scheduler's.
    let begun = cpu_time("self")?;
    for pod in &pods {
        core.set_pod(Arc::clone(pod), Duration::from_secs(1));
    }
    while core.decide(Duration::from_secs(1), &mut decisions) {}
    let each = (cpu_time("self")? - begun).as_secs_f64() * 1e6 / pods.len() as f64;
    let bound = decisions.iter().filter(|decision| matches!(decision, Decision::Bind(_))).count();
    ensure!(bound == pods.len(), "{bound} of {} pods were placed", pods.len());
    let text = format!(
        "decision: {each:.1} us of CPU for each of {} pods on {} nodes, beside 10,000 that wait for a missing node",
        pods.len(),
        args.known_nodes
    );
    report.line(&text, each <= 20.0, "at most 20 us");
    Ok(())
}

async fn add_nodes(client: &Client, nodes: usize) -> Result<()> {
    let api: &Api<NodeObject> = &Api::all(client.clone());
    stream::iter(0..nodes)
        .map(|number| async move {
            let name = format!("node-{number}");
            api.create(&PostParams::default(), &serde_json::from_value(node(number))?).await?;
            // New nodes are tainted until a controller finds them ready; there is none here.
            let clean = json!({ "spec": { "taints": null } });
            api.patch(&name, &PatchParams::default(), &Patch::Merge(&clean)).await?;
            let status = json!({ "status": node_status() });
            api.patch_status(&name, &PatchParams::default(), &Patch::Merge(&status)).await?;
            anyhow::Ok(())
        })
        .buffer_unordered(32)
        .try_collect::<Vec<()>>()
        .await?;
    Ok(())
}

async fn add_pods(place: &Place, args: &Args, scheduler: &str) -> Result<Vec<PodObject>> {
    let api = &place.api::<PodObject>();
    stream::iter(0..args.pods)
        .map(|number| async move {
            let pod = serde_json::from_value(pod(number, args.nodes, scheduler))?;
            anyhow::Ok(api.create(&PostParams::default(), &pod).await?)
        })
        .buffer_unordered(32)
        .try_collect()
        .await
}

/// When pods were bound and events came, as a watch saw it.
#[derive(Debug, Default)]
struct Seen {
    bound: usize,
    events: usize,
    first_bind: Option<Instant>,
    last_bind: Option<Instant>,
    last_event: Option<Instant>,
}

impl Seen {
    /// Bound pods per second.
    fn rate(&self) -> f64 {
        match (self.first_bind, self.last_bind) {
            (Some(first), Some(last)) => (self.bound.saturating_sub(1)) as f64 / (last - first).as_secs_f64(),
            _ => 0.0,
        }
    }

    /// Pods per second until the last event too.
    fn rate_with_events(&self) -> f64 {
        match (self.first_bind, self.last_event.max(self.last_bind)) {
            (Some(first), Some(last)) => (self.bound.saturating_sub(1)) as f64 / (last - first).as_secs_f64(),
            _ => 0.0,
        }
    }
}

/// One watch that is opened again where it ended: the API server ends those that are too slow for it.
async fn follow<K>(api: Api<K>, version: String, mut see: impl FnMut(K) -> bool) -> Result<()>
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let mut version = version;
    loop {
        let mut events = api.watch(&WatchParams::default().timeout(290), &version).await?.boxed();
        while let Some(event) = events.next().await {
            let object = match event? {
                WatchEvent::Modified(object) | WatchEvent::Added(object) => object,
                WatchEvent::Error(error) => anyhow::bail!("the watch ended: {}", error.message),
                _ => continue,
            };
            version = object.resource_version().unwrap_or(version);
            if see(object) {
                return Ok(());
            }
        }
    }
}

/// Watches a namespace until all pods are bound and, if wanted, all events are there.
async fn watch(place: &Place, pods: usize, events: bool) -> Result<Seen> {
    let pod_api: Api<PodView> = Api::namespaced(place.client(), place.name());
    let first = pod_api.list(&ListParams::default().limit(1)).await?;
    let version = first.metadata.resource_version.unwrap_or_default();
    let (mut names, mut first_bind, mut last_bind) = (BTreeSet::new(), None, None);
    let (mut told, mut last_event) = (BTreeSet::new(), None);
    let binds = follow(pod_api, version.clone(), |pod| {
        if pod.facts.node.is_some() && names.insert(pod.name_any()) {
            first_bind.get_or_insert_with(Instant::now);
            last_bind = Some(Instant::now());
        }
        names.len() >= pods
    });
    let tells = follow(place.api::<Event>(), version, |event| {
        if event.reason.as_deref() == Some("Scheduled") && told.insert(event.name_any()) {
            last_event = Some(Instant::now());
        }
        told.len() >= pods
    });
    let all = async {
        if events {
            tokio::try_join!(binds, tells)?;
        } else {
            binds.await?;
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(PATIENCE, all).await.with_context(|| format!("{pods} pods are not bound"))??;
    Ok(Seen { bound: names.len(), events: told.len(), first_bind, last_bind, last_event })
}

fn raw_event(pod: &PodObject, node: &str) -> Value {
    let now = jiff::Timestamp::now();
    json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event",
        "metadata": { "name": format!("{}.{:x}", pod.name_any(), now.as_nanosecond()), "namespace": pod.namespace() },
        "eventTime": now.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string(),
        "type": "Normal", "reason": "Scheduled", "action": "Binding",
        "note": format!("Successfully assigned {}/{} to {node}", pod.namespace().unwrap_or_default(), pod.name_any()),
        "reportingController": "bench", "reportingInstance": "bench",
        "regarding": { "apiVersion": "v1", "kind": "Pod", "namespace": pod.namespace(), "name": pod.name_any(), "uid": pod.uid() },
    })
}

/// Nothing but binds, with or without an event behind each.
async fn raw(place: &Place, pods: Vec<PodObject>, nodes: usize, events: bool) -> Result<()> {
    let api = &place.api::<PodObject>();
    let event_api = &place.api::<Event>();
    stream::iter(pods)
        .map(|pod| async move {
            let number: usize = pod.name_any().rsplit('-').next().unwrap_or_default().parse()?;
            let node = format!("node-{}", number % nodes);
            let binding = json!({
                "apiVersion": "v1", "kind": "Binding",
                "metadata": {
                    "name": pod.name_any(), "namespace": pod.namespace(), "uid": pod.uid(),
                    "annotations": { "gpu-scheduling-devices": "0", "gpu-scheduling-map-hash": "0123456789abcdef" },
                },
                "target": { "apiVersion": "v1", "kind": "Node", "name": node },
            });
            let _: Value =
                api.create_subresource("binding", &pod.name_any(), &PostParams::default(), &binding).await?;
            if events {
                let event = serde_json::from_value(raw_event(&pod, &node))?;
                event_api.create(&PostParams::default(), &event).await?;
            }
            anyhow::Ok(())
        })
        .buffer_unordered(AT_ONCE)
        .try_collect::<Vec<()>>()
        .await?;
    Ok(())
}

/// Who binds the backlog.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Subject {
    Raw,
    Ours,
    KubeScheduler,
}

async fn config(plane: &ControlPlane) -> Result<Config> {
    let kubeconfig = Kubeconfig::read_from(plane.kubeconfig())?;
    Ok(Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?)
}

/// Ends a program with the value.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn kube_scheduler(plane: &ControlPlane) -> Result<Ends> {
    let kubectl = PathBuf::from(plane.kubectl().get_program());
    let program = kubectl.with_file_name("kube-scheduler");
    let child = Command::new(&program)
        .arg(format!("--kubeconfig={}", plane.kubeconfig().display()))
        .args(["--secure-port=0", "--leader-elect=false", "--kube-api-qps=10000", "--kube-api-burst=20000"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot start {}", program.display()))?;
    Ok(Ends(child))
}

/// Lets a subject bind the backlog, and removes it again.
async fn run(plane: &ControlPlane, args: &Args, subject: Subject, events: bool) -> Result<Seen> {
    let place = plane.namespace("drain").await?;
    let scheduler = if subject == Subject::KubeScheduler { "default-scheduler" } else { place.name() };
    let pods = add_pods(&place, args, scheduler).await?;
    let watching = watch(&place, args.pods, events);
    let (stop, mut child) = (CancellationToken::new(), None);
    let working = async {
        match subject {
            Subject::Raw => raw(&place, pods, args.nodes, events).await?,
            Subject::Ours => {
                let options = client::Options { max_in_flight: 192, ..client::Options::default() };
                let client = client::connect(config(plane).await?, options)?;
                let core = core::Options { scheduler: place.name().into(), ..core::Options::default() };
                let options = Options { events, ..Options::new(core) };
                schedule(client, options, Health::default(), stop.clone()).await;
            }
            Subject::KubeScheduler => child = Some(kube_scheduler(plane)?),
        }
        anyhow::Ok(())
    };
    // The watch is open before the first bind.
    let begin = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        working.await
    };
    let watching = async {
        let seen = watching.await;
        stop.cancel();
        seen
    };
    let (seen, worked) = tokio::join!(watching, begin);
    worked?;
    drop(child);
    let none = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
    place.api::<PodObject>().delete_collection(&none, &ListParams::default()).await?;
    Api::<Namespace>::all(place.client()).delete(place.name(), &DeleteParams::default()).await?;
    seen
}

/// The backlog, bound by everybody in turn.
async fn drain(args: &Args, report: &mut Report) -> Result<()> {
    let plane = ControlPlane::start().await?;
    add_nodes(&plane.client().await?, args.nodes).await?;
    println!("{} pods, {} nodes; etcd without fsync, API server with default limits", args.pods, args.nodes);
    // Raw loops before and after: whatever else the machine does hits both.
    let mut plain = run(&plane, args, Subject::Raw, false).await?.rate();
    let mut with_events = run(&plane, args, Subject::Raw, true).await?.rate_with_events();
    let ours = run(&plane, args, Subject::Ours, false).await?;
    let ours_events = run(&plane, args, Subject::Ours, true).await?;
    with_events = (with_events + run(&plane, args, Subject::Raw, true).await?.rate_with_events()) / 2.0;
    plain = (plain + run(&plane, args, Subject::Raw, false).await?.rate()) / 2.0;
    let peer = run(&plane, args, Subject::KubeScheduler, true).await?;
    println!("     raw binds: {plain:.0}/s; raw binds with an event each: {with_events:.0}/s");
    println!(
        "     kube-scheduler, QPS lifted: {:.0}/s, with its events {:.0}/s",
        peer.rate(),
        peer.rate_with_events()
    );
    let share = ours.rate() / plain;
    report.line(
        &format!("ours without events: {:.0}/s, {:.0} % of raw", ours.rate(), share * 100.0),
        share >= 0.85,
        "at least 85 %",
    );
    let share = ours_events.rate_with_events() / with_events;
    report.line(
        &format!("ours with events: {:.0}/s, {:.0} % of raw", ours_events.rate_with_events(), share * 100.0),
        share >= 0.85,
        "at least 85 %",
    );
    let late = match (ours_events.last_bind, ours_events.last_event) {
        (Some(bind), Some(event)) => event.saturating_duration_since(bind).as_secs_f64(),
        _ => f64::INFINITY,
    };
    let text = format!("all {} events {late:.1} s after the last bind", ours_events.events);
    report.line(&text, late <= 5.0 && ours_events.events >= args.pods, "at most 5 s");
    let ahead = ours.rate() > peer.rate() && ours_events.rate_with_events() > peer.rate_with_events();
    report.line("ahead of kube-scheduler with and without events", ahead, "both");
    Ok(())
}

/// The memory of the real program beside many pods that are bound.
async fn memory(args: &Args, report: &mut Report) -> Result<()> {
    let program = bench::soperator(args.program.clone())?;
    let plane = ControlPlane::start().await?;
    let client = plane.client().await?;
    add_nodes(&client, args.known_nodes).await?;
    let place = plane.namespace("known").await?;
    let api = &place.api::<PodObject>();
    stream::iter(0..args.known_pods)
        .map(|number| async move {
            let mut object = pod(number, args.known_nodes, "gpu-scheduler");
            object["spec"]["nodeName"] = format!("node-{}", number % args.known_nodes).into();
            object["metadata"]["annotations"]["gpu-scheduling-devices"] =
                (number / args.known_nodes).to_string().into();
            api.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
            anyhow::Ok(())
        })
        .buffer_unordered(32)
        .try_collect::<Vec<()>>()
        .await?;
    let child = Command::new(program)
        .args(["gpu-scheduler", "scheduler", "--leader-elect=false", "--metrics-bind-address=0"])
        .args(["--health-probe-bind-address=127.0.0.1:0", "--debug-bind-address=0", "--log-level=error"])
        .env("KUBECONFIG", plane.kubeconfig())
        .spawn()?;
    let child = Ends(child);
    let process = child.0.id().to_string();
    // Bound when everything before it is known.
    let begun = Instant::now();
    let mut last = pod(args.known_pods, args.known_nodes, "gpu-scheduler");
    last["metadata"]["annotations"]["gpu-scheduling-map"] = format!("{}=node-0:1000", args.known_pods).into();
    api.create(&PostParams::default(), &serde_json::from_value(last)?).await?;
    let name = format!("pod-{}", args.known_pods);
    while api.get(&name).await?.spec.and_then(|spec| spec.node_name).is_none() {
        ensure!(begun.elapsed() < PATIENCE, "{name} is not bound");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let cold = begun.elapsed().as_secs_f64();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let (now, peak) = (mb(memory_of(&process)?), mb(peak_of(&process)?));
    let text = format!(
        "memory: {now:.0} MB (peak {peak:.0}) with {} pods and {} nodes known; {cold:.1} s from start to first bind",
        args.known_pods, args.known_nodes
    );
    report.line(&text, peak <= 120.0, "at most 120 MB");
    Ok(())
}
