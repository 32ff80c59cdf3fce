//! Workers are not evicted, whatever becomes of their set and of its PodDisruptionBudget.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use api::nebius::NodeSet;
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, EvictParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::place::Place;
use crate::slurm_place::{node_set, worker_account};
use crate::worker_sets::run;

const BUDGET: &str = "w-workers";
/// Has the labels of a worker of the set. The garbage collector of the test is not held by admission and takes the workers.
const STAND_IN: &str = "stand-in";

/// A set of one worker that runs and stays when it is deleted, and a pod that is guarded as the worker is.
async fn place(name: &str) -> Result<Place> {
    let place = Place::with_controller(name, operator::nodeset::NAME).await?;
    place.make("a", |_| {}).await?;
    place.api::<ServiceAccount>().create(&PostParams::default(), &worker_account("a")?).await?;
    place.api::<NodeSet>().create(&PostParams::default(), &node_set("w", "a", 1)?).await?;
    run(&place, "w-0").await?;
    let held = Patch::Merge(json!({ "metadata": { "finalizers": ["example.com/held"] } }));
    let pods = place.api::<Pod>();
    pods.patch("w-0", &PatchParams::default(), &held).await?;
    let worker = place
        .until("the worker is guarded", async || {
            let pod = pods.get("w-0").await?;
            let guard = pod.labels().get(operator::nodeset::PROTECT).cloned();
            Ok(guard.filter(|guard| guard == "true").map(|_| pod))
        })
        .await?;
    let stand_in: Pod = serde_json::from_value(json!({
        "metadata": { "name": STAND_IN, "labels": worker.labels() },
        "spec": {
            "automountServiceAccountToken": false,
            "containers": [{ "name": "slurmd", "image": "i" }],
        },
    }))?;
    pods.create(&PostParams::default(), &stand_in).await?;
    run(&place, STAND_IN).await?;
    place
        .until("the disruption controller knows the budget", async || {
            let budget = place.api::<PodDisruptionBudget>().get_opt(BUDGET).await?;
            Ok(budget.and_then(|budget| budget.status).filter(|status| status.desired_healthy == i32::MAX))
        })
        .await?;
    refused(&place).await?;
    Ok(place)
}

async fn refused(place: &Place) -> Result<()> {
    let evicted = place.api::<Pod>().evict(STAND_IN, &EvictParams::default()).await;
    let error = evicted.err().context("the pod was evicted")?;
    ensure!(matches!(&error, kube::Error::Api(status) if status.code == 429), "{error}");
    Ok(())
}

async fn end_the_worker(place: &Place) -> Result<()> {
    let free = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    place.api::<Pod>().patch("w-0", &PatchParams::default(), &free).await?;
    Ok(())
}

async fn until_budget_gone(place: &Place) -> Result<()> {
    place
        .until("the budget is gone", async || {
            Ok(place.api::<PodDisruptionBudget>().get_opt(BUDGET).await?.is_none().then_some(()))
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_that_is_deleted_in_the_foreground_guards_its_pods_to_the_last() -> Result<()> {
    let place = place("guards-to-the-last").await?;
    let sets = place.api::<NodeSet>();
    sets.delete("w", &DeleteParams::foreground()).await?;
    place
        .until("the garbage collector was at work", async || {
            let pod = place.api::<Pod>().get("w-0").await?;
            Ok(pod.metadata.deletion_timestamp)
        })
        .await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    refused(&place).await?;
    end_the_worker(&place).await?;
    until_budget_gone(&place).await?;
    place.until("the set is gone", async || Ok(sets.get_opt("w").await?.is_none().then_some(()))).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_outlives_its_pods_nowhere() -> Result<()> {
    let place = place("budget-goes").await?;
    let (sets, budgets) = (place.api::<NodeSet>(), place.api::<PodDisruptionBudget>());
    // Whoever does not want it does not have it.
    let protect = async |on: bool| -> Result<()> {
        let change = Patch::Merge(json!({ "spec": { "workloadDisruptionProtection": on } }));
        sets.patch("w", &PatchParams::default(), &change).await?;
        Ok(())
    };
    protect(false).await?;
    until_budget_gone(&place).await?;
    protect(true).await?;
    place.until("it is back", async || Ok(budgets.get_opt(BUDGET).await?)).await?;
    // Somebody deletes it by hand: it stays as long as a pod is there.
    budgets.delete(BUDGET, &DeleteParams::default()).await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    ensure!(budgets.get(BUDGET).await?.metadata.deletion_timestamp.is_some());
    // Somebody takes our finalizer from the set.
    sets.delete("w", &DeleteParams::background()).await?;
    let free = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    sets.patch("w", &PatchParams::default(), &free).await?;
    place.until("the set is gone", async || Ok(sets.get_opt("w").await?.is_none().then_some(()))).await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    ensure!(budgets.get_opt(BUDGET).await?.is_some(), "a pod is there");
    end_the_worker(&place).await?;
    until_budget_gone(&place).await
}
