//! What the measured program works on: a Cluster of Slinky and NodeSets that name it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use api::slinky::{Cluster, NodeSet, NodeSetStatus};
use futures::{StreamExt as _, stream};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::Client;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

/// As many calls at a time as the operator sends.
pub const PARALLEL: usize = 32;

/// The sets of one namespace.
#[derive(Clone)]
pub struct Work {
    pub client: Client,
    pub namespace: String,
}

impl Work {
    pub fn new(client: &Client, namespace: &str) -> Self {
        Self { client: client.clone(), namespace: namespace.to_owned() }
    }

    pub fn sets(&self) -> Api<NodeSet> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Makes the Cluster `slurm` at this address, with this token.
    pub async fn connect(&self, server: &str, token: &str) -> Result<()> {
        let secret = Secret {
            metadata: serde_json::from_value(json!({ "name": "slurm-token" }))?,
            data: Some(BTreeMap::from([("auth-token".to_owned(), ByteString(token.as_bytes().to_vec()))])),
            ..Secret::default()
        };
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &self.namespace);
        secrets.create(&PostParams::default(), &secret).await?;
        let cluster = json!({
            "apiVersion": "slinky.slurm.net/v1alpha1",
            "kind": "Cluster",
            "metadata": { "name": "slurm" },
            "spec": { "server": server, "token": { "secretRef": "slurm-token" } },
        });
        let clusters: Api<Cluster> = Api::namespaced(self.client.clone(), &self.namespace);
        clusters.create(&PostParams::default(), &serde_json::from_value(cluster)?).await?;
        Ok(())
    }

    /// Makes a set of `NAME-0`, `NAME-1`, ...
    pub async fn make(&self, name: &str, replicas: usize) -> Result<()> {
        let set = serde_json::from_value(manifest(name, replicas))?;
        self.sets().create(&PostParams::default(), &set).await?;
        Ok(())
    }

    /// Changes the spec of a set by a merge patch.
    pub async fn change(&self, name: &str, spec: Value) -> Result<()> {
        let patch = json!({ "spec": spec });
        self.sets().patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
        Ok(())
    }

    /// The moment when the status of a set was seen to pass a check.
    pub async fn until_status(
        &self,
        name: &str,
        patience: Duration,
        check: impl Fn(&NodeSetStatus) -> bool,
    ) -> Result<Instant> {
        let begun = Instant::now();
        loop {
            let set = self.sets().get(name).await?;
            let status = set.status.unwrap_or_default();
            if status.observed_generation == set.metadata.generation && check(&status) {
                return Ok(Instant::now());
            }
            if begun.elapsed() > patience {
                bail!("the status of {name} is not as wanted after {} s: {status:?}", patience.as_secs());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// Whether a status says that all workers are there, ready, and known to Slurm.
pub fn is_complete(status: &NodeSetStatus, replicas: usize) -> bool {
    let wanted = i32::try_from(replicas).ok();
    status.replicas == wanted
        && status.ready_replicas == wanted
        && status.available_replicas == wanted
        && status.slurm_idle == wanted
}

fn manifest(name: &str, replicas: usize) -> Value {
    let env: Vec<Value> =
        (0..10).map(|n| json!({ "name": format!("VARIABLE_{n}"), "value": "x".repeat(40) })).collect();
    let resources = json!({ "cpu": "4", "memory": "16Gi" });
    json!({
        "apiVersion": "slinky.slurm.net/v1alpha1",
        "kind": "NodeSet",
        "metadata": { "name": name },
        "spec": {
            "clusterName": "slurm",
            "serviceName": "workers",
            "replicas": replicas,
            "selector": { "matchLabels": { "app.kubernetes.io/instance": name } },
            // Said in full: the original has no default for it, and needs an annotation of the template.
            "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": "20%" } },
            "template": {
                "metadata": {
                    "labels": { "app.kubernetes.io/instance": name },
                    "annotations": { "kubectl.kubernetes.io/default-container": "slurmd" },
                },
                "spec": {
                    "automountServiceAccountToken": false,
                    "containers": [{
                        "name": "slurmd",
                        "image": "soperator.local/slurmd:26.05",
                        "args": ["-Z", "--conf-server", "slurm-controller:6817"],
                        "env": env,
                        "resources": { "requests": resources, "limits": resources },
                        "readinessProbe": { "exec": { "command": ["scontrol", "show", "slurmd"] } },
                        "volumeMounts": [{ "name": "spool", "mountPath": "/var/spool/slurmd" }],
                    }],
                    "volumes": [{ "name": "spool", "emptyDir": {} }],
                },
            },
        },
    })
}

/// Pods that are made by a plain loop: copies of one that the operator made.
pub struct Raw {
    work: Work,
    pattern: Pod,
}

impl Raw {
    /// Copies of `pod`, in the namespace of `work`.
    pub fn like(pod: &Pod, work: Work) -> Self {
        let mut pattern = pod.clone();
        pattern.status = None;
        let meta = &mut pattern.metadata;
        (meta.uid, meta.resource_version, meta.creation_timestamp, meta.managed_fields) =
            (None, None, None, None);
        meta.namespace = None;
        if let Some(spec) = &mut pattern.spec {
            spec.node_name = None;
        }
        Self { work, pattern }
    }

    /// Makes so many.
    pub async fn create(&self, count: usize) -> Result<()> {
        self.each(count, async |api, name| {
            let mut pod = self.pattern.clone();
            pod.metadata.name = Some(name);
            api.create(&PostParams::default(), &pod).await.map(drop)
        })
        .await
        .context("the raw loop of creates")
    }

    /// Deletes them.
    pub async fn delete(&self, count: usize) -> Result<()> {
        self.each(count, async |api, name| api.delete(&name, &DeleteParams::default()).await.map(drop))
            .await
            .context("the raw loop of deletes")
    }

    async fn each(
        &self,
        count: usize,
        call: impl AsyncFn(Api<Pod>, String) -> kube::Result<()>,
    ) -> Result<()> {
        let call = &call;
        let calls = stream::iter(0..count).map(|number| call(self.work.pods(), format!("raw-{number}")));
        let mut results = calls.buffer_unordered(PARALLEL);
        while let Some(result) = results.next().await {
            result?;
        }
        Ok(())
    }
}
