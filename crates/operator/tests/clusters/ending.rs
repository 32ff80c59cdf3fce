//! The end of a cluster: its workers first, and slurmctld last.

use std::time::Duration;

use anyhow::Result;
use api::nebius::SlurmCluster;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{Namespace, Pod, Service};
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use operator::slurmcluster::FINALIZER;
use serde_json::json;

use crate::place::Place;
use crate::worker_sets::{run, until_told};

/// A cluster `a` with two workers that run. Nobody knows whether jobs are on them: Slurm does not run here.
async fn place(name: &str) -> Result<Place> {
    let place = Place::new(name).await?;
    place.make("a", |_| {}).await?;
    for pod in ["a-worker-0", "a-worker-1"] {
        place.until("the worker is made", async || Ok(place.api::<Pod>().get_opt(pod).await?)).await?;
        run(&place, pod).await?;
    }
    place.until_quiet().await?;
    Ok(place)
}

async fn until_gone(place: &Place) -> Result<()> {
    place
        .until("the cluster and all of it is gone", async || {
            let sets = place.api::<StatefulSet>().list(&ListParams::default()).await?;
            let cluster = place.clusters().get_opt("a").await?;
            Ok((sets.items.is_empty() && cluster.is_none()).then_some(()))
        })
        .await
}

/// Takes a worker away as somebody who may.
async fn remove(place: &Place, pod: &str) -> Result<()> {
    place.api::<Pod>().delete(pod, &DeleteParams::default().grace_period(0)).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn slurmctld_and_slurmrestd_stay_until_the_last_worker_is_gone() -> Result<()> {
    let place = place("ending").await?;
    let cluster = place.clusters().get("a").await?;
    assert!(cluster.finalizers().iter().any(|name| name == FINALIZER), "{:?}", cluster.finalizers());
    place.api::<SlurmCluster>().delete("a", &DeleteParams::background()).await?;
    let told = place
        .until("the cluster tells what it waits for", async || {
            place.condition("a", "WaitingForWorkers").await
        })
        .await?;
    assert_eq!(told.0, "True");
    assert!(told.1.contains("a-worker-0, a-worker-1"), "{}", told.1);
    assert_eq!(place.cluster_status("a").await?.phase.as_deref(), Some("Terminating"));

    // Nothing is made any more.
    place.api::<Service>().delete("a-login-svc", &DeleteParams::default()).await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(place.api::<Service>().get_opt("a-login-svc").await?.is_none());

    remove(&place, "a-worker-0").await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(place.api::<StatefulSet>().get_opt("a-controller").await?.is_some(), "a worker is there");
    assert!(place.api::<Deployment>().get_opt("a-rest").await?.is_some(), "nobody could drain it");
    assert!(place.api::<Pod>().get_opt("a-worker-0").await?.is_none(), "no worker is made");
    remove(&place, "a-worker-1").await?;
    until_gone(&place).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreground_deletion_makes_nothing_anew_and_ends_with_the_workers() -> Result<()> {
    let place = place("foreground").await?;
    place.api::<SlurmCluster>().delete("a", &DeleteParams::foreground()).await?;
    // The garbage collector takes slurmctld at once; nobody can hold it.
    place
        .until("slurmctld is gone", async || {
            Ok(place.api::<StatefulSet>().get_opt("a-controller").await?.is_none().then_some(()))
        })
        .await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(place.api::<StatefulSet>().get_opt("a-controller").await?.is_none(), "it is not made anew");
    for pod in ["a-worker-0", "a-worker-1"] {
        if place.api::<Pod>().get_opt(pod).await?.is_some() {
            remove(&place, pod).await?;
        }
    }
    until_gone(&place).await
}

#[tokio::test(flavor = "multi_thread")]
async fn who_gave_up_the_care_does_not_wait_for_a_kubelet_that_never_answers() -> Result<()> {
    let place = place("forced").await?;
    let pods = place.api::<Pod>();
    let held = json!({ "metadata": { "finalizers": ["example.com/held"] } });
    for pod in ["a-worker-0", "a-worker-1"] {
        pods.patch(pod, &PatchParams::default(), &Patch::Merge(&held)).await?;
        remove(&place, pod).await?;
    }
    place.api::<SlurmCluster>().delete("a", &DeleteParams::background()).await?;
    place.until("the cluster waits", async || place.condition("a", "WaitingForWorkers").await).await?;
    place
        .change("a", json!({ "metadata": { "annotations": { "slurm.nebius.ai/force-delete": "true" } } }))
        .await?;
    until_gone(&place).await?;
    let free = json!({ "metadata": { "finalizers": null } });
    for pod in ["a-worker-0", "a-worker-1"] {
        pods.patch(pod, &PatchParams::default(), &Patch::Merge(&free)).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_that_is_deleted_goes_with_all_that_is_in_it() -> Result<()> {
    let place = Place::new("namespace").await?;
    place.make("a", |_| {}).await?;
    place.until_quiet().await?;
    let namespaces: Api<Namespace> = Api::all(place.client.clone());
    namespaces.delete(place.name(), &DeleteParams::default()).await?;
    place
        .until("the namespace is gone", async || {
            Ok(namespaces.get_opt(place.name()).await?.is_none().then_some(()))
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_that_are_described_wrong_leave_with_their_cluster() -> Result<()> {
    let place = place("wrong-workers").await?;
    let wrong = json!({ "slurmNodeExtra": "two\nlines" });
    place.change("a", json!({ "spec": { "slurmNodes": { "worker": wrong } } })).await?;
    until_told(&place, "a-worker", "PodsReady", "False", "spec.slurmNodes.worker").await?;
    place.api::<SlurmCluster>().delete("a", &DeleteParams::background()).await?;
    let told = until_told(&place, "a-worker", "WaitingForJobs", "True", "a-worker-1").await?;
    assert!(told.contains("a-worker-0"), "{told}");
    for pod in ["a-worker-0", "a-worker-1"] {
        assert_eq!(place.api::<Pod>().get(pod).await?.metadata.deletion_timestamp, None);
    }
    place
        .change("a", json!({ "metadata": { "annotations": { "slurm.nebius.ai/force-delete": "true" } } }))
        .await?;
    until_gone(&place).await
}
