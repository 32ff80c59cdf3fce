//! Pods land where their map says, or say why not.

use anyhow::Result;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::api::storage::v1::StorageClass;
use kube::ResourceExt as _;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::world::{World, until};

#[tokio::test]
async fn pods_land_as_mapped_with_their_devices_in_the_same_write() -> Result<()> {
    let world = World::new("mapped").await?;
    world.add_node("a").await?;
    world.add_node("b").await?;
    let running = world.start().await?;
    let map = "0=@a:0,1\n1=@b:2\n2=@b:none\n3=@a:3@shared(2)";
    for index in 0..3 {
        world.add_pod(&format!("w-{index}"), map.rsplit_once('\n').unwrap().0, json!({})).await?;
    }
    assert_eq!(world.placed("w-0").await?, ("a".into(), "0,1".into()));
    assert_eq!(world.placed("w-1").await?, ("b".into(), "2".into()));
    assert_eq!(world.placed("w-2").await?, ("b".into(), String::new()));
    let pod = world.pod("w-0").await?;
    let hash = gpu_scheduler::map::hash(&world.map(map.rsplit_once('\n').unwrap().0));
    assert_eq!(pod.annotations().get("gpu-scheduling-map-hash"), Some(&hash));
    let conditions = pod.status.and_then(|status| status.conditions).unwrap_or_default();
    assert!(
        conditions.iter().any(|condition| condition.type_ == "PodScheduled" && condition.status == "True")
    );
    let event = until("an event", || async { Ok(world.events("w-0").await?.pop()) }).await?;
    let note = format!("Successfully assigned {}/w-0 to {}", world.namespace.name(), world.node("a"));
    assert_eq!(event, ("Scheduled".into(), note));
    running.stop().await;
    Ok(())
}

#[tokio::test]
async fn the_second_pod_on_a_device_is_told_who_has_it_and_follows_when_that_one_goes() -> Result<()> {
    let world = World::new("second").await?;
    world.add_node("a").await?;
    let running = world.start().await?;
    world.add_pod("x-0", "0=@a:0", json!({})).await?;
    world.placed("x-0").await?;
    world.add_pod("y-0", "0=@a:0,1", json!({})).await?;
    let told = world.told("y-0", "held by").await?;
    let wanted = format!(
        "0/1 nodes are available: 1 node(s) had device 0 held by pod {}/x-0. The map gives index 0 node {}.",
        world.namespace.name(),
        world.node("a")
    );
    assert_eq!(told, wanted);
    let failed = until("an event", || async { Ok(world.events("y-0").await?.pop()) }).await?;
    assert_eq!(failed, ("FailedScheduling".into(), wanted));
    world.remove_pod("x-0").await?;
    assert_eq!(world.placed("y-0").await?, ("a".into(), "0,1".into()));
    running.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_wrong_map_is_told_with_line_and_column_and_a_corrected_one_is_followed() -> Result<()> {
    let world = World::new("wrong").await?;
    world.add_node("a").await?;
    let running = world.start().await?;
    world.add_pod("w-0", "0=@a:0\n1=@a:0;2", json!({})).await?;
    world.told("w-0", "annotation gpu-scheduling-map: line 2, column").await?;
    let correct = json!({ "metadata": { "annotations": { "gpu-scheduling-map": world.map("0=@a:0") } } });
    world.pods().patch("w-0", &PatchParams::default(), &Patch::Merge(&correct)).await?;
    world.placed("w-0").await?;
    running.stop().await;
    Ok(())
}

#[tokio::test]
async fn pods_follow_when_their_node_comes_or_is_uncordoned() -> Result<()> {
    let world = World::new("node").await?;
    world.add_node("b").await?;
    world.change_node("b", json!({ "spec": { "unschedulable": true } })).await?;
    let running = world.start().await?;
    world.add_pod("w-0", "0=@a:0\n1=@b:0", json!({})).await?;
    world.add_pod("w-1", "0=@a:0\n1=@b:0", json!({})).await?;
    world.told("w-0", "no node has the name").await?;
    world.told("w-1", "were unschedulable").await?;
    world.add_node("a").await?;
    world.change_node("b", json!({ "spec": { "unschedulable": false } })).await?;
    world.placed("w-0").await?;
    world.placed("w-1").await?;
    // A node that is gone and comes again under its name is the same place.
    world.remove_node("a").await?;
    world.remove_pod("w-0").await?;
    world.add_pod("w-0", "0=@a:0", json!({})).await?;
    world.told("w-0", "no node has the name").await?;
    world.add_node("a").await?;
    world.placed("w-0").await?;
    running.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_pod_with_a_gate_waits_for_it() -> Result<()> {
    let world = World::new("gate").await?;
    world.add_node("a").await?;
    let running = world.start().await?;
    world.add_pod("w-0", "0=@a:0", json!({ "schedulingGates": [{ "name": "example.com/g" }] })).await?;
    world.add_pod("v-0", "0=@a:1", json!({})).await?;
    world.placed("v-0").await?;
    assert_eq!(world.place("w-0").await?, None);
    let open = json!({ "spec": { "schedulingGates": null } });
    world.pods().patch("w-0", &PatchParams::default(), &Patch::Merge(&open)).await?;
    world.placed("w-0").await?;
    running.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_gang_goes_together() -> Result<()> {
    let world = World::new("gang").await?;
    world.add_node("a").await?;
    let running = world.start().await?;
    let map = "0=@a:0\n1=@a:1";
    let gang = json!({ "metadata": { "annotations": { "gpu-scheduling-gang": "true" } } });
    let gated = json!({ "schedulingGates": [{ "name": "example.com/g" }] });
    let open = json!({ "spec": { "schedulingGates": null } });
    for name in ["w-0", "w-1"] {
        world.add_pod(name, map, gated.clone()).await?;
        world.pods().patch(name, &PatchParams::default(), &Patch::Merge(&gang)).await?;
    }
    world.pods().patch("w-0", &PatchParams::default(), &Patch::Merge(&open)).await?;
    world.told("w-0", "no pod has index 1 of the map").await?;
    world.pods().patch("w-1", &PatchParams::default(), &Patch::Merge(&open)).await?;
    world.placed("w-0").await?;
    world.placed("w-1").await?;
    running.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_claim_that_waits_for_its_consumer_is_told_the_node() -> Result<()> {
    let world = World::new("claim").await?;
    world.add_node("a").await?;
    let class = json!({
        "metadata": { "name": world.node("class") },
        "provisioner": "example.com/none",
        "volumeBindingMode": "WaitForFirstConsumer",
    });
    let classes: Api<StorageClass> = Api::all(world.namespace.client());
    classes.create(&PostParams::default(), &serde_json::from_value(class)?).await?;
    let claim = json!({
        "metadata": { "name": "data" },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": world.node("class"),
            "resources": { "requests": { "storage": "1Gi" } },
        },
    });
    let claims: Api<PersistentVolumeClaim> = world.namespace.api();
    claims.create(&PostParams::default(), &serde_json::from_value(claim)?).await?;
    let running = world.start().await?;
    let volumes = json!({ "volumes": [{ "name": "v", "persistentVolumeClaim": { "claimName": "data" } }] });
    world.add_pod("w-0", "0=@a:0", volumes).await?;
    world.told("w-0", "waiting for a volume of persistentvolumeclaim \"data\"").await?;
    let selected = until("the claim is told the node", || async {
        Ok(claims.get("data").await?.annotations().get("volume.kubernetes.io/selected-node").cloned())
    })
    .await?;
    assert_eq!(selected, world.node("a"));
    running.stop().await;
    Ok(())
}
