//! What a user may say about an update.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, ListParams};
use serde_json::{Value, json};

use super::{NOBODY, Sets, template};
use crate::place::Place;
use crate::worker_sets::run;

/// Two workers that never start.
async fn made(place: &Place, strategy: Value) -> Result<()> {
    let sets = Sets(place);
    sets.make_cluster(NOBODY, "token").await?;
    sets.make(&json!({ "revisionHistoryLimit": 3, "updateStrategy": strategy })).await?;
    for pod in ["w-0", "w-1"] {
        sets.until_pod(pod).await?;
    }
    Ok(())
}

fn image(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref().and_then(|spec| spec.containers[0].image.as_deref())
}

/// Waits until the pod has this image.
async fn until_image(place: &Place, name: &str, wanted: &str) -> Result<Pod> {
    place
        .until(&format!("{name} has {wanted}"), async || {
            let pod = place.api::<Pod>().get_opt(name).await?;
            Ok(pod.filter(|pod| image(pod) == Some(wanted)))
        })
        .await
}

async fn uids(place: &Place) -> Result<BTreeMap<String, String>> {
    let pods = place.api::<Pod>().list(&ListParams::default()).await?;
    Ok(pods.into_iter().map(|pod| (pod.name_any(), pod.uid().unwrap_or_default())).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_below_the_partition_keep_their_template_also_when_they_are_made_anew() -> Result<()> {
    let place = Place::new("slinky-partition").await?;
    made(&place, json!({ "type": "RollingUpdate", "rollingUpdate": { "partition": 1 } })).await?;
    let (sets, before) = (Sets(&place), uids(&place).await?);
    sets.change(json!({ "template": template("slurmd:2") })).await?;
    until_image(&place, "w-1", "slurmd:2").await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(uids(&place).await?.get("w-0"), before.get("w-0"));
    sets.pods().delete("w-0", &DeleteParams::default().grace_period(0)).await?;
    let again = place
        .until("it is made again", async || {
            let pod = sets.pods().get_opt("w-0").await?;
            Ok(pod.filter(|pod| pod.uid().as_ref() != before.get("w-0")))
        })
        .await?;
    assert_eq!(image(&again), Some("slurmd:1"));
    sets.change(json!({ "updateStrategy": { "rollingUpdate": { "partition": 0 } } })).await?;
    until_image(&place, "w-0", "slurmd:2").await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_that_is_paused_replaces_nobody_until_it_goes_on() -> Result<()> {
    let place = Place::new("slinky-paused").await?;
    made(&place, json!({ "type": "RollingUpdate", "paused": true })).await?;
    let (sets, before) = (Sets(&place), uids(&place).await?);
    sets.change(json!({ "template": template("slurmd:2") })).await?;
    sets.until_status("it is known", |status| status.updated_replicas == Some(0)).await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(uids(&place).await?, before);
    sets.change(json!({ "updateStrategy": { "paused": false } })).await?;
    for pod in ["w-0", "w-1"] {
        until_image(&place, pod, "slurmd:2").await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn where_nobody_may_be_away_the_update_stands_still_and_says_so() -> Result<()> {
    let place = Place::new("slinky-nobody-away").await?;
    let may_be_away = |count: Value| json!({ "rollingUpdate": { "maxUnavailable": count } });
    made(&place, may_be_away(json!(0))).await?;
    let sets = Sets(&place);
    for pod in ["w-0", "w-1"] {
        run(&place, pod).await?;
    }
    let before = uids(&place).await?;
    sets.change(json!({ "template": template("slurmd:2") })).await?;
    for nothing in [json!(0), json!("0%")] {
        sets.change(json!({ "updateStrategy": may_be_away(nothing) })).await?;
        sets.until_told("Valid", "False", "NothingMayBeAway", "write 1 or more").await?;
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(uids(&place).await?, before);
    }
    // Now one has its turn; whether it is free nobody knows.
    sets.change(json!({ "updateStrategy": may_be_away(json!("1%")) })).await?;
    sets.until_told("WaitingForJobs", "True", "JobsRun", "w-").await?;
    sets.until_told("Valid", "True", "Valid", "").await?;
    Ok(())
}
