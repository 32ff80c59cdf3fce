//! An API server of its own for each part, with our kinds, and on demand with fake nodes.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result};
use engine::view::PodView;
use futures::StreamExt as _;
use http::HeaderValue;
use http::header::USER_AGENT;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Client, Config, ResourceExt as _};
use rig::{Call, ControlPlane, ControlPlaneOptions, Kwok, Namespace};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

const AGENT: &str = "nodesets-bench";
/// Fake nodes. Workers share them, so that their heartbeats do not drown everything on a small machine.
const NODES: usize = 10;
/// Pods that are bound at the same time.
const BINDINGS: usize = 16;
/// The API server writes the audit log in batches.
const FLUSH: Duration = Duration::from_secs(2);

/// What an API server has beside our kinds.
#[derive(Clone, Copy, Debug, Default)]
pub struct With {
    /// A log of all calls.
    pub audit: bool,
    /// Nodes of kwok, and somebody who binds pods to them.
    pub kwok: bool,
}

/// An API server.
pub struct Place {
    pub plane: ControlPlane,
    pub client: Client,
    binder: Option<JoinHandle<()>>,
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(binder) = &self.binder {
            binder.abort();
        }
    }
}

impl Place {
    /// One with our kinds.
    pub async fn start(with: With) -> Result<Self> {
        let place = Self::bare(with).await?;
        let crds: Api<CustomResourceDefinition> = Api::all(place.client.clone());
        for crd in api::crds() {
            crds.create(&PostParams::default(), &crd).await?;
        }
        for crd in api::crds() {
            let name = crd.metadata.name.as_deref().context("a CRD has a name")?;
            await_condition(crds.clone(), name, conditions::is_crd_established()).await?;
        }
        Ok(place)
    }

    /// One without any kinds of ours.
    pub async fn bare(with: With) -> Result<Self> {
        let plane = ControlPlane::start_with(ControlPlaneOptions { audit: with.audit }).await?;
        let kubeconfig = Kubeconfig::read_from(plane.kubeconfig())?;
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        config.headers.push((USER_AGENT, HeaderValue::from_static(AGENT)));
        let client = Client::try_from(config)?;
        let mut place = Self { plane, client, binder: None };
        if with.kwok {
            place.start_nodes().await?;
        }
        Ok(place)
    }

    /// Adds nodes of kwok, and somebody who binds pods to them.
    pub async fn start_nodes(&mut self) -> Result<()> {
        let nodes = Kwok::find_or_build()?.start(&self.plane, NODES).await?;
        self.binder = Some(tokio::spawn(bind(self.client.clone(), nodes)));
        Ok(())
    }

    /// A namespace whose name begins so.
    pub async fn namespace(&self, prefix: &str) -> Result<Namespace> {
        self.plane.namespace(prefix).await
    }

    /// The calls of the measured program so far, without watches: of everybody but us, kwok and the API server itself.
    pub async fn calls(&self) -> Result<Vec<Call>> {
        tokio::time::sleep(FLUSH).await;
        let mut calls = self.plane.audit_log().context("there is no audit log")?.calls()?;
        let others = [AGENT, "kwok", "kube-apiserver"];
        calls.retain(|call| {
            call.verb != "watch" && !others.iter().any(|other| call.user_agent.starts_with(other))
        });
        Ok(calls)
    }
}

/// Whether a call changes something.
pub fn is_write(call: &Call) -> bool {
    !matches!(call.verb.as_str(), "get" | "list" | "watch")
}

/// What a call is about, for people.
pub fn told(call: &Call) -> String {
    format!("{} {}", call.verb, call.request_uri)
}

/// How many calls of each kind there are, for people.
pub fn summary(calls: &[Call]) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for call in calls {
        let about = call.object_ref.as_ref();
        let resource = about.map_or("", |about| about.resource.as_str());
        let subresource = about.map_or("", |about| about.subresource.as_str());
        let slash = if subresource.is_empty() { "" } else { "/" };
        *counts.entry(format!("{} {resource}{slash}{subresource}", call.verb)).or_default() += 1;
    }
    counts.iter().map(|(kind, count)| format!("{kind} {count}")).collect::<Vec<_>>().join(", ")
}

/// Binds each pod to a node in turn: a whole scheduler would take more of a small machine than what is measured.
async fn bind(client: Client, nodes: Vec<String>) {
    let unbound = watcher::Config::default().fields("spec.nodeName=");
    let pods = watcher(Api::<PodView>::all(client.clone()), unbound).default_backoff().applied_objects();
    let bindings = pods.enumerate().map(|(number, pod)| {
        let (client, node) = (client.clone(), nodes.get(number % nodes.len().max(1)).cloned());
        async move {
            let (Ok(pod), Some(node)) = (pod, node) else { return };
            if pod.spec.node_name.is_some() || pod.is_terminating() {
                return;
            }
            let binding = json!({
                "apiVersion": "v1", "kind": "Binding", "metadata": { "name": pod.name_any() },
                "target": { "apiVersion": "v1", "kind": "Node", "name": node },
            });
            let api: Api<Pod> = Api::namespaced(client, &pod.namespace().unwrap_or_default());
            // It may be gone, or have been bound after an earlier event.
            let _: kube::Result<Value> =
                api.create_subresource("binding", &pod.name_any(), &PostParams::default(), &binding).await;
        }
    });
    bindings.buffer_unordered(BINDINGS).collect::<()>().await;
}
