//! Nodes and pods of one test, and a scheduler of its own name.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use engine::client::{self, Client, Interceptor, WriteGate};
use gpu_scheduler::core;
use gpu_scheduler::server::{Health, Metrics, Options, schedule};
use k8s_openapi::api::core::v1::{Node, Pod, PodCondition};
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Config, ResourceExt as _};
use rig::{ControlPlane, ControlPlaneOptions, Namespace};
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

const PATIENCE: Duration = Duration::from_secs(60);

/// The API server of all tests. Without a controller manager: it would find that the nodes do not live.
async fn plane() -> Result<&'static ControlPlane> {
    static PLANE: OnceCell<ControlPlane> = OnceCell::const_new();
    PLANE.get_or_try_init(|| ControlPlane::start_with(ControlPlaneOptions { audit: false })).await
}

/// A namespace, nodes whose names begin with its name, and a scheduler of that name.
pub struct World {
    pub namespace: Namespace,
}

/// A scheduler at work.
pub struct Running {
    stop: CancellationToken,
    task: JoinHandle<()>,
    pub health: Health,
    pub metrics: Metrics,
}

impl Running {
    /// Ends it as SIGTERM does.
    pub async fn stop(self) {
        self.stop.cancel();
        let _ = self.task.await;
    }

    /// Ends it as SIGKILL does.
    pub async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
        self.stop.cancel();
    }
}

impl World {
    pub async fn new(prefix: &str) -> Result<Self> {
        Ok(Self { namespace: plane().await?.namespace(prefix).await? })
    }

    /// The full name of a node.
    pub fn node(&self, short: &str) -> String {
        format!("{}-{short}", self.namespace.name())
    }

    /// A map whose nodes are written as `@short`.
    pub fn map(&self, text: &str) -> String {
        text.replace('@', &self.node(""))
    }

    pub async fn add_node(&self, short: &str) -> Result<()> {
        let api: Api<Node> = Api::all(self.namespace.client());
        let name = self.node(short);
        let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name } });
        api.create(&PostParams::default(), &serde_json::from_value(node)?).await?;
        // New nodes are tainted until a controller finds them ready.
        self.change_node(short, json!({ "spec": { "taints": null } })).await?;
        let status = json!({ "status": {
            "allocatable": { "cpu": "64", "memory": "256Gi", "pods": "110" },
            "conditions": [{ "type": "Ready", "status": "True", "reason": "Test", "message": "",
                             "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z" }],
        } });
        api.patch_status(&name, &PatchParams::default(), &Patch::Merge(&status)).await?;
        Ok(())
    }

    pub async fn change_node(&self, short: &str, change: Value) -> Result<()> {
        let api: Api<Node> = Api::all(self.namespace.client());
        api.patch(&self.node(short), &PatchParams::default(), &Patch::Merge(&change)).await?;
        Ok(())
    }

    pub async fn remove_node(&self, short: &str) -> Result<()> {
        let api: Api<Node> = Api::all(self.namespace.client());
        api.delete(&self.node(short), &DeleteParams::default()).await?;
        Ok(())
    }

    /// Makes a pod with this map, in which nodes are written as `@short`.
    pub async fn add_pod(&self, name: &str, map: &str, spec: Value) -> Result<()> {
        let mut pod = json!({
            "metadata": { "name": name, "annotations": { "gpu-scheduling-map": self.map(map) } },
            "spec": {
                "schedulerName": self.namespace.name(),
                "automountServiceAccountToken": false,
                "terminationGracePeriodSeconds": 0,
                "containers": [{ "name": "c", "image": "example/none" }],
            },
        });
        json_merge(&mut pod["spec"], spec);
        self.pods().create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
        Ok(())
    }

    pub fn pods(&self) -> Api<Pod> {
        self.namespace.api()
    }

    pub async fn pod(&self, name: &str) -> Result<Pod> {
        Ok(self.pods().get(name).await?)
    }

    pub async fn remove_pod(&self, name: &str) -> Result<()> {
        self.pods()
            .delete(name, &DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() })
            .await?;
        Ok(())
    }

    /// The node (short) of a pod and its devices, once it is bound.
    pub async fn place(&self, name: &str) -> Result<Option<(String, String)>> {
        let pod = self.pod(name).await?;
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
        let devices = pod.annotations().get("gpu-scheduling-devices").cloned();
        Ok(node.map(|node| {
            (node.replace(&self.node(""), ""), devices.unwrap_or_else(|| "no annotation".into()))
        }))
    }

    /// Waits until a pod is bound, and says where.
    pub async fn placed(&self, name: &str) -> Result<(String, String)> {
        until(&format!("{name} is bound"), || async move { self.place(name).await }).await
    }

    /// Waits until the condition of a pod says something with this word in it, and returns it.
    pub async fn told(&self, name: &str, word: &str) -> Result<String> {
        until(&format!("{name} is told {word:?}"), || async move {
            Ok(self.condition(name).await?.filter(|message| message.contains(word)))
        })
        .await
    }

    pub async fn condition(&self, name: &str) -> Result<Option<String>> {
        let condition = self.scheduled(name).await?;
        Ok(condition.filter(|condition| condition.status == "False").and_then(|condition| condition.message))
    }

    /// Reason and note of the events about a pod.
    pub async fn events(&self, pod: &str) -> Result<Vec<(String, String)>> {
        let events = self.namespace.api::<Event>().list(&ListParams::default()).await?;
        let about = |event: &Event| {
            event.regarding.as_ref().is_some_and(|object| object.name.as_deref() == Some(pod))
        };
        let text = |text: Option<String>| text.unwrap_or_default();
        Ok(events.into_iter().filter(about).map(|event| (text(event.reason), text(event.note))).collect())
    }

    pub async fn start(&self) -> Result<Running> {
        self.start_with(None, None).await
    }

    pub async fn start_with(
        &self,
        interceptor: Option<Arc<dyn Interceptor>>,
        gate: Option<Arc<dyn WriteGate>>,
    ) -> Result<Running> {
        self.start_as(self.options(), interceptor, gate).await
    }

    /// The usual options for a scheduler of this test.
    pub fn options(&self) -> Options {
        Options::new(core::Options { scheduler: self.namespace.name().into(), ..core::Options::default() })
    }

    pub async fn start_as(
        &self,
        options: Options,
        interceptor: Option<Arc<dyn Interceptor>>,
        gate: Option<Arc<dyn WriteGate>>,
    ) -> Result<Running> {
        let client = self.client(interceptor, gate).await?;
        let (stop, health) = (CancellationToken::new(), Health::default());
        let metrics = options.metrics.clone();
        let task = tokio::spawn(schedule(client, options, health.clone(), stop.clone()));
        Ok(Running { stop, task, health, metrics })
    }

    pub async fn client(
        &self,
        interceptor: Option<Arc<dyn Interceptor>>,
        gate: Option<Arc<dyn WriteGate>>,
    ) -> Result<Client> {
        let kubeconfig = Kubeconfig::read_from(plane().await?.kubeconfig())?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        let options = client::Options { max_in_flight: 192, interceptor, gate, ..client::Options::default() };
        Ok(client::connect(config, options)?)
    }

    /// The condition `PodScheduled` of a pod.
    pub async fn scheduled(&self, name: &str) -> Result<Option<PodCondition>> {
        let conditions =
            self.pod(name).await?.status.and_then(|status| status.conditions).unwrap_or_default();
        Ok(conditions.into_iter().find(|condition| condition.type_ == "PodScheduled"))
    }
}

fn json_merge(into: &mut Value, changes: Value) {
    match (into, changes) {
        (Value::Object(into), Value::Object(changes)) => {
            for (key, value) in changes {
                json_merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, changes) => *into = changes,
    }
}

/// Looks until there is something.
pub async fn until<T, F>(what: &str, look: impl Fn() -> F) -> Result<T>
where
    F: Future<Output = Result<Option<T>>>,
{
    let begun = Instant::now();
    loop {
        if let Some(found) = look().await.with_context(|| what.to_string())? {
            return Ok(found);
        }
        if begun.elapsed() > PATIENCE {
            bail!("not after {PATIENCE:?}: {what}");
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
