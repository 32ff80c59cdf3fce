//! The Job that fills the jail, as the controller of Jobs runs it. There is no kubelet: its pods end when the test says so.

use anyhow::{Context as _, Result};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::json;

use crate::place::Place;

const JOB: &str = "a-populate-jail";
const MARK: &str = "slurm.nebius.ai/populate-jail";

/// A cluster whose jail has a volume.
async fn place(name: &str) -> Result<Place> {
    let place = Place::new(name).await?;
    let jail = json!({ "name": "jail", "hostPath": { "path": "/srv/jail" } });
    place.make("a", |manifest| manifest["spec"]["volumeSources"] = json!([jail])).await?;
    Ok(place)
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

/// The Job that overwrites the jail, once it is another than the one before.
async fn overwriting(place: &Place, before: Option<&str>) -> Result<Job> {
    place
        .until("there is another Job, to overwrite", async || {
            let job = place.api::<Job>().get_opt(JOB).await?;
            let is_new = |job: &Job| {
                job.uid().as_deref() != before
                    && job.annotations().get(MARK).is_some_and(|mark| mark == "overwrite")
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
    let told = place.until_told("a", "JailPopulated", "files of somebody else").await?;
    assert!(told.contains(&format!("kubectl delete job --namespace {} {JOB}", place.name())), "{told}");
    assert!(place.events("a").await?.iter().any(|note| note.contains("files of somebody else")), "an event");
    let before = place.api::<Job>().get(JOB).await?.uid();
    place.until_quiet().await?;
    assert_eq!(place.api::<Job>().get(JOB).await?.uid(), before, "it is not tried again by itself");

    place.api::<Job>().delete(JOB, &DeleteParams::background()).await?;
    place
        .until("there is another Job", async || {
            let job = place.api::<Job>().get_opt(JOB).await?;
            Ok(job.filter(|job| job.uid() != before && job.metadata.deletion_timestamp.is_none()))
        })
        .await?;
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
    let place = place("jail-overwrite").await?;
    end(&place, 0, "").await?;
    until_populated(&place).await?;
    for round in 0..2 {
        let before = place.api::<Job>().get(JOB).await?.uid();
        place
            .change("a", json!({ "spec": { "maintenance": "downscaleAndOverwritePopulateJail" } }))
            .await
            .with_context(|| format!("round {round}"))?;
        let overwriting = overwriting(&place, before.as_deref()).await?;
        let users = ListParams::default().labels("app.kubernetes.io/component in (login, nodeset)");
        let seen = place.api::<Pod>().list(&users).await?;
        assert!(seen.items.is_empty(), "nobody sees the jail: {}", seen.items.len());
        assert_eq!(overwrites(&pod(&place).await?).as_deref(), Some("1"));
        end(&place, 0, "").await?;
        until_populated(&place).await?;
        place.until_quiet().await?;
        assert_eq!(place.api::<Job>().get(JOB).await?.uid(), overwriting.uid(), "once");

        place.change("a", json!({ "spec": { "maintenance": "none" } })).await?;
        place.until_quiet().await?;
        assert_eq!(place.api::<Job>().get(JOB).await?.uid(), overwriting.uid(), "nor when it is over");
    }
    place.change("a", json!({ "spec": { "maintenance": "downscaleAndDeletePopulateJail" } })).await?;
    place
        .until("the Job is gone", async || Ok(place.api::<Job>().get_opt(JOB).await?.is_none().then_some(())))
        .await
}
