//! Workers: made, replaced, and taken away only when no job can be there.

use std::time::Duration;

use anyhow::Result;
use api::nebius::NodeSet;
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::ResourceExt as _;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use crate::place::Place;

/// What a kubelet would say of a worker that runs.
pub async fn run(place: &Place, pod: &str) -> Result<()> {
    let status = json!({ "status": {
        "phase": "Running",
        "podIP": "192.0.2.1",
        "podIPs": [{ "ip": "192.0.2.1" }],
        "conditions": [{ "type": "Ready", "status": "True" }],
        "containerStatuses": [{
            "name": "slurmd", "image": "i", "imageID": "", "ready": true, "restartCount": 0,
            "state": { "running": {} },
        }],
    } });
    place.api::<Pod>().patch_status(pod, &PatchParams::default(), &Patch::Merge(&status)).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_runs_is_never_removed_while_slurm_does_not_answer() -> Result<()> {
    let place = Place::new("unknown-is-busy").await?;
    place.make("a", |_| {}).await?;
    place.until_quiet().await?;
    run(&place, "a-worker-0").await?;
    run(&place, "a-worker-1").await?;
    place.change("a", json!({ "spec": { "slurmNodes": { "worker": { "size": 0 } } } })).await?;
    let told = place
        .until("the set tells why it waits", async || {
            let set = place.api::<NodeSet>().get("a-worker").await?;
            let conditions = set.status.and_then(|status| status.conditions).unwrap_or_default();
            let message = conditions.into_iter().map(|condition| condition.message);
            Ok(message.into_iter().find(|message| message.contains("cannot be removed")))
        })
        .await?;
    assert!(told.contains("Slurm does not tell whether jobs are there"), "{told}");
    tokio::time::sleep(Duration::from_secs(6)).await;
    for pod in ["a-worker-0", "a-worker-1"] {
        let pod = place.api::<Pod>().get(pod).await?;
        assert_eq!(pod.metadata.deletion_timestamp, None, "{} is being deleted", pod.name_any());
    }
    // Maintenance does not change that, and slurmctld stays as long as a worker is there.
    place.change("a", json!({ "spec": { "maintenance": "downscale" } })).await?;
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert!(place.api::<Pod>().get_opt("a-worker-1").await?.is_some());
    let controller: k8s_openapi::api::apps::v1::StatefulSet = place.api().get("a-controller").await?;
    assert_eq!(controller.spec.and_then(|spec| spec.replicas), Some(1));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_wait_for_their_account_and_come_as_soon_as_it_is_there() -> Result<()> {
    let place = Place::with_controller("account", operator::nodeset::NAME).await?;
    place.make("a", |_| {}).await?;
    let owner = place.clusters().get("a").await?;
    let text = include_str!("../../../../examples/api/slurm.nebius.ai/nodeset.yaml");
    let mut set: serde_json::Value = serde_saphyr::from_str(text)?;
    set["metadata"] = json!({ "name": "node" });
    set["spec"]["clusterName"] = "a".into();
    set["spec"]["priorityClass"] = serde_json::Value::Null;
    place.api::<NodeSet>().create(&Default::default(), &serde_json::from_value(set)?).await?;
    place
        .until("the set tells what it waits for", async || {
            let status = place.api::<NodeSet>().get("node").await?.status.unwrap_or_default();
            let mut messages = status.conditions.unwrap_or_default().into_iter().map(|it| it.message);
            Ok(messages.find(|message| message.contains("waiting for ServiceAccount a-worker-sa")))
        })
        .await?;
    let pods = |writes: &[engine::testing::Write]| {
        writes.iter().filter(|write| write.call.resource == "pods").count()
    };
    assert_eq!(pods(&place.writes()), 0, "no pod is tried in vain: {:#?}", place.writes());
    let account: ServiceAccount = serde_json::from_value(json!({ "metadata": {
        "name": "a-worker-sa",
        "labels": { "app.kubernetes.io/managed-by": operator::MANAGER },
        "ownerReferences": [{
            "apiVersion": "slurm.nebius.ai/v1", "kind": "SlurmCluster", "name": "a",
            "uid": owner.uid().unwrap_or_default(), "controller": true,
        }],
    } }))?;
    place.api::<ServiceAccount>().create(&Default::default(), &account).await?;
    place.until("a worker", async || Ok(place.api::<Pod>().get_opt("node-0").await?)).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_that_never_ran_follow_the_size_at_once_and_lost_ones_come_back() -> Result<()> {
    let place = Place::new("size").await?;
    place.make("a", |_| {}).await?;
    let pods = place.api::<Pod>();
    let first = place.until("a worker", async || Ok(pods.get_opt("a-worker-0").await?)).await?;
    pods.delete("a-worker-0", &DeleteParams::default().grace_period(0)).await?;
    place
        .until("it is made again", async || {
            Ok(pods.get_opt("a-worker-0").await?.filter(|pod| pod.uid() != first.uid()))
        })
        .await?;
    place.change("a", json!({ "spec": { "slurmNodes": { "worker": { "size": 1 } } } })).await?;
    place
        .until("the second is gone", async || Ok(pods.get_opt("a-worker-1").await?.is_none().then_some(())))
        .await?;
    place.change("a", json!({ "spec": { "slurmNodes": { "worker": { "size": 3 } } } })).await?;
    place.until("the third is there", async || Ok(pods.get_opt("a-worker-2").await?)).await?;
    let set = place.api::<NodeSet>().get("a-worker").await?;
    let selector = set.status.and_then(|status| status.label_selector).unwrap_or_default();
    assert!(selector.contains("slurm.nebius.ai/nodeset=a-worker"), "{selector}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_of_the_user_waits_for_its_cluster_and_then_has_pods_of_its_own_name() -> Result<()> {
    let place = Place::new("own-set").await?;
    let text = include_str!("../../../../examples/api/slurm.nebius.ai/nodeset.yaml");
    let mut set: serde_json::Value = serde_saphyr::from_str(text)?;
    set["metadata"] = json!({ "name": "gpu" });
    set["spec"]["clusterName"] = "a".into();
    set["spec"]["replicas"] = 2.into();
    set["spec"]["priorityClass"] = serde_json::Value::Null;
    place.api::<NodeSet>().create(&Default::default(), &serde_json::from_value(set)?).await?;
    place
        .until("the set waits", async || {
            let set = place.api::<NodeSet>().get("gpu").await?;
            let conditions = set.status.and_then(|status| status.conditions).unwrap_or_default();
            Ok(conditions
                .into_iter()
                .find(|condition| condition.message.contains("waiting for SlurmCluster a")))
        })
        .await?;
    place.make("a", |manifest| manifest["spec"]["slurmNodes"]["worker"]["size"] = 0.into()).await?;
    let pod = place.until("it has pods", async || Ok(place.api::<Pod>().get_opt("gpu-1").await?)).await?;
    assert_eq!(pod.spec.and_then(|spec| spec.hostname).as_deref(), Some("gpu-1"));
    Ok(())
}
