//! What a user may say about an update, and about the claims of workers that leave.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result};
use api::nebius::NodeSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, ServiceAccount};
use kube::ResourceExt as _;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::place::Place;
use crate::slurm_place::{node_set, worker_account};
use crate::worker_sets::{run, until_told};

/// A set `gpu` of two workers that never start. The controller of clusters does not run: it would find that slurmctld is not
/// ready, and hold updates back.
async fn place(name: &str, change: Value) -> Result<Place> {
    let place = Place::with_controller(name, operator::nodeset::NAME).await?;
    place.make("a", |_| {}).await?;
    place.api::<ServiceAccount>().create(&PostParams::default(), &worker_account("a")?).await?;
    let mut set = serde_json::to_value(node_set("gpu", "a", 2)?)?;
    json_patch::merge(&mut set["spec"], &change);
    let set: NodeSet = serde_json::from_value(set)?;
    place.api::<NodeSet>().create(&PostParams::default(), &set).await?;
    for pod in ["gpu-0", "gpu-1"] {
        place.until("the worker is made", async || Ok(place.api::<Pod>().get_opt(pod).await?)).await?;
    }
    Ok(place)
}

async fn change(place: &Place, spec: Value) -> Result<()> {
    let patch = json!({ "spec": spec });
    place.api::<NodeSet>().patch("gpu", &PatchParams::default(), &Patch::Merge(&patch)).await?;
    Ok(())
}

fn roll(value: &str) -> Value {
    json!({ "workerAnnotations": { "roll": value } })
}

/// Waits until a worker is of this roll.
async fn until_rolled(place: &Place, pod: &str, value: &str) -> Result<Pod> {
    place
        .until(&format!("{pod} is of {value}"), async || {
            let pod = place.api::<Pod>().get_opt(pod).await?;
            Ok(pod.filter(|pod| pod.annotations().get("roll").is_some_and(|known| known == value)))
        })
        .await
}

async fn uids(place: &Place) -> Result<BTreeMap<String, String>> {
    let pods = place.api::<Pod>().list(&ListParams::default()).await?;
    Ok(pods.into_iter().map(|pod| (pod.name_any(), pod.uid().unwrap_or_default())).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_below_the_partition_keep_their_revision_also_when_they_are_made_anew() -> Result<()> {
    let place = place("partition", json!({ "updatePartition": 1 })).await?;
    let (pods, before) = (place.api::<Pod>(), uids(&place).await?);
    let hash = |pod: &Pod| pod.labels().get(operator::nodeset::REVISION).cloned();
    let old = hash(&pods.get("gpu-0").await?).context("a worker has a revision")?;
    change(&place, roll("one")).await?;
    let new = hash(&until_rolled(&place, "gpu-1", "one").await?);
    assert_ne!(new.as_ref(), Some(&old));
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(uids(&place).await?.get("gpu-0"), before.get("gpu-0"));

    pods.delete("gpu-0", &DeleteParams::default().grace_period(0)).await?;
    let again = place
        .until("it is made again", async || {
            let pod = pods.get_opt("gpu-0").await?;
            Ok(pod.filter(|pod| pod.uid().as_ref() != before.get("gpu-0")))
        })
        .await?;
    assert_eq!((hash(&again), again.annotations().get("roll")), (Some(old), None));

    change(&place, json!({ "updatePartition": 0 })).await?;
    assert_eq!(hash(&until_rolled(&place, "gpu-0", "one").await?), new);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_that_is_paused_replaces_nobody_until_it_goes_on() -> Result<()> {
    let place = place("paused", json!({ "updatePaused": true })).await?;
    let before = uids(&place).await?;
    change(&place, roll("one")).await?;
    until_told(&place, "gpu", "StatefulSetUpdated", "False", "").await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(uids(&place).await?, before);
    // A worker that is lost comes back, and is of today.
    place.api::<Pod>().delete("gpu-1", &DeleteParams::default().grace_period(0)).await?;
    until_rolled(&place, "gpu-1", "one").await?;
    assert_eq!(uids(&place).await?.get("gpu-0"), before.get("gpu-0"));
    change(&place, json!({ "updatePaused": null })).await?;
    until_rolled(&place, "gpu-0", "one").await?;
    until_told(&place, "gpu", "StatefulSetUpdated", "True", "").await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn where_nobody_may_be_away_the_update_stands_still_and_says_so() -> Result<()> {
    let place = place("nobody-away", json!({ "maxUnavailable": 0 })).await?;
    for pod in ["gpu-0", "gpu-1"] {
        run(&place, pod).await?;
    }
    let before = uids(&place).await?;
    change(&place, roll("one")).await?;
    for nothing in [json!(0), json!("0%")] {
        change(&place, json!({ "maxUnavailable": nothing })).await?;
        let told = until_told(&place, "gpu", "Valid", "False", "NothingMayBeAway").await?;
        assert!(told.contains("maxUnavailable is 0") && told.contains("write 1 or more"), "{told}");
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(uids(&place).await?, before);
    }
    // Now one has its turn; whether it is free nobody knows.
    change(&place, json!({ "maxUnavailable": "1%" })).await?;
    until_told(&place, "gpu", "WaitingForJobs", "True", "gpu-").await?;
    until_told(&place, "gpu", "Valid", "True", "").await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_claim_of_a_worker_that_leaves_goes_with_it_if_the_policy_says_so() -> Result<()> {
    let claim =
        json!({ "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } });
    let mounts = json!([{ "name": "scratch", "mountPath": "/scratch", "volumeClaimTemplateSpec": claim }]);
    let policy = |deleted: &str| {
        json!({ "slurmd": { "volumes": {
            "jailSubMounts": mounts,
            "persistentVolumeClaimRetentionPolicy": { "whenScaled": "Delete", "whenDeleted": deleted },
        } } })
    };
    let place = place("claims-go", policy("Delete")).await?;
    let claims = place.api::<PersistentVolumeClaim>();
    let of = async |pod: &str| -> Result<Option<PersistentVolumeClaim>> {
        let all = claims.list(&ListParams::default()).await?;
        Ok(all.into_iter().find(|claim| claim.name_any().ends_with(&format!("-{pod}"))))
    };
    let until_owner = async |pod: &str, kind: Option<&str>| -> Result<()> {
        place
            .until(&format!("the claim of {pod} belongs to {kind:?}"), async || {
                let owners = of(pod).await?.map(|claim| claim.owner_references().to_vec());
                let kinds: Option<Vec<String>> =
                    owners.map(|all| all.into_iter().map(|owner| owner.kind).collect());
                Ok((kinds == Some(kind.map(String::from).into_iter().collect())).then_some(()))
            })
            .await
    };
    for pod in ["gpu-0", "gpu-1"] {
        until_owner(pod, Some("NodeSet")).await?;
    }
    let kept = of("gpu-0").await?.context("a claim")?.uid();
    change(&place, json!({ "replicas": 1 })).await?;
    place
        .until("the claim went with its worker", async || Ok(of("gpu-1").await?.is_none().then_some(())))
        .await?;
    until_owner("gpu-0", Some("NodeSet")).await?;
    // Who wants to keep it beyond the set gets it back.
    change(&place, policy("Retain")).await?;
    until_owner("gpu-0", None).await?;
    assert_eq!(of("gpu-0").await?.context("a claim")?.uid(), kept);
    Ok(())
}
