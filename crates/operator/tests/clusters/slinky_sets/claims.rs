//! Claims of workers: made with them, and kept or deleted as the policy says.

use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams};
use serde_json::{Value, json};

use super::{NOBODY, Sets};
use crate::place::Place;

fn with_claims(policy: &Value) -> Value {
    json!({
        "replicas": 2,
        "volumeClaimTemplates": [{
            "metadata": { "name": "spool", "labels": { "tier": "fast" } },
            "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
        }],
        "persistentVolumeClaimRetentionPolicy": policy,
    })
}

async fn made(place: &Place, policy: &Value) -> Result<Api<PersistentVolumeClaim>> {
    let sets = Sets(place);
    sets.make_cluster(NOBODY, "token").await?;
    sets.make(&with_claims(policy)).await?;
    for pod in ["w-0", "w-1"] {
        let volumes = sets.until_pod(pod).await?.spec.and_then(|spec| spec.volumes).unwrap_or_default();
        let claims: Vec<String> =
            volumes.into_iter().filter_map(|it| it.persistent_volume_claim).map(|it| it.claim_name).collect();
        assert_eq!(claims, [format!("spool-{pod}")]);
    }
    let claims = place.api::<PersistentVolumeClaim>();
    let claim = claims.get("spool-w-0").await?;
    assert_eq!((&*claim.labels()["tier"], &*claim.labels()["app"]), ("fast", "slurmd"));
    Ok(claims)
}

/// Waits until the owner of a claim is this one.
async fn until_owner(place: &Place, claim: &str, kind: Option<&str>) -> Result<()> {
    place
        .until(&format!("{claim} belongs to {kind:?}"), async || {
            let claim = place.api::<PersistentVolumeClaim>().get(claim).await?;
            let owners: Vec<&str> =
                claim.owner_references().iter().map(|owner| owner.kind.as_str()).collect();
            Ok((owners == Vec::from_iter(kind)).then_some(()))
        })
        .await
}

async fn until_claim_gone(place: &Place, name: &str) -> Result<()> {
    let claims = place.api::<PersistentVolumeClaim>();
    place
        .until(&format!("{name} is gone"), async || Ok(claims.get_opt(name).await?.is_none().then_some(())))
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_stay_unless_the_policy_says_otherwise() -> Result<()> {
    let place = Place::new("slinky-retain").await?;
    let claims = made(&place, &Value::Null).await?;
    let sets = Sets(&place);
    until_owner(&place, "spool-w-1", None).await?;
    sets.change(json!({ "replicas": 0 })).await?;
    sets.until_gone("w-1").await?;
    sets.api().delete("w", &DeleteParams::default()).await?;
    place
        .until("the set is gone", async || Ok(sets.api().get_opt("w").await?.is_none().then_some(())))
        .await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(claims.get("spool-w-1").await?.metadata.deletion_timestamp, None);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_go_with_their_pods_or_with_the_set_if_the_policy_says_so() -> Result<()> {
    let place = Place::new("slinky-claims-go").await?;
    let claims = made(&place, &json!({ "whenScaled": "Delete", "whenDeleted": "Delete" })).await?;
    let sets = Sets(&place);
    until_owner(&place, "spool-w-0", Some("NodeSet")).await?;
    sets.change(json!({ "replicas": 1 })).await?;
    until_claim_gone(&place, "spool-w-1").await?;
    until_owner(&place, "spool-w-0", Some("NodeSet")).await?;
    // The policy can be changed: the claim that is there follows.
    sets.change(json!({ "persistentVolumeClaimRetentionPolicy": { "whenDeleted": "Retain" } })).await?;
    until_owner(&place, "spool-w-0", None).await?;
    sets.change(json!({ "persistentVolumeClaimRetentionPolicy": { "whenDeleted": "Delete" } })).await?;
    until_owner(&place, "spool-w-0", Some("NodeSet")).await?;
    // A pod that is made anew gets a claim of its own again.
    let before = claims.get("spool-w-0").await?.uid();
    sets.change(json!({ "replicas": 2 })).await?;
    sets.until_pod("w-1").await?;
    assert!(claims.get_opt("spool-w-1").await?.is_some());
    assert_eq!(claims.get("spool-w-0").await?.uid(), before);
    until_owner(&place, "spool-w-1", Some("NodeSet")).await?;
    let set = sets.api().get("w").await?;
    sets.api().delete("w", &DeleteParams::default()).await?;
    place
        .until("the set is gone", async || Ok(sets.api().get_opt("w").await?.is_none().then_some(())))
        .await?;
    // The garbage collector needs up to a minute to hear of new kinds; then it takes what belongs to a set that is gone.
    for claim in ["spool-w-0", "spool-w-1"] {
        let Some(claim) = claims.get_opt(claim).await? else { continue };
        let owners: Vec<&str> = claim.owner_references().iter().map(|owner| owner.uid.as_str()).collect();
        assert_eq!(owners, Vec::from_iter(set.metadata.uid.as_deref()));
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_is_being_deleted_holds_its_pod_back_and_nothing_else() -> Result<()> {
    let place = Place::new("slinky-claim-goes").await?;
    let sets = Sets(&place);
    sets.make_cluster(NOBODY, "token").await?;
    let claims = place.api::<PersistentVolumeClaim>();
    let mut claim: PersistentVolumeClaim = serde_json::from_value(json!({
        "metadata": { "name": "spool-w-0", "finalizers": ["example.com/hold"] },
        "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
    }))?;
    claims.create(&Default::default(), &claim).await?;
    claims.delete("spool-w-0", &DeleteParams::default()).await?;
    sets.make(&with_claims(&Value::Null)).await?;
    sets.until_pod("w-1").await?;
    sets.until_told("Valid", "False", "ClaimInTheWay", "spool-w-0").await?;
    assert!(sets.pods().get_opt("w-0").await?.is_none());
    claim = claims.get("spool-w-0").await?;
    claim.metadata.finalizers = None;
    claims.replace("spool-w-0", &Default::default(), &claim).await?;
    sets.until_pod("w-0").await?;
    Ok(())
}
