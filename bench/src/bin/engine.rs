//! The engine on a real API server: calls in steady state, memory per cached pod, the rate of apply, and the delay from an
//! event to its reconcile.

#[path = "../../../crates/engine/tests/engine/sample.rs"]
#[allow(dead_code)]
mod sample;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use bench::{mb, memory};
use engine::apply::{Applier, DesiredObject, HASH_ANNOTATION, MANAGED_BY_LABEL, Owner};
use engine::cache::{Cache, Selection};
use engine::client;
use engine::controller::{Controller, Options, Wake};
use engine::error::{ReconcileError, Retry};
use engine::view::{MetaView, PodView};
use engine::{Key, Scope};
use futures::{StreamExt as _, stream};
use http::HeaderValue;
use http::header::USER_AGENT;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Client, Config, CustomResourceExt as _, Resource as _, ResourceExt as _};
use parking_lot::Mutex;
use rig::{ControlPlane, ControlPlaneOptions};
use sample::{Bug, Widget, WidgetSpec};
use serde_json::json;
use tokio_util::sync::CancellationToken;

const AGENT: &str = "engine-bench";

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<()> {
    let plane =
        ControlPlane::start_with(ControlPlaneOptions { audit: true }).await?.with_controller_manager()?;
    let crds: Api<CustomResourceDefinition> = Api::all(plane.client().await?);
    crds.create(&PostParams::default(), &Widget::crd()).await?;
    let name = Widget::crd().name_any();
    await_condition(crds, &name, conditions::is_crd_established()).await?;

    // The pods last: with them, the API server is slow.
    let idle = memory()?;
    rate_of_apply(&plane).await?;
    delay(&plane).await?;
    steady_state(&plane).await?;
    cached_pods(&plane, idle).await
}

async fn config(plane: &ControlPlane) -> Result<Config> {
    let kubeconfig = Kubeconfig::read_from(plane.kubeconfig())?;
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    config.headers.push((USER_AGENT, HeaderValue::from_static(AGENT)));
    Ok(config)
}

async fn ours(plane: &ControlPlane) -> Result<Client> {
    Ok(client::connect(config(plane).await?, client::Options::default())?)
}

/// 200 objects with all that they own, and nothing to do: no call but watches.
async fn steady_state(plane: &ControlPlane) -> Result<()> {
    const WIDGETS: usize = 200;
    let namespace = plane.namespace("steady").await?;
    let stop = CancellationToken::new();
    tokio::spawn(sample::run(ours(plane).await?, namespace.name().into(), stop.clone(), Bug::None));
    let api = namespace.api::<Widget>();
    for number in 0..WIDGETS {
        let spec = WidgetSpec { text: "x".into(), replicas: 0, service_name: "s".into(), job: true };
        api.create(&PostParams::default(), &Widget::new(&format!("w{number}"), spec)).await?;
    }
    let applied = |widget: &Widget| {
        widget.status.as_ref().is_some_and(|status| engine::condition::is_true(&status.conditions, "Applied"))
    };
    while api.list(&Default::default()).await?.iter().filter(|widget| applied(widget)).count() < WIDGETS {
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    let log = plane.audit_log().context("an audit log")?;
    let calls = || -> Result<Vec<String>> {
        let ours = |call: &rig::Call| call.user_agent == AGENT && call.verb != "watch";
        let calls = log.calls()?;
        Ok(calls
            .iter()
            .filter(|call| ours(call))
            .map(|call| format!("{} {}", call.verb, call.request_uri))
            .collect())
    };
    let before = calls()?.len();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let after = calls()?;
    println!(
        "steady state: {WIDGETS} objects, {before} calls to get there, {} calls in the next 60 s besides watches (wanted: 0)",
        after.len() - before
    );
    for call in after[before..].iter().take(10) {
        println!("  {call}");
    }
    stop.cancel();
    Ok(())
}

/// A pod of the size that Slurm workers have.
fn pod(number: usize) -> Pod {
    let env: Vec<_> =
        (0..20).map(|n| json!({ "name": format!("VARIABLE_{n}"), "value": "x".repeat(40) })).collect();
    let mounts: Vec<_> =
        (0..7).map(|n| json!({ "name": format!("volume-{n}"), "mountPath": format!("/mnt/{n}") })).collect();
    let container = |name: &str| {
        json!({
            "name": name, "image": "example/slurmd:24.11", "env": env, "volumeMounts": mounts,
            "resources": { "requests": { "cpu": "4", "memory": "16Gi" }, "limits": { "cpu": "4", "memory": "16Gi" } },
            "readinessProbe": { "exec": { "command": ["scontrol", "show", "node"] }, "periodSeconds": 10 },
        })
    };
    let volumes: Vec<_> = (0..7).map(|n| json!({ "name": format!("volume-{n}"), "emptyDir": {} })).collect();
    serde_json::from_value(json!({
        "metadata": { "name": format!("worker-{number}"), "labels": { "app": "slurmd", "cluster": "c" } },
        "spec": {
            "containers": [container("slurmd"), container("munge")],
            "volumes": volumes,
            "nodeSelector": { "no": "such-node" },
        },
    }))
    .unwrap_or_default()
}

/// Memory of 10,000 pods as views.
async fn cached_pods(plane: &ControlPlane, idle: u64) -> Result<()> {
    const PODS: usize = 10_000;
    let namespace = plane.namespace("pods").await?;
    let api = namespace.api::<Pod>();
    let begun = Instant::now();
    stream::iter(0..PODS)
        .map(|number| {
            let api = api.clone();
            async move { api.create(&PostParams::default(), &pod(number)).await.map(|_| ()) }
        })
        .buffer_unordered(32)
        .collect::<Vec<_>>()
        .await
        .into_iter()
        .collect::<Result<Vec<()>, _>>()?;
    println!("made {PODS} pods in {:.0} s", begun.elapsed().as_secs_f64());
    let stop = CancellationToken::new();
    let scope = Scope::Namespaces(vec![namespace.name().into()]);
    let before = memory()?;
    let cache: Cache<PodView> = Cache::start(&ours(plane).await?, Selection::all(scope), &stop);
    cache.ready().await;
    let after = memory()?;
    println!(
        "cached pods: {} as views take {:.0} MB above {:.0} MB before (wanted: at most 60); idle process {:.0} MB (wanted: at most 20)",
        cache.len(),
        mb(after.saturating_sub(before)),
        mb(before),
        mb(idle),
    );
    stop.cancel();
    Ok(())
}

/// Our apply against a raw loop of server-side applies.
async fn rate_of_apply(plane: &ControlPlane) -> Result<()> {
    const OBJECTS: usize = 1_000;
    const PARALLEL: usize = 8;
    let namespace = plane.namespace("apply").await?;
    let stop = CancellationToken::new();
    let scope = Scope::Namespaces(vec![namespace.name().into()]);
    let client = ours(plane).await?;
    let known: Cache<MetaView<ConfigMap>> = Cache::start(&client, Selection::all(scope), &stop);
    known.ready().await;
    let owner = namespace
        .api::<ConfigMap>()
        .create(&PostParams::default(), &config_map("owner", namespace.name()))
        .await?;
    let reference = owner.controller_owner_ref(&()).context("an owner")?;
    let owner = Owner::of(&owner).context("an owner")?;
    let applier = Applier::new(client.clone(), "bench").with_known(known);
    let (mut raw, mut through) = (Duration::ZERO, Duration::ZERO);
    // In turns, so that whatever else the machine does hits both.
    for round in 0..4 {
        let names: Vec<String> = (0..OBJECTS / 4).map(|number| format!("raw-{round}-{number}")).collect();
        let begun = Instant::now();
        let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace.name());
        stream::iter(&names)
            .map(|name| {
                // As large as what apply sends, with owner, label and hash.
                let (api, mut object) = (api.clone(), config_map(name, namespace.name()));
                object.metadata.owner_references = Some(vec![reference.clone()]);
                object.metadata.labels = Some(BTreeMap::from([(MANAGED_BY_LABEL.into(), "bench".into())]));
                let hash = "0123456789abcdef0123456789abcdef";
                object.metadata.annotations = Some(BTreeMap::from([(HASH_ANNOTATION.into(), hash.into())]));
                async move {
                    api.patch(name, &PatchParams::apply("bench"), &Patch::Apply(&object)).await.map(|_| ())
                }
            })
            .buffer_unordered(PARALLEL)
            .collect::<Vec<_>>()
            .await
            .into_iter()
            .collect::<Result<Vec<()>, _>>()?;
        raw += begun.elapsed();
        let objects: Vec<DesiredObject> = (0..OBJECTS / 4)
            .map(|number| {
                DesiredObject::new(&config_map(&format!("ours-{round}-{number}"), namespace.name()))
            })
            .collect::<Result<_, _>>()?;
        let begun = Instant::now();
        let applied = applier.apply_only(&owner, objects).await;
        through += begun.elapsed();
        applied.into_result()?;
    }
    println!(
        "apply: {OBJECTS} new ConfigMaps at {:.0}/s, a raw loop at {:.0}/s: ratio {:.2} (wanted: at least 0.85)",
        OBJECTS as f64 / through.as_secs_f64(),
        OBJECTS as f64 / raw.as_secs_f64(),
        raw.as_secs_f64() / through.as_secs_f64(),
    );
    stop.cancel();
    Ok(())
}

fn config_map(name: &str, namespace: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.into()),
            namespace: Some(namespace.into()),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([("key".into(), "value ".repeat(50))])),
        ..ConfigMap::default()
    }
}

#[derive(Debug, thiserror::Error)]
#[error("nothing fails here")]
struct Never;

impl ReconcileError for Never {
    fn retry(&self) -> Retry {
        Retry::Backoff
    }

    fn category(&self) -> &'static str {
        "never"
    }
}

/// When something was seen, by the mark that the writer left.
type Seen = Arc<Mutex<HashMap<String, Instant>>>;

const MARK: &str = "bench/mark";

fn mark(meta: &ObjectMeta) -> Option<String> {
    meta.annotations.as_ref()?.get(MARK).cloned()
}

/// From a change to the start of its reconcile, at 200 changes a second, against a bare watch that only notes the time.
async fn delay(plane: &ControlPlane) -> Result<()> {
    const RATE: u32 = 200;
    const SECONDS: u32 = 15;
    let namespace = plane.namespace("delay").await?;
    let api = namespace.api::<Pod>();
    for number in 0..50 {
        let small: Pod = serde_json::from_value(json!({
            "metadata": { "name": format!("worker-{number}") },
            "spec": { "containers": [{ "name": "c", "image": "i" }], "nodeSelector": { "no": "such-node" } },
        }))?;
        api.create(&PostParams::default(), &small).await?;
    }
    let stop = CancellationToken::new();
    let (bare, reconciled): (Seen, Seen) = Default::default();

    let plain = Client::try_from(config(plane).await?)?;
    let events = watcher(Api::<PodView>::namespaced(plain, namespace.name()), watcher::Config::default())
        .applied_objects();
    let (noted, stopped) = (Arc::clone(&bare), stop.clone());
    tokio::spawn(async move {
        let mut events = std::pin::pin!(events);
        while let Some(Some(event)) = stopped.run_until_cancelled(events.next()).await {
            if let Some(mark) = event.ok().and_then(|pod| mark(pod.meta())) {
                noted.lock().entry(mark).or_insert_with(Instant::now);
            }
        }
    });

    let scope = Scope::Namespaces(vec![namespace.name().into()]);
    let cache: Cache<PodView> = Cache::start(&ours(plane).await?, Selection::all(scope), &stop);
    cache.ready().await;
    let controller = Controller::new(Options { concurrency: 8, ..Options::new("bench") });
    controller.watch(&cache, |change| [change.key.clone()]);
    let noted = Arc::clone(&reconciled);
    tokio::spawn(controller.run(stop.clone(), move |key: Key| {
        let mark = cache.get(&key).and_then(|pod| mark(pod.meta()));
        if let Some(mark) = mark {
            noted.lock().entry(mark).or_insert_with(Instant::now);
        }
        async { Ok::<_, Never>(Wake::OnChange) }
    }));

    let mut sent: HashMap<String, Instant> = HashMap::new();
    let mut tick = tokio::time::interval(Duration::from_secs(1) / RATE);
    let mut running = tokio::task::JoinSet::new();
    for number in 0..RATE * SECONDS {
        tick.tick().await;
        let (api, mark, name) = (api.clone(), number.to_string(), format!("worker-{}", number % 50));
        sent.insert(mark.clone(), Instant::now());
        running.spawn(async move {
            let patch = json!({ "metadata": { "annotations": { MARK: mark } } });
            api.patch_metadata(&name, &PatchParams::default(), &Patch::Merge(&patch)).await.map(|_| ())
        });
    }
    while let Some(done) = running.join_next().await {
        done??;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    stop.cancel();
    let quantiles = |seen: &Seen| {
        let seen = seen.lock();
        let mut delays: Vec<Duration> = sent
            .iter()
            .filter_map(|(mark, sent)| Some(seen.get(mark)?.saturating_duration_since(*sent)))
            .collect();
        delays.sort();
        let at = |part: f64| delays.get((delays.len() as f64 * part) as usize).copied().unwrap_or_default();
        (delays.len(), at(0.5), at(0.99))
    };
    let (bare_count, bare_half, bare_p99) = quantiles(&bare);
    let (our_count, our_half, our_p99) = quantiles(&reconciled);
    println!(
        "delay at {RATE} events/s: bare watch p50 {bare_half:.1?} p99 {bare_p99:.1?} ({bare_count} events); \
         reconcile start p50 {our_half:.1?} p99 {our_p99:.1?} ({our_count} events): ratio of p99 {:.2} (wanted: at most 2)",
        our_p99.as_secs_f64() / bare_p99.as_secs_f64(),
    );
    Ok(())
}
