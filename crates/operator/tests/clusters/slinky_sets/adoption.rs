//! Pods that somebody else made: adopted, released, and left alone.

use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::{NOBODY, Sets, template};
use crate::place::Place;

fn by_hand(name: &str, labels: &Value) -> Result<Pod> {
    let mut pod = template("slurmd:1");
    pod["metadata"] = json!({ "name": name, "labels": labels });
    Ok(serde_json::from_value(pod)?)
}

/// Waits until the pod has so many owners.
async fn until_owned(place: &Place, name: &str, owners: usize) -> Result<Pod> {
    place
        .until(&format!("{name} has {owners} owners"), async || {
            let pod = place.api::<Pod>().get(name).await?;
            Ok((pod.owner_references().len() == owners).then_some(pod))
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_matches_is_adopted_and_let_go_when_it_does_not_any_more() -> Result<()> {
    let place = Place::new("slinky-adoption").await?;
    let sets = Sets(&place);
    sets.make_cluster(NOBODY, "token").await?;
    let made =
        sets.pods().create(&PostParams::default(), &by_hand("w-0", &json!({ "app": "slurmd" }))?).await?;
    // OnDelete: its revision is not known, so an update would replace it.
    let set = sets.make(&json!({ "replicas": 1, "updateStrategy": { "type": "OnDelete" } })).await?;
    let adopted = until_owned(&place, "w-0", 1).await?;
    assert_eq!(adopted.uid(), made.uid());
    assert_eq!(Some(&adopted.owner_references()[0].uid), set.metadata.uid.as_ref());
    assert_eq!(adopted.labels()["nodeset.slinky.slurm.net/pod-name"], "w-0");
    sets.until_status("one pod", |status| status.replicas == Some(1)).await?;
    assert_eq!(sets.pods().list(&ListParams::default()).await?.items.len(), 1);

    let patch = json!({ "metadata": { "labels": { "app": "debug" } } });
    sets.pods().patch("w-0", &PatchParams::default(), &Patch::Merge(&patch)).await?;
    let released = until_owned(&place, "w-0", 0).await?;
    assert_eq!((released.uid(), released.metadata.deletion_timestamp), (made.uid(), None));
    // The set wants one pod, and finds another name for it.
    sets.until_pod("w-1").await?;

    let patch = json!({ "metadata": { "labels": { "app": "slurmd" } } });
    sets.pods().patch("w-0", &PatchParams::default(), &Patch::Merge(&patch)).await?;
    until_owned(&place, "w-0", 1).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_by_hand_that_does_not_match_or_belongs_to_another_is_left_alone() -> Result<()> {
    let place = Place::new("slinky-strangers").await?;
    let sets = Sets(&place);
    sets.make_cluster(NOBODY, "token").await?;
    sets.pods().create(&PostParams::default(), &by_hand("w-0", &json!({ "app": "mine" }))?).await?;
    let mut others = by_hand("w-1", &json!({ "app": "slurmd" }))?;
    others.metadata.owner_references = Some(vec![serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "Namespace", "name": place.name(), "controller": true,
        "uid": namespace_uid(&place).await?,
    }))?]);
    sets.pods().create(&PostParams::default(), &others).await?;
    // A pod of a set with a longer name is none of ours.
    sets.pods().create(&PostParams::default(), &by_hand("w-0-1", &json!({ "app": "slurmd" }))?).await?;
    sets.make(&json!({ "replicas": 2 })).await?;
    sets.until_status("two pods", |status| status.replicas == Some(2)).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let all = sets.pods().list(&ListParams::default()).await?.items;
    let names: Vec<String> = all.iter().map(ResourceExt::name_any).collect();
    assert_eq!(names, ["w-0", "w-0-1", "w-1", "w-2", "w-3"]);
    assert_eq!(all[0].owner_references().len(), 0);
    assert_eq!(all[1].owner_references().len(), 0);
    assert_eq!(all[2].owner_references()[0].kind, "Namespace");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_with_any_number_is_adopted_in_place_of_a_new_one() -> Result<()> {
    let place = Place::new("slinky-number").await?;
    let sets = Sets(&place);
    sets.make_cluster(NOBODY, "token").await?;
    sets.pods().create(&PostParams::default(), &by_hand("w-7", &json!({ "app": "slurmd" }))?).await?;
    let spec = json!({ "replicas": 1, "updateStrategy": { "type": "OnDelete" } });
    let set = sets.make(&spec).await?;
    let adopted = until_owned(&place, "w-7", 1).await?;
    assert_eq!(Some(&adopted.owner_references()[0].uid), set.metadata.uid.as_ref());
    sets.until_status("one pod", |status| status.replicas == Some(1)).await?;
    let is_new = |write: &engine::testing::Write| {
        write.call.resource == "pods" && write.call.verb == engine::client::Verb::Create
    };
    assert!(!place.writes().iter().any(is_new), "{:#?}", place.writes());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_of_another_that_take_many_names_hold_up_no_worker() -> Result<()> {
    let place = Place::new("slinky-names").await?;
    let sets = Sets(&place);
    sets.make_cluster(NOBODY, "token").await?;
    let owners = json!([{
        "apiVersion": "v1", "kind": "Namespace", "name": place.name(), "controller": true,
        "uid": namespace_uid(&place).await?,
    }]);
    // As those of a set that is gone, and that admission holds while jobs are on them: the operator sees them all.
    for ordinal in 0..5 {
        let name = format!("w-{ordinal}");
        let labels = json!({ "app": "slurmd", "nodeset.slinky.slurm.net/pod-name": name });
        let mut pod = by_hand(&name, &labels)?;
        pod.metadata.owner_references = Some(serde_json::from_value(owners.clone())?);
        sets.pods().create(&PostParams::default(), &pod).await?;
    }
    sets.make(&json!({ "replicas": 2 })).await?;
    for pod in ["w-5", "w-6"] {
        sets.until_pod(pod).await?;
    }
    sets.until_status("two pods", |status| status.replicas == Some(2)).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let all = sets.pods().list(&ListParams::default()).await?.items;
    let owner = |pod: &Pod| pod.owner_references()[0].kind.clone();
    let of: Vec<(String, String)> = all.iter().map(|pod| (pod.name_any(), owner(pod))).collect();
    let strangers = (0..5).map(|ordinal| (format!("w-{ordinal}"), "Namespace".to_owned()));
    let own = (5..7).map(|ordinal| (format!("w-{ordinal}"), "NodeSet".to_owned()));
    assert_eq!(of, strangers.chain(own).collect::<Vec<_>>());
    Ok(())
}

async fn namespace_uid(place: &Place) -> Result<String> {
    let namespaces: kube::Api<k8s_openapi::api::core::v1::Namespace> = kube::Api::all(place.client.clone());
    Ok(namespaces.get(place.name()).await?.uid().unwrap_or_default())
}
