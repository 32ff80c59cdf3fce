//! Pods are made, kept as they should be, and nothing is done by mistake.

use std::time::Duration;

use anyhow::Result;
use api::slinky::Cluster;
use k8s_openapi::api::apps::v1::ControllerRevision;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::json;

use super::{NOBODY, Sets, template};
use crate::place::Place;
use crate::worker_sets::run;

const HASH: &str = "controller.kubernetes.io/hash";

#[tokio::test(flavor = "multi_thread")]
async fn a_set_gets_its_pods_and_then_is_quiet() -> Result<()> {
    let place = Place::new("slinky-create").await?;
    let sets = Sets(&place);
    sets.make_cluster(NOBODY, "token").await?;
    let set = sets.make(&json!({ "replicas": 2, "ordinalPadding": 2 })).await?;
    for (ordinal, name) in ["w-00", "w-01"].into_iter().enumerate() {
        let pod = sets.until_pod(name).await?;
        let owner = &pod.owner_references()[0];
        assert_eq!((Some(&owner.uid), owner.controller), (set.metadata.uid.as_ref(), Some(true)));
        assert_eq!(owner.block_owner_deletion, Some(true));
        let label = |key: &str| pod.labels().get(key).map(String::as_str);
        assert_eq!(label("nodeset.slinky.slurm.net/pod-name"), Some(name));
        assert_eq!(label("nodeset.slinky.slurm.net/pod-index"), Some(&*ordinal.to_string()));
        assert_eq!(label("app"), Some("slurmd"));
        assert!(label(HASH).is_some_and(|hash| !hash.is_empty()));
        let spec = pod.spec.unwrap_or_default();
        assert_eq!((spec.hostname.as_deref(), spec.subdomain.as_deref()), (Some(name), Some("workers")));
    }
    let set = sets.api().get("w").await?;
    assert_eq!(set.finalizers(), ["slinky.slurm.net/drain"]);
    let hash = sets.pods().get("w-00").await?.labels()[HASH].clone();
    let revision: ControllerRevision = place.api().get(&format!("w-{hash}")).await?;
    assert_eq!((revision.revision, &revision.labels()[HASH]), (1, &hash));
    assert_eq!(revision.labels()["app"], "slurmd");
    sets.until_status("two pods", |status| status.replicas == Some(2) && status.selector == "app=slurmd")
        .await?;
    place.until_quiet().await?;
    // Nothing changes, so nothing is written, although slurmrestd is asked again and again.
    let written = place.writes().len();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(place.writes().len(), written, "{:#?}", place.writes().last());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_without_its_cluster_makes_nothing_and_says_so() -> Result<()> {
    let place = Place::new("slinky-no-cluster").await?;
    let sets = Sets(&place);
    sets.make(&json!({})).await?;
    sets.until_told("SlurmAnswers", "False", "NoCluster", "does not exist").await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(sets.pods().list(&ListParams::default()).await?.items.is_empty());
    sets.make_cluster(NOBODY, "token").await?;
    sets.until_pod("w-1").await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_selector_that_does_not_match_the_template_stops_everything() -> Result<()> {
    let place = Place::new("slinky-selector").await?;
    let sets = Sets(&place);
    sets.make_cluster(NOBODY, "token").await?;
    // The rules of the kind look at matchLabels only.
    let selector = json!({ "matchExpressions": [{ "key": "app", "operator": "In", "values": ["other"] }] });
    sets.make(&json!({ "selector": selector })).await?;
    sets.until_told("Valid", "False", "SelectorMismatch", "spec.selector").await?;
    assert!(sets.pods().list(&ListParams::default()).await?.items.is_empty());
    sets.change(json!({ "selector": { "matchExpressions": null, "matchLabels": { "app": "slurmd" } } }))
        .await?;
    sets.until_pod("w-0").await?;
    // Running pods are left alone when the selector turns wrong: a set that does not know its pods must not act on them.
    run(&place, "w-0").await?;
    sets.change(json!({ "replicas": 0, "selector": { "matchExpressions": selector["matchExpressions"] } }))
        .await?;
    sets.until_told("Valid", "False", "SelectorMismatch", "spec.selector").await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let pod = sets.pods().get("w-0").await?;
    assert_eq!(pod.metadata.deletion_timestamp, None);
    assert_eq!(pod.owner_references().len(), 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn labels_of_a_pods_identity_come_back_whichever_is_taken_away() -> Result<()> {
    let place = Place::new("slinky-identity").await?;
    let sets = Sets(&place);
    sets.make_cluster(NOBODY, "token").await?;
    sets.make(&json!({ "replicas": 1 })).await?;
    let pod = sets.until_pod("w-0").await?;
    for label in
        ["nodeset.slinky.slurm.net/pod-index", "slurm.nebius.ai/worker", "nodeset.slinky.slurm.net/pod-name"]
    {
        let value = pod.labels()[label].clone();
        let patch = json!({ "metadata": { "labels": { label: null } } });
        sets.pods().patch("w-0", &PatchParams::default(), &Patch::Merge(&patch)).await?;
        let back = async || {
            let now = sets.pods().get("w-0").await?;
            Ok((now.labels().get(label) == Some(&value)).then(|| now.uid()))
        };
        let uid = place.until(&format!("{label} is back"), back).await?;
        assert_eq!(uid, pod.uid(), "it is the same pod");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_that_run_stay_while_slurm_does_not_answer() -> Result<()> {
    let place = Place::new("slinky-silent").await?;
    let sets = Sets(&place);
    sets.make_cluster(NOBODY, "token").await?;
    sets.make(&json!({})).await?;
    for pod in ["w-0", "w-1"] {
        sets.until_pod(pod).await?;
        run(&place, pod).await?;
    }
    // Neither scale-in nor an update takes them, nor the end of their Cluster.
    sets.change(json!({ "replicas": 1, "template": template("slurmd:2") })).await?;
    sets.until_told("SlurmAnswers", "False", "NoAnswer", "").await?;
    sets.until_told("WaitingForJobs", "True", "JobsRun", "w-").await?;
    place.api::<Cluster>().delete("slurm", &DeleteParams::default()).await?;
    sets.until_told("SlurmAnswers", "False", "NoCluster", "").await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    for pod in ["w-0", "w-1"] {
        let pod = sets.pods().get(pod).await?;
        assert_eq!(pod.metadata.deletion_timestamp, None);
        assert_eq!(pod.spec.unwrap_or_default().containers[0].image.as_deref(), Some("slurmd:1"));
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_template_replaces_pods_that_never_started_and_an_old_one_is_known_again() -> Result<()> {
    let place = Place::new("slinky-template").await?;
    let sets = Sets(&place);
    sets.make_cluster(NOBODY, "token").await?;
    sets.make(&json!({ "revisionHistoryLimit": 5 })).await?;
    let first = sets.until_pod("w-0").await?.labels()[HASH].clone();
    let has = async |image: &str| {
        let image = image.to_owned();
        place
            .until("both pods have the image", async || {
                let pods = sets.pods().list(&ListParams::default()).await?.items;
                let new = |pod: &k8s_openapi::api::core::v1::Pod| {
                    pod.spec.as_ref().is_some_and(|spec| spec.containers[0].image.as_ref() == Some(&image))
                };
                Ok((pods.len() == 2 && pods.iter().all(new)).then_some(()))
            })
            .await
    };
    sets.change(json!({ "template": template("slurmd:2") })).await?;
    has("slurmd:2").await?;
    sets.until_status("updated", |status| status.updated_replicas == Some(2)).await?;
    sets.change(json!({ "template": template("slurmd:1") })).await?;
    has("slurmd:1").await?;
    sets.until_status("the first hash", |status| status.node_set_hash == first).await?;
    let revisions: Vec<ControllerRevision> = place.api().list(&ListParams::default()).await?.items;
    assert_eq!(revisions.len(), 2, "the old one is used again");
    let number = |hash: &str| revisions.iter().find(|it| it.labels()[HASH] == hash).map(|it| it.revision);
    assert_eq!(number(&first), Some(3));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_set_whose_cluster_is_gone_waits_for_the_deadline() -> Result<()> {
    let place = Place::new("slinky-deadline").await?;
    let sets = Sets(&place);
    sets.make_cluster(NOBODY, "token").await?;
    sets.make(&json!({ "replicas": 1 })).await?;
    sets.until_pod("w-0").await?;
    run(&place, "w-0").await?;
    place.api::<Cluster>().delete("slurm", &DeleteParams::default()).await?;
    sets.until_told("SlurmAnswers", "False", "NoCluster", "").await?;
    sets.api().delete("w", &DeleteParams::default()).await?;
    sets.until_told("WaitingForJobs", "True", "JobsRun", "w-0").await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(sets.pods().get("w-0").await?.metadata.deletion_timestamp, None);
    sets.change(json!({ "drainOnDelete": { "deadline": "1s" } })).await?;
    sets.until_gone("w-0").await?;
    place.until("the set is gone", async || Ok(sets.api().get_opt("w").await?.is_none().then_some(()))).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_set_goes_at_once_when_the_user_gives_up_the_care() -> Result<()> {
    let place = Place::new("slinky-force").await?;
    let sets = Sets(&place);
    sets.make_cluster(NOBODY, "token").await?;
    sets.make(&json!({ "replicas": 1 })).await?;
    sets.until_pod("w-0").await?;
    run(&place, "w-0").await?;
    sets.api().delete("w", &DeleteParams::default()).await?;
    sets.until_told("WaitingForJobs", "True", "JobsRun", "w-0").await?;
    let patch = json!({ "metadata": { "annotations": { "slinky.slurm.net/force-delete": "true" } } });
    sets.api().patch("w", &PatchParams::default(), &Patch::Merge(&patch)).await?;
    sets.until_gone("w-0").await?;
    place.until("the set is gone", async || Ok(sets.api().get_opt("w").await?.is_none().then_some(()))).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_whose_jobs_are_not_waited_for_has_its_pods_deleted_by_the_operator_itself() -> Result<()> {
    let place = Place::new("slinky-no-drain").await?;
    let sets = Sets(&place);
    sets.make_cluster(NOBODY, "token").await?;
    sets.make(&json!({ "replicas": 1, "drainOnDelete": { "enabled": false } })).await?;
    sets.until_pod("w-0").await?;
    run(&place, "w-0").await?;
    // If the garbage collector had to delete the pods of a set that is gone, admission would never let it.
    sets.until_status("one is ready", |status| status.ready_replicas == Some(1)).await?;
    assert_eq!(sets.api().get("w").await?.finalizers(), ["slinky.slurm.net/drain"]);
    sets.api().delete("w", &DeleteParams::default()).await?;
    place
        .until("the set is gone", async || Ok(sets.api().get_opt("w").await?.is_none().then_some(())))
        .await?;
    assert!(sets.pods().get_opt("w-0").await?.is_none());
    place
        .until("an event tells it", async || {
            Ok(place.events("w").await?.into_iter().find(|note| note.contains("gave up the care for jobs")))
        })
        .await?;
    Ok(())
}
