//! Pods that nobody owns, or that somebody else does, and that look like workers of a set.

use std::time::Duration;

use anyhow::{Context as _, Result};
use api::nebius::NodeSet;
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, PropagationPolicy};
use rig::slurm::Version;
use serde_json::{Value, json};

use crate::place::Place;
use crate::slurm_place::{CLUSTER, SET, SlurmPlace, node_set};
use crate::worker_sets::until_told;

/// Waits until a pod belongs to this object; returns it.
async fn until_owned(place: &Place, pod: &str, uid: Option<&str>) -> Result<Pod> {
    place
        .until(&format!("{pod} belongs to {uid:?}"), async || {
            let pod = place.api::<Pod>().get(pod).await?;
            let owner = pod.owner_references().first().map(|owner| owner.uid.clone());
            Ok((owner.as_deref() == uid).then_some(pod))
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_that_a_set_left_behind_work_on_and_the_next_set_of_its_name_adopts_them() -> Result<()> {
    let place = SlurmPlace::new("left-behind", Version::V26_05, 2).await?;
    let (before, job) = (place.uids().await?, place.start_job("w-0")?);
    let sets = place.place.api::<NodeSet>();
    let orphan =
        DeleteParams { propagation_policy: Some(PropagationPolicy::Orphan), ..DeleteParams::default() };
    sets.delete(SET, &orphan).await?;
    // It hears of new kinds within a minute or so.
    let let_go = async || {
        let set = sets.get_opt(SET).await?;
        let waits = set.is_some_and(|set| set.finalizers().iter().any(|name| name == "orphan"));
        Ok((!waits).then_some(()))
    };
    place.place.until("the garbage collector has made the pods nobody's", let_go).await?;
    place
        .place
        .until("the set is gone", async || Ok(sets.get_opt(SET).await?.is_none().then_some(())))
        .await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    for pod in ["w-0", "w-1"] {
        until_owned(&place.place, pod, None).await?;
        let state = place.state(pod)?;
        assert!(!state.contains("drain"), "its user wants the pod to stay: {state}");
    }
    assert_eq!(place.uids().await?, before);

    let next = sets.create(&PostParams::default(), &node_set(SET, CLUSTER, 2)?).await?;
    for pod in ["w-0", "w-1"] {
        until_owned(&place.place, pod, next.metadata.uid.as_deref()).await?;
    }
    place.until_told("StatefulSetUpdated", "True", "").await?;
    place.until_told("PodsReady", "True", "").await?;
    assert_eq!(place.uids().await?, before, "none was made anew");
    let revisions = place.place.api::<ControllerRevision>().list(&ListParams::default()).await?.items;
    assert_eq!(revisions.len(), 1, "what they were made from is known");
    assert_eq!(place.slurm.exec(&["squeue", "-h", "-j", &job, "-o", "%T"])?.trim(), "RUNNING");
    Ok(())
}

/// A pod that nobody started, with the labels of a worker.
fn lookalike(of: &Pod, name: &str, ordinal: u32, owners: Value) -> Result<Pod> {
    let mut labels = of.labels().clone();
    labels.insert(operator::nodeset::POD_NAME.into(), name.into());
    labels.insert(operator::nodeset::POD_INDEX.into(), ordinal.to_string());
    Ok(serde_json::from_value(json!({
        "metadata": { "name": name, "labels": labels, "ownerReferences": owners },
        "spec": { "containers": [{ "name": "slurmd", "image": "i" }] },
    }))?)
}

async fn scale(place: &Place, replicas: i32) -> Result<()> {
    let patch = json!({ "spec": { "replicas": replicas } });
    place.api::<NodeSet>().patch("gpu", &PatchParams::default(), &Patch::Merge(&patch)).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lookalike_of_nobody_is_adopted_and_one_of_another_owner_only_keeps_its_name() -> Result<()> {
    let place = Place::new("lookalikes").await?;
    place.make("a", |manifest| manifest["spec"]["slurmNodes"]["worker"]["size"] = 0.into()).await?;
    let set = place.api::<NodeSet>().create(&PostParams::default(), &node_set("gpu", "a", 1)?).await?;
    let pods = place.api::<Pod>();
    let first = place.until("a worker", async || Ok(pods.get_opt("gpu-0").await?)).await?;
    let namespaces: Api<Namespace> = Api::all(place.client.clone());
    let other = namespaces.get(place.name()).await?.uid().context("a Namespace has a uid")?;
    let owners = json!([{
        "apiVersion": "v1", "kind": "Namespace", "name": place.name(), "controller": true, "uid": other,
    }]);
    let params = PostParams::default();
    let others = pods.create(&params, &lookalike(&first, "gpu-1", 1, owners.clone())?).await?;
    // A set that wants one worker would adopt it and let it go.
    let nobodys = pods.create(&params, &lookalike(&first, "gpu-2", 2, owners)?).await?;

    scale(&place, 4).await?;
    place.until("the fourth is made", async || Ok(pods.get_opt("gpu-3").await?)).await?;
    let of_nobody = json!({ "metadata": { "ownerReferences": null } });
    pods.patch("gpu-2", &PatchParams::default(), &Patch::Merge(&of_nobody)).await?;
    until_owned(&place, "gpu-2", set.metadata.uid.as_deref()).await?;
    let told = place
        .until("only one name is taken", async || {
            let told = until_told(&place, "gpu", "Valid", "False", "NameTaken").await?;
            Ok((!told.contains("gpu-2")).then_some(told))
        })
        .await?;
    assert!(told.contains("the pod gpu-1 has a name that this set wants"), "{told}");
    assert_eq!(pods.get("gpu-2").await?.uid(), nobodys.uid());
    assert_eq!(pods.get("gpu-0").await?.uid(), first.uid());

    // It is not the set's, so it neither leaves with the others nor holds the set.
    scale(&place, 0).await?;
    let gone = async || Ok(pods.get_opt("gpu-2").await?.is_none().then_some(()));
    place.until("what the set adopted leaves", gone).await?;
    place.api::<NodeSet>().delete("gpu", &DeleteParams::background()).await?;
    place
        .until("the set is gone", async || {
            Ok(place.api::<NodeSet>().get_opt("gpu").await?.is_none().then_some(()))
        })
        .await?;
    let now = pods.get("gpu-1").await?;
    assert_eq!((now.uid(), now.metadata.deletion_timestamp), (others.uid(), None));
    assert_eq!(now.metadata.owner_references.map(|owners| owners.len()), Some(1));
    Ok(())
}
