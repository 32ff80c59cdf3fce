//! Workers of a real Slurm go only when no job is on them.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use api::slinky::Cluster;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::ResourceExt as _;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use rig::SlurmMachine;
use rig::slurm::Version;
use serde_json::{Value, json};

use super::kubelet::{Kubelet, slurm};
use super::{Sets, template};
use crate::place::Place;

const CORDON: &str = "nodeset.slinky.slurm.net/pod-cordon";

/// So many workers at work; the kubelet lives as long as the test.
pub async fn workers(
    place: &Place,
    slurm: &Arc<SlurmMachine>,
    replicas: i32,
    change: Value,
) -> Result<Kubelet> {
    let sets = Sets(place);
    sets.make_cluster(&slurm.rest_url()?, &slurm.token("root", 3600)?).await?;
    let mut spec = json!({ "replicas": replicas });
    spec.as_object_mut()
        .into_iter()
        .zip(change.as_object())
        .for_each(|(spec, change)| spec.extend(change.clone()));
    sets.make(&spec).await?;
    let kubelet = Kubelet::start(place, slurm);
    sets.until_status("all are idle", |status| status.slurm_idle == Some(replicas)).await?;
    Ok(kubelet)
}

/// A job on this node that runs for so long.
fn job(slurm: &SlurmMachine, node: &str, seconds: u32) -> Result<String> {
    let sleep = format!("sleep {seconds}");
    let words = ["sbatch", "--parsable", "-n1", "-w", node, "-o", "/dev/null", "--wrap", &sleep];
    let id = slurm.exec(&words)?.trim().to_owned();
    slurm.wait_for_job(&id, &["RUNNING"])?;
    Ok(id)
}

/// What Slurm says of a node; nothing if it has none of this name.
fn node(slurm: &SlurmMachine, name: &str) -> String {
    slurm.exec(&["scontrol", "show", "node", name, "--oneliner"]).unwrap_or_default()
}

async fn until_node(
    place: &Place,
    slurm: &SlurmMachine,
    name: &str,
    check: impl Fn(&str) -> bool,
) -> Result<()> {
    place.until(&format!("node {name}"), async || Ok(check(&node(slurm, name)).then_some(()))).await
}

fn is_drain(shown: &str) -> bool {
    shown.contains("DRAIN")
}

async fn idle_workers_leave_and_the_busy_one_stays(version: Version) -> Result<()> {
    let slurm = slurm(version)?;
    let place = Place::new("slinky-scale").await?;
    let sets = Sets(&place);
    let _kubelet = workers(&place, &slurm, 3, json!({})).await?;
    // The highest ordinal would leave first if it were idle.
    let job = job(&slurm, "w-2", 1000)?;
    sets.until_status("one is at work", |status| status.slurm_allocated == Some(1)).await?;
    until_node(&place, &slurm, "w-2", |shown| shown.contains("\"podName\":\"w-2\"")).await?;
    sets.change(json!({ "replicas": 1 })).await?;
    for pod in ["w-0", "w-1"] {
        sets.until_gone(pod).await?;
        until_node(&place, &slurm, pod, str::is_empty).await?;
    }
    sets.until_status("one is left", |status| (status.replicas, status.slurm_idle) == (Some(1), Some(0)))
        .await?;
    assert!(!is_drain(&node(&slurm, "w-2")), "{}", node(&slurm, "w-2"));

    sets.change(json!({ "replicas": 0 })).await?;
    let told = sets.until_told("WaitingForJobs", "True", "JobsRun", &format!("job {job}")).await?;
    assert!(told.message.contains("w-2"), "{}", told.message);
    until_node(&place, &slurm, "w-2", |shown| is_drain(shown) && shown.contains("slurm-operator: ")).await?;
    place
        .until("the pod is marked", async || {
            let pod = sets.pods().get("w-2").await?;
            Ok((pod.annotations().get(CORDON).map(String::as_str) == Some("true")).then_some(()))
        })
        .await?;
    // Wanted again: the drain and the mark are taken back.
    sets.change(json!({ "replicas": 1 })).await?;
    until_node(&place, &slurm, "w-2", |shown| !is_drain(shown)).await?;
    place
        .until("the mark is gone", async || {
            Ok((!sets.pods().get("w-2").await?.annotations().contains_key(CORDON)).then_some(()))
        })
        .await?;
    sets.change(json!({ "replicas": 0 })).await?;
    until_node(&place, &slurm, "w-2", is_drain).await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(sets.pods().get("w-2").await?.metadata.deletion_timestamp, None, "a job runs there");
    slurm.exec(&["scancel", &job])?;
    sets.until_gone("w-2").await
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_workers_of_slurm_24_11_leave_and_the_busy_one_stays() -> Result<()> {
    idle_workers_leave_and_the_busy_one_stays(Version::V24_11).await
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_workers_of_slurm_26_05_leave_and_the_busy_one_stays() -> Result<()> {
    idle_workers_leave_and_the_busy_one_stays(Version::V26_05).await
}

async fn jobs_outlive_an_update(version: Version) -> Result<()> {
    let slurm = slurm(version)?;
    let place = Place::new("slinky-roll").await?;
    let sets = Sets(&place);
    let _kubelet = workers(&place, &slurm, 2, json!({})).await?;
    let jobs = [job(&slurm, "w-0", 8)?, job(&slurm, "w-1", 8)?];
    let before: Vec<Pod> = sets.pods().list(&ListParams::default()).await?.items;
    sets.change(json!({ "template": template("slurmd:2") })).await?;
    sets.until_told("Updated", "False", "Updating", "").await?;
    sets.until_status("all are new and at work", |status| {
        (status.updated_replicas, status.slurm_idle, status.slurm_drain) == (Some(2), Some(2), Some(0))
    })
    .await?;
    for job in jobs {
        slurm.wait_for_job(&job, &["COMPLETED"])?;
    }
    for pod in sets.pods().list(&ListParams::default()).await?.items {
        assert!(before.iter().all(|old| old.uid() != pod.uid()));
        assert_eq!(pod.spec.unwrap_or_default().containers[0].image.as_deref(), Some("slurmd:2"));
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_slurm_24_11_outlive_an_update() -> Result<()> {
    jobs_outlive_an_update(Version::V24_11).await
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_slurm_26_05_outlive_an_update() -> Result<()> {
    jobs_outlive_an_update(Version::V26_05).await
}

/// Nobody is deleted within a while.
pub async fn nobody_goes(sets: &Sets<'_>, count: usize) -> Result<()> {
    for _ in 0..15 {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let pods = sets.pods().list(&ListParams::default()).await?.items;
        assert_eq!(pods.len(), count);
        assert!(pods.iter().all(|pod| pod.metadata.deletion_timestamp.is_none()));
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_cluster_or_its_token_nobody_goes_and_afterwards_work_goes_on() -> Result<()> {
    let slurm = slurm(Version::V26_05)?;
    let place = Place::new("slinky-cut-off").await?;
    let sets = Sets(&place);
    let _kubelet = workers(&place, &slurm, 3, json!({})).await?;
    let job = job(&slurm, "w-1", 1000)?;
    let token = slurm.token("root", 3600)?;

    place.api::<Secret>().delete("slurm-token", &DeleteParams::default()).await?;
    sets.until_told("SlurmAnswers", "False", "NoAnswer", "slurm-token").await?;
    sets.change(json!({ "replicas": 1, "template": template("slurmd:2") })).await?;
    nobody_goes(&sets, 3).await?;

    place.api::<Cluster>().delete("slurm", &DeleteParams::default()).await?;
    sets.until_told("SlurmAnswers", "False", "NoCluster", "").await?;
    nobody_goes(&sets, 3).await?;
    assert!(!is_drain(&node(&slurm, "w-0")), "{}", node(&slurm, "w-0"));

    sets.make_cluster(&slurm.rest_url()?, &token).await?;
    sets.until_gone("w-0").await?;
    sets.until_gone("w-2").await?;
    assert_eq!(sets.pods().get("w-1").await?.metadata.deletion_timestamp, None, "a job runs there");
    slurm.exec(&["scancel", &job])?;
    // Its successor gets the lowest number that is free.
    place
        .until("the last one is replaced", async || {
            let pods = sets.pods().list(&ListParams::default()).await?.items;
            let image = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.containers[0].image.clone());
            let images: Vec<Option<String>> = pods.iter().map(image).collect();
            Ok((images == [Some("slurmd:2".to_owned())]).then_some(()))
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_set_waits_for_its_jobs_also_when_its_cluster_goes_with_it() -> Result<()> {
    let slurm = slurm(Version::V24_11)?;
    let place = Place::new("slinky-delete").await?;
    let sets = Sets(&place);
    let _kubelet = workers(&place, &slurm, 2, json!({})).await?;
    let job = job(&slurm, "w-1", 1000)?;
    sets.api().delete("w", &DeleteParams::default()).await?;
    place.api::<Cluster>().delete("slurm", &DeleteParams::default()).await?;
    place.api::<Secret>().delete("slurm-token", &DeleteParams::default()).await?;
    sets.until_gone("w-0").await?;
    until_node(&place, &slurm, "w-1", is_drain).await?;
    nobody_goes(&sets, 1).await?;
    slurm.exec(&["scancel", &job])?;
    sets.until_gone("w-1").await?;
    place.until("the set is gone", async || Ok(sets.api().get_opt("w").await?.is_none().then_some(()))).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_users_cordon_drains_until_it_is_taken_away_and_an_admins_drain_stays() -> Result<()> {
    let slurm = slurm(Version::V26_05)?;
    let place = Place::new("slinky-cordon").await?;
    let sets = Sets(&place);
    let _kubelet = workers(&place, &slurm, 2, json!({})).await?;
    let cordon = async |pod: &str, value: Value| {
        let patch = json!({ "metadata": { "annotations": { CORDON: value } } });
        sets.pods().patch(pod, &PatchParams::default(), &Patch::Merge(&patch)).await
    };
    slurm.exec(&["scontrol", "update", "NodeName=w-1", "State=DRAIN", "Reason=broken fan"])?;
    for pod in ["w-0", "w-1"] {
        cordon(pod, json!("true")).await?;
    }
    until_node(&place, &slurm, "w-0", |shown| is_drain(shown) && shown.contains("slurm-operator: ")).await?;
    sets.until_status("both are drained", |status| status.slurm_drain == Some(2)).await?;
    for pod in ["w-0", "w-1"] {
        cordon(pod, Value::Null).await?;
    }
    until_node(&place, &slurm, "w-0", |shown| !is_drain(shown)).await?;
    sets.until_status("one is drained", |status| status.slurm_drain == Some(1)).await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let shown = node(&slurm, "w-1");
    assert!(is_drain(&shown) && shown.contains("broken fan"), "{shown}");
    assert_eq!(sets.pods().list(&ListParams::default()).await?.items.len(), 2);
    Ok(())
}
