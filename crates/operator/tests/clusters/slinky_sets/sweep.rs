//! Every fault at every place of the life of a set: the end is the same.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use api::slinky::{Cluster, NodeSet};
use engine::client::{BoxError, Verb};
use engine::testing::sweep::{self, Choice, Scenario, Step};
use engine::testing::{Injector, World, Write};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{NOBODY, manifest, template};
use crate::place::{config, connect, operate, server};

/// A set with claims is made, gets a new template, goes back to the first, and has fewer replicas. Then it may be deleted.
struct Life {
    config: Config,
    ends: bool,
}

fn set() -> Value {
    manifest(&json!({
        "replicas": 2,
        "revisionHistoryLimit": 3,
        "volumeClaimTemplates": [{
            "metadata": { "name": "spool" },
            "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
        }],
        "persistentVolumeClaimRetentionPolicy": { "whenScaled": "Delete", "whenDeleted": "Delete" },
    }))
}

fn kinds() -> Vec<ApiResource> {
    vec![
        ApiResource::erase::<NodeSet>(&()),
        ApiResource::erase::<ControllerRevision>(&()),
        ApiResource::erase::<PersistentVolumeClaim>(&()),
        ApiResource::erase::<Pod>(&()),
        ApiResource::erase::<PodDisruptionBudget>(&()),
    ]
}

impl Scenario for Life {
    fn name(&self) -> &str {
        if self.ends { "slinky-set-end" } else { "slinky-set" }
    }

    fn client(&self, injector: Arc<Injector>) -> Result<Client, BoxError> {
        Ok(connect(self.config.clone(), Some(injector))?)
    }

    fn plain_client(&self) -> Result<Client, BoxError> {
        Ok(connect(self.config.clone(), None)?)
    }

    fn namespace(&self) -> Step<'_, String> {
        async { Ok(server().await?.namespace("slinky-sweep").await?.name().to_string()) }.boxed()
    }

    fn start(&self, client: Client, namespace: &str, stop: CancellationToken) -> BoxFuture<'static, ()> {
        operate(client, namespace.into(), stop).boxed()
    }

    fn steps(&self) -> usize {
        if self.ends { 2 } else { 4 }
    }

    fn act<'a>(&'a self, client: &'a Client, namespace: &'a str, step: usize) -> Step<'a, ()> {
        async move {
            let sets: Api<NodeSet> = Api::namespaced(client.clone(), namespace);
            if step == 0 {
                let clusters: Api<Cluster> = Api::namespaced(client.clone(), namespace);
                let cluster = json!({
                    "apiVersion": "slinky.slurm.net/v1alpha1",
                    "kind": "Cluster",
                    "metadata": { "name": "slurm" },
                    "spec": { "server": NOBODY, "token": { "secretRef": "missing" } },
                });
                clusters.create(&PostParams::default(), &serde_json::from_value(cluster)?).await?;
                sets.create(&PostParams::default(), &serde_json::from_value(set())?).await?;
                return Ok(());
            }
            if self.ends {
                sets.delete("w", &DeleteParams::default()).await?;
                return Ok(());
            }
            let change = match step {
                1 => json!({ "template": template("slurmd:2") }),
                2 => json!({ "template": template("slurmd:1") }),
                _ => json!({ "replicas": 1 }),
            };
            let patch = json!({ "spec": change });
            sets.patch("w", &PatchParams::default(), &Patch::Merge(&patch)).await?;
            Ok(())
        }
        .boxed()
    }

    fn is_done<'a>(&'a self, client: &'a Client, namespace: &'a str, step: usize) -> Step<'a, bool> {
        async move {
            let sets: Api<NodeSet> = Api::namespaced(client.clone(), namespace);
            let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
            let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), namespace);
            let pods = pods.list(&ListParams::default()).await?.items;
            let claims = claims.list(&ListParams::default()).await?.items;
            let Some(set) = sets.get_opt("w").await? else {
                return Ok(self.ends && step == 1 && pods.is_empty() && claims.is_empty());
            };
            let (image, count) = match step {
                1 => ("slurmd:2", 2),
                3 => ("slurmd:1", 1),
                _ => ("slurmd:1", 2),
            };
            let status = set.status.unwrap_or_default();
            let right = |pod: &Pod| {
                let image_of = pod.spec.as_ref().and_then(|spec| spec.containers[0].image.as_deref());
                image_of == Some(image) && pod.metadata.deletion_timestamp.is_none()
            };
            let counted = i32::try_from(count).unwrap_or_default();
            Ok(!(self.ends && step == 1)
                && pods.len() == count
                && claims.len() == count
                && pods.iter().all(right)
                && status.observed_generation == set.metadata.generation
                && (status.replicas, status.updated_replicas) == (Some(counted), Some(counted)))
        }
        .boxed()
    }

    fn world<'a>(&'a self, client: &'a Client, namespace: &'a str) -> Step<'a, World> {
        async move {
            let mut kinds = kinds();
            if self.ends {
                // When the garbage collector comes to the rest is its own business; claims are waited for.
                kinds.retain(|kind| !["ControllerRevision", "PodDisruptionBudget"].contains(&&*kind.kind));
            }
            Ok(World::read(client, namespace, &kinds, mask).await?)
        }
        .boxed()
    }

    fn patience(&self) -> Duration {
        Duration::from_secs(60)
    }

    fn monitor(&self, writes: &[Write]) -> Result<(), String> {
        let done = writes.iter().filter(|write| write.status.is_some_and(|status| status < 300));
        let mut made: BTreeMap<String, usize> = BTreeMap::new();
        for write in done {
            let pods = write.call.resource == "pods" && write.call.subresource.is_none();
            if write.call.verb == Verb::Delete && write.body["preconditions"]["uid"].is_null() {
                return Err(format!("{} without the uid of what was meant", write.call));
            }
            if pods
                && write.call.verb == Verb::Delete
                && write.body["preconditions"]["resourceVersion"].is_null()
            {
                return Err(format!("{} without the version that was looked at", write.call));
            }
            if pods && write.call.verb == Verb::Create {
                if write.body["metadata"]["ownerReferences"].is_null() {
                    return Err(format!("{} makes a pod without an owner", write.call));
                }
                *made.entry(write.body["metadata"]["name"].to_string()).or_default() += 1;
            }
        }
        // One for each template, and none by mistake.
        if made.values().any(|count| *count > 3) {
            return Err(format!("pods were made too often: {made:?}"));
        }
        if writes.len() > 150 {
            return Err(format!("{} writes for one set", writes.len()));
        }
        Ok(())
    }
}

/// What others write, and what is drawn.
fn mask(kind: &str, value: &mut Value) {
    if kind != "NodeSet"
        && let Some(object) = value.as_object_mut()
    {
        object.remove("status");
    }
    // Which revision is renumbered how often depends on which of its writes were lost.
    if kind == "ControllerRevision" {
        value["revision"] = Value::Null;
    }
}

async fn sweep(ends: bool, seed: u64) -> Result<()> {
    let life = Arc::new(Life { config: config().await?, ends });
    let report = sweep::run(life, Choice::from_env(5, seed)).await;
    println!("{} of {} cases ran, {} failed", report.cases, report.of, report.failures.len());
    assert!(report.cases > 0);
    assert!(report.failures.is_empty(), "{}", report.failures.join("\n"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_fault_leads_to_the_same_set() -> Result<()> {
    sweep(false, 11).await
}

#[tokio::test(flavor = "multi_thread")]
async fn every_fault_leads_to_the_same_end_of_a_set() -> Result<()> {
    sweep(true, 5).await
}
