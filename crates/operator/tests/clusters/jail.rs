//! The Job that fills the jail, as the controller of Jobs runs it. There is no kubelet: its pods end when the test says so.

use anyhow::{Context as _, Result};
use api::nebius::NodeSet;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::ResourceExt as _;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::place::Place;
use crate::slurm_place::node_set;

const JOB: &str = "a-populate-jail";
const MARK: &str = "slurm.nebius.ai/populate-jail";

/// A cluster whose jail has a volume.
async fn place(name: &str) -> Result<Place> {
    let place = Place::new(name).await?;
    make(&place, json!({})).await?;
    Ok(place)
}

/// The same; `populate` changes `spec.populateJail`.
async fn make(place: &Place, populate: Value) -> Result<()> {
    let jail = json!({ "name": "jail", "hostPath": { "path": "/srv/jail" } });
    place
        .make("a", |manifest| {
            manifest["spec"]["volumeSources"] = json!([jail]);
            for (field, value) in populate.as_object().into_iter().flatten() {
                manifest["spec"]["populateJail"][field] = value.clone();
            }
        })
        .await
}

/// The pod of the Job that has not ended, once there is one.
async fn pod(place: &Place) -> Result<Pod> {
    let selector = ListParams::default().labels("app.kubernetes.io/component=populate-jail");
    place
        .until("the Job has a pod", async || {
            let pods = place.api::<Pod>().list(&selector).await?;
            let has_ended = |pod: &Pod| {
                let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
                matches!(phase, Some("Failed" | "Succeeded")) || pod.metadata.deletion_timestamp.is_some()
            };
            Ok(pods.into_iter().find(|pod| !has_ended(pod)))
        })
        .await
}

/// Lets the pod of the Job end.
async fn end(place: &Place, exit_code: i32, message: &str) -> Result<()> {
    let pod = pod(place).await?;
    let phase = if exit_code == 0 { "Succeeded" } else { "Failed" };
    let terminated =
        json!({ "exitCode": exit_code, "message": message, "startedAt": "2026-01-01T00:00:00Z" });
    let status = json!({ "status": { "phase": phase, "containerStatuses": [{
        "name": "populate-jail", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
        "state": { "terminated": terminated },
    }] } });
    place.api::<Pod>().patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Merge(&status)).await?;
    Ok(())
}

async fn until_populated(place: &Place) -> Result<()> {
    place
        .until("the jail is full", async || {
            let condition = place.condition("a", "JailPopulated").await?;
            Ok(condition.filter(|(status, _)| status == "True"))
        })
        .await
        .map(drop)
}

/// Pods that see the jail.
async fn users(place: &Place) -> Result<usize> {
    let users = ListParams::default().labels("app.kubernetes.io/component in (login, nodeset)");
    Ok(place.api::<Pod>().list(&users).await?.items.len())
}

/// Lets the pod of slurmctld be ready, as a kubelet would.
async fn start_slurmctld(place: &Place) -> Result<()> {
    let pods = place.api::<Pod>();
    let name = "a-controller-0";
    let status = json!({ "status": {
        "phase": "Running",
        "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z" }],
    } });
    place.until("slurmctld has a pod", async || Ok(pods.get_opt(name).await?)).await?;
    pods.patch_status(name, &PatchParams::default(), &Patch::Merge(&status)).await?;
    place
        .until("slurmctld is ready", async || {
            let condition = place.condition("a", "ControllersAvailable").await?;
            Ok(condition.filter(|(status, _)| status == "True"))
        })
        .await
        .map(drop)
}

/// Waits until the status is about the spec as it is.
async fn until_observed(place: &Place) -> Result<()> {
    let generation = place.clusters().get("a").await?.metadata.generation;
    place
        .until("the status is about the spec", async || {
            let status = place.cluster_status("a").await?;
            Ok((status.observed_generation == generation).then_some(()))
        })
        .await
}

/// The Job, once it is another one.
async fn other_job(place: &Place, before: Option<&str>) -> Result<Job> {
    place
        .until("there is another Job", async || {
            let job = place.api::<Job>().get_opt(JOB).await?;
            Ok(job.filter(|job| job.uid().as_deref() != before && job.metadata.deletion_timestamp.is_none()))
        })
        .await
}

/// The Job that overwrites the jail, once it is another than the one before.
async fn overwriting(place: &Place, before: Option<&str>) -> Result<Job> {
    place
        .until("there is another Job, to overwrite", async || {
            let job = place.api::<Job>().get_opt(JOB).await?;
            let is_new = |job: &Job| {
                job.uid().as_deref() != before
                    && job.annotations().get(MARK).is_some_and(|mark| mark.starts_with("overwrite-"))
            };
            Ok(job.filter(is_new))
        })
        .await
}

fn overwrites(pod: &Pod) -> Option<String> {
    let container = pod.spec.as_ref()?.containers.first()?;
    container.env.iter().flatten().find(|variable| variable.name == "OVERWRITE")?.value.clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_jail_that_cannot_be_filled_is_told_with_the_words_of_the_job_and_tried_again_when_it_is_deleted()
-> Result<()> {
    let place = place("jail").await?;
    assert_eq!(overwrites(&pod(&place).await?).as_deref(), Some("0"));
    place.until_told("a", "JailPopulated", "the jail is being filled").await?;

    end(&place, 3, "the volume holds files of somebody else; empty it").await?;
    let told = place
        .until_told("a", "JailPopulated", "could not be filled: the volume holds files of somebody")
        .await?;
    assert!(told.contains(&format!("kubectl delete job --namespace {} {JOB}", place.name())), "{told}");
    assert!(place.events("a").await?.iter().any(|note| note.contains("files of somebody else")), "an event");
    let before = place.api::<Job>().get(JOB).await?.uid();
    place.until_quiet().await?;
    assert_eq!(place.api::<Job>().get(JOB).await?.uid(), before, "it is not tried again by itself");

    place.api::<Job>().delete(JOB, &DeleteParams::background()).await?;
    other_job(&place, before.as_deref()).await?;
    end(&place, 0, "").await?;
    until_populated(&place).await
}

#[tokio::test(flavor = "multi_thread")]
async fn another_image_is_taken_until_the_jail_is_full() -> Result<()> {
    let place = place("jail-image").await?;
    pod(&place).await?;
    let image = |job: Job| job.spec?.template.spec?.containers.into_iter().next()?.image;
    place.change("a", json!({ "spec": { "populateJail": { "image": "other:1" } } })).await?;
    place
        .until("the Job has the other image", async || {
            let job = place.api::<Job>().get_opt(JOB).await?;
            Ok(job.and_then(image).filter(|image| image == "other:1"))
        })
        .await?;
    end(&place, 0, "").await?;
    until_populated(&place).await?;
    place.change("a", json!({ "spec": { "populateJail": { "image": "later:1" } } })).await?;
    place.until_quiet().await?;
    let job = place.api::<Job>().get(JOB).await?;
    assert_eq!(image(job).as_deref(), Some("other:1"), "the jail is full");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn each_wish_to_overwrite_the_jail_is_followed_once_and_only_without_users() -> Result<()> {
    let place = Place::new("jail-overwrite").await?;
    // Something is always wrong: nothing that is not wanted any more is deleted then.
    let foreign = json!({ "metadata": { "name": "a-worker-sa" } });
    place.api::<ServiceAccount>().create(&PostParams::default(), &serde_json::from_value(foreign)?).await?;
    make(&place, json!({})).await?;
    end(&place, 0, "").await?;
    until_populated(&place).await?;
    for round in 0..2 {
        let before = place.api::<Job>().get(JOB).await?.uid();
        place
            .change("a", json!({ "spec": { "maintenance": "downscaleAndOverwritePopulateJail" } }))
            .await
            .with_context(|| format!("round {round}"))?;
        until_observed(&place).await?;
        let told = place.condition("a", "JailPopulated").await?.context("a condition")?;
        assert_eq!(told.0, "False", "round {round}: what the last Job has done is not what is asked for now");
        let overwriting = overwriting(&place, before.as_deref()).await?;
        assert_eq!(users(&place).await?, 0, "nobody sees the jail");
        assert_eq!(overwrites(&pod(&place).await?).as_deref(), Some("1"));
        end(&place, 0, "").await?;
        until_populated(&place).await?;
        place.until_quiet().await?;
        assert_eq!(place.api::<Job>().get(JOB).await?.uid(), overwriting.uid(), "once");

        place.change("a", json!({ "spec": { "maintenance": "none" } })).await?;
        place.until_quiet().await?;
        assert_eq!(place.api::<Job>().get(JOB).await?.uid(), overwriting.uid(), "nor when it is over");
    }
    place.api::<ServiceAccount>().delete("a-worker-sa", &DeleteParams::default()).await?;
    place.change("a", json!({ "spec": { "maintenance": "downscaleAndDeletePopulateJail" } })).await?;
    place
        .until("the Job is gone", async || Ok(place.api::<Job>().get_opt(JOB).await?.is_none().then_some(())))
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_comes_into_a_jail_that_is_being_overwritten_when_maintenance_ends_early() -> Result<()> {
    let place = place("jail-early").await?;
    end(&place, 0, "").await?;
    until_populated(&place).await?;
    place.change("a", json!({ "spec": { "maintenance": "downscaleAndOverwritePopulateJail" } })).await?;
    let job = overwriting(&place, None).await?;
    pod(&place).await?;
    // A set of the user is held, too.
    place.api::<NodeSet>().create(&PostParams::default(), &node_set("more", "a", 1)?).await?;
    place.change("a", json!({ "spec": { "maintenance": "none" } })).await?;
    start_slurmctld(&place).await?;
    place.until_told("a", "LoginAvailable", "started when the jail has been overwritten").await?;
    place.until_told("a", "WorkersAvailable", "started when the jail has been overwritten").await?;
    place.until_quiet().await?;
    assert_eq!(users(&place).await?, 0, "nobody sees how the jail is taken away");
    assert_eq!(place.api::<Job>().get(JOB).await?.uid(), job.uid());
    end(&place, 0, "").await?;
    until_populated(&place).await?;
    place.until("all are there", async || Ok((users(&place).await? >= 4).then_some(()))).await
}

#[tokio::test(flavor = "multi_thread")]
async fn overwrite_of_the_spec_counts_only_while_nobody_is_in_the_jail() -> Result<()> {
    let place = Place::new("jail-anew").await?;
    make(&place, json!({ "overwrite": true })).await?;
    assert_eq!(overwrites(&pod(&place).await?).as_deref(), Some("1"), "a new cluster");
    place.until_told("a", "LoginAvailable", "started when the jail has been overwritten").await?;
    assert_eq!(users(&place).await?, 0, "nobody is in a jail of which nobody knows what it holds");
    end(&place, 0, "").await?;
    until_populated(&place).await?;

    let user = json!({
        "metadata": { "name": "somebody", "labels": {
            "app.kubernetes.io/name": "slurmcluster", "app.kubernetes.io/instance": "a",
            "app.kubernetes.io/component": "login",
        } },
        "spec": { "containers": [{ "name": "sshd", "image": "i" }] },
    });
    place.api::<Pod>().create(&PostParams::default(), &serde_json::from_value(user)?).await?;
    place.until_quiet().await?;
    let before = place.api::<Job>().get(JOB).await?.uid();
    place.api::<Job>().delete(JOB, &DeleteParams::background()).await?;
    let job = other_job(&place, before.as_deref()).await?;
    assert_eq!(overwrites(&pod(&place).await?).as_deref(), Some("0"), "somebody is logged in");
    place
        .until_told("a", "JailPopulated", "set spec.maintenance to downscaleAndOverwritePopulateJail")
        .await?;
    place.api::<Pod>().delete("somebody", &DeleteParams::default().grace_period(0)).await?;
    end(&place, 0, "").await?;
    until_populated(&place).await?;
    place.until_quiet().await?;
    assert_eq!(place.api::<Job>().get(JOB).await?.uid(), job.uid(), "it stays what it is");
    let told = place.condition("a", "JailPopulated").await?.context("a condition")?;
    assert!(told.1.contains("overwrite does not count"), "{told:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_jail_that_is_taken_as_it_is_has_no_job_and_nobody_is_sent_to_one() -> Result<()> {
    let place = Place::new("jail-skip").await?;
    let jail = json!({ "name": "jail", "hostPath": { "path": "/srv/jail" } });
    place
        .make("a", |manifest| {
            manifest["spec"]["volumeSources"] = json!([jail]);
            manifest["spec"]["maintenance"] = json!("skipPopulateJail");
        })
        .await?;
    let told = place.until_told("a", "JailPopulated", "it is taken as it is").await?;
    assert!(told.contains("no Job fills the jail") && !told.contains("kubectl"), "{told}");
    place
        .until("login and worker pods are made", async || Ok((users(&place).await? >= 3).then_some(())))
        .await?;
    place.until_quiet().await?;
    assert!(place.api::<Job>().get_opt(JOB).await?.is_none());
    Ok(())
}
