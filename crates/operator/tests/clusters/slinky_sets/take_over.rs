//! A set that the original operator made goes on without a pod being touched.

use std::time::Duration;

use anyhow::{Context as _, Result};
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{ListParams, PostParams};
use serde_json::json;

use super::{NOBODY, Sets};
use crate::place::Place;
use crate::worker_sets::run;

#[tokio::test(flavor = "multi_thread")]
async fn a_set_of_the_original_is_not_rolled() -> Result<()> {
    let place = Place::idle("slinky-take-over").await?;
    let sets = Sets(&place);
    sets.make_cluster(NOBODY, "token").await?;
    // What a chart writes; the original stores what Go makes of it.
    let template = json!({
        "metadata": { "labels": { "app": "slurmd" } },
        "spec": {
            "hostname": "debug-",
            "hostNetwork": false,
            "containers": [{
                "name": "slurmd", "image": "slurmd:1", "tty": false,
                "resources": { "limits": { "cpu": "1000m" } },
            }],
        },
    });
    let set = sets.make(&json!({ "template": template })).await?;
    let owner = json!([{
        "apiVersion": "slinky.slurm.net/v1alpha1", "kind": "NodeSet", "name": "w",
        "uid": set.uid().context("a set has a uid")?, "controller": true, "blockOwnerDeletion": true,
    }]);
    let revision: ControllerRevision = serde_json::from_value(json!({
        "metadata": {
            "name": "w-6b9f7c4d5", "ownerReferences": owner,
            "labels": { "app": "slurmd", "controller.kubernetes.io/hash": "6b9f7c4d5" },
        },
        "revision": 4,
        "data": { "spec": { "template": {
            "$patch": "replace",
            "metadata": { "creationTimestamp": null, "labels": { "app": "slurmd" } },
            "spec": {
                "containers": [{
                    "image": "slurmd:1", "name": "slurmd", "resources": { "limits": { "cpu": "1" } },
                }],
                "hostname": "debug-",
            },
        } } },
    }))?;
    place.api::<ControllerRevision>().create(&PostParams::default(), &revision).await?;
    let mut made = Vec::new();
    for ordinal in 0..2 {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {
                "name": format!("w-{ordinal}"), "ownerReferences": owner,
                "labels": {
                    "app": "slurmd", "controller.kubernetes.io/hash": "6b9f7c4d5",
                    "nodeset.slinky.slurm.net/pod-name": format!("w-{ordinal}"),
                    "nodeset.slinky.slurm.net/pod-index": ordinal.to_string(),
                },
            },
            "spec": {
                "hostname": format!("debug-{ordinal}"), "subdomain": "workers",
                "containers": [{ "name": "slurmd", "image": "slurmd:1", "resources": { "limits": { "cpu": "1" } } }],
            },
        }))?;
        made.push(sets.pods().create(&PostParams::default(), &pod).await?.uid());
        run(&place, &format!("w-{ordinal}")).await?;
    }
    place.start(|_| {}).await?;
    sets.until_status("it is known", |status| {
        (status.updated_replicas, status.ready_replicas, &*status.node_set_hash)
            == (Some(2), Some(2), "6b9f7c4d5")
    })
    .await?;
    place.until_quiet().await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let pods = sets.pods().list(&ListParams::default()).await?.items;
    assert_eq!(pods.iter().map(ResourceExt::uid).collect::<Vec<_>>(), made);
    assert!(pods.iter().all(|pod| pod.metadata.deletion_timestamp.is_none()));
    // They are guarded now, as our own are.
    assert!(
        pods.iter().all(|pod| pod.labels().get("slurm.nebius.ai/worker").is_some_and(|it| it == "slinky"))
    );
    let revisions = place.api::<ControllerRevision>().list(&ListParams::default()).await?.items;
    assert_eq!(revisions.len(), 1, "{revisions:?}");
    assert_eq!(revisions[0].revision, 4);
    Ok(())
}
