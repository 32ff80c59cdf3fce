//! The webhook on a real API server, registered as the chart registers it.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "this file is a test")]

mod place;

use anyhow::Result;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use place::{Place, pod};

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_of_ours_is_asked_about_once_and_gets_its_variables() -> Result<()> {
    let place = Place::new("once").await?;
    let (asked, checked) = (place.asked("/mutate"), place.asked("/validate"));
    let made = place.create(pod("web-0", "gpu-scheduler")).await?;
    for container in place::containers(&made) {
        assert!(container.contains("CUDA_VISIBLE_DEVICES"), "{container}");
    }
    assert_eq!((place.asked("/mutate"), place.asked("/validate")), (asked + 1, checked));
    place.create(pod("other-0", "default-scheduler")).await?;
    assert_eq!((place.asked("/mutate"), place.asked("/validate")), (asked + 1, checked));
    Ok(())
}

/// The API server does not come back to a webhook whose conditions did not hold in the first round.
#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_a_later_webhook_makes_ours_is_refused() -> Result<()> {
    let place = Place::new("late").await?;
    let mut late = pod("web-0", "default-scheduler");
    late["metadata"]["labels"] = json!({ "late": "ours" });
    let error = place.create(late).await.expect_err("it has no variables").to_string();
    assert!(error.contains("spec.initContainers[0].env: lacks the variables"), "{error}");
    // It comes back when a later webhook adds a container.
    let mut more = pod("web-0", "gpu-scheduler");
    more["metadata"]["labels"] = json!({ "late": "container" });
    let containers = place::containers(&place.create(more).await?);
    assert_eq!(containers.len(), 3);
    assert!(containers.iter().all(|one| one.contains("CUDA_VISIBLE_DEVICES")), "{containers:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_is_being_deleted_keeps_its_devices() -> Result<()> {
    let place = Place::new("going").await?;
    let mut long = pod("web-0", "gpu-scheduler");
    long["spec"]["terminationGracePeriodSeconds"] = json!(3600);
    long["metadata"]["finalizers"] = json!(["example.com/hold"]);
    place.create(long).await?;
    let binding = json!({
        "metadata": { "name": "web-0", "annotations": { "gpu-scheduling-devices": "0" } },
        "target": { "kind": "Node", "name": "nowhere" },
    });
    let params = PostParams::default();
    let bind = place.pods();
    let bind = bind.create_subresource::<Value, Value>("binding", "web-0", &params, &binding);
    bind.await?;
    place.pods().delete("web-0", &DeleteParams::default()).await?;
    let going = place.pods().get("web-0").await?;
    assert!(going.metadata.deletion_timestamp.is_some());
    assert_eq!(going.annotations().get("gpu-scheduling-devices").map(String::as_str), Some("0"));

    let change = async |change: Value| {
        place.pods().patch("web-0", &PatchParams::default(), &Patch::Merge(&change)).await
    };
    for devices in [Value::Null, json!("1")] {
        let error =
            change(json!({ "metadata": { "annotations": { "gpu-scheduling-devices": devices } } })).await;
        let error = error.expect_err("it still runs").to_string();
        assert!(error.contains("metadata.annotations[gpu-scheduling-devices]"), "{error}");
    }
    change(json!({ "metadata": { "annotations": { "mine": "yes" }, "finalizers": null } })).await?;
    Ok(())
}
