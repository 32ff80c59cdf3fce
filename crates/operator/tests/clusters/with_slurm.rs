//! Workers go only when a real Slurm says that no job is on them.

use std::time::Duration;

use anyhow::{Context as _, Result};
use api::nebius::{NodeSet, SlurmCluster};
use k8s_openapi::api::core::v1::{Pod, Secret};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, EvictParams};
use rig::slurm::Version;
use serde_json::json;

use crate::slurm_place::{CLUSTER, SET, SlurmPlace, jwt_secret};

async fn seconds(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

async fn workers_go_when_they_are_free(name: &str, version: Version) -> Result<()> {
    let place = SlurmPlace::new(name, version, 3).await?;
    let job = place.start_job("w-2")?;
    place.scale(1).await?;
    place.until_pods(&["w-0", "w-2"]).await?;
    let told = place.until_told("WaitingForJobs", "True", &format!("job {job} is on it")).await?;
    assert!(told.contains("w-2"), "{told}");
    seconds(3).await;
    place.until_pods(&["w-0", "w-2"]).await?;
    let state = place.state("w-2")?;
    assert!(state.contains("drain") && state.contains("slurm-operator: "), "no further job comes: {state}");

    // A job that stands still is on its node all the same, although the node reads idle.
    place.slurm.exec(&["scontrol", "suspend", &job])?;
    seconds(3).await;
    place.until_pods(&["w-0", "w-2"]).await?;
    place.slurm.exec(&["scancel", &job])?;
    place.until_pods(&["w-0"]).await?;

    // Wanted again: what we drained takes jobs again, what an administrator drained does not.
    place.slurm.exec(&["scontrol", "update", "NodeName=w-1", "State=UNDRAIN"])?;
    place.slurm.exec(&["scontrol", "update", "NodeName=w-1", "State=DRAIN", "Reason=broken fan"])?;
    place.scale(3).await?;
    place.until_idle("w-2").await?;
    place.until_pods(&["w-0", "w-1", "w-2"]).await?;
    seconds(2).await;
    let state = place.state("w-1")?;
    assert!(state.contains("drain") && state.contains("broken fan"), "{state}");

    place.slurm.stop("slurmrestd").context("slurmrestd stops")?;
    place.scale(1).await?;
    place.until_told("SlurmAnswers", "False", "NoAnswer").await?;
    seconds(3).await;
    place.until_pods(&["w-0", "w-1", "w-2"]).await?;
    place.slurm.start_again("slurmrestd")?;
    place.until_pods(&["w-0"]).await?;
    assert_eq!(place.kubelet.lost(), Vec::<String>::new());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_of_slurm_24_11_go_when_they_are_free() -> Result<()> {
    workers_go_when_they_are_free("free-24-11", Version::V24_11).await
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_of_slurm_26_05_go_when_they_are_free() -> Result<()> {
    workers_go_when_they_are_free("free-26-05", Version::V26_05).await
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_that_go_back_and_forth_during_a_drain_take_the_drain_back() -> Result<()> {
    let place = SlurmPlace::new("back-and-forth", Version::V26_05, 2).await?;
    let before = place.uids().await?;
    let job = place.start_job("w-1")?;
    for _ in 0..2 {
        place.scale(1).await?;
        place.until_told("WaitingForJobs", "True", &job).await?;
        place.scale(2).await?;
        place.until_told("WaitingForJobs", "False", "").await?;
        let undrained = async || Ok(Some(place.state("w-1")?).filter(|state| !state.contains("drain")));
        place.until("w-1 takes jobs again", undrained).await?;
    }
    assert_eq!(place.uids().await?, before, "no pod was touched");
    assert_eq!(place.slurm.exec(&["squeue", "-h", "-j", &job, "-o", "%T"])?.trim(), "RUNNING");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_key_or_the_cluster_nobody_goes_and_afterwards_work_goes_on() -> Result<()> {
    let place = SlurmPlace::new("cut-off", Version::V26_05, 3).await?;
    let (before, job) = (place.uids().await?, place.start_job("w-2")?);
    let secret = jwt_secret(CLUSTER, place.slurm.jwt_key()?)?;
    let secrets = place.place.api::<Secret>();
    secrets.delete(&secret.name_any(), &DeleteParams::default()).await?;
    place.until_told("SlurmAnswers", "False", "test-rest-jwt-key has no key rest_jwt.key").await?;
    place.scale(1).await?;
    place.roll("one").await?;
    place.until_told("WaitingForJobs", "True", "w-2").await?;
    seconds(3).await;
    assert_eq!(place.uids().await?, before);

    let clusters = place.place.api::<SlurmCluster>();
    clusters.delete(CLUSTER, &DeleteParams::background()).await?;
    place.until_told("PodsReady", "False", "waiting for SlurmCluster test").await?;
    seconds(3).await;
    assert_eq!(place.uids().await?, before);
    for node in ["w-0", "w-1", "w-2"] {
        let state = place.state(node)?;
        assert!(!state.contains("drain"), "{node} is {state}");
    }

    place.place.make(CLUSTER, |_| {}).await?;
    secrets.create(&Default::default(), &secret).await?;
    place.until_pods(&["w-0", "w-2"]).await?;
    place.until_told("WaitingForJobs", "True", &format!("job {job} is on it")).await?;
    place.slurm.exec(&["scancel", &job])?;
    place.until_pods(&["w-0"]).await?;
    place.until_told("StatefulSetUpdated", "True", "").await?;
    assert_eq!(place.kubelet.lost(), Vec::<String>::new());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_replaces_workers_one_after_the_other_and_the_busy_one_when_its_job_has_ended() -> Result<()>
{
    let place = SlurmPlace::new("update", Version::V24_11, 3).await?;
    let before = place.uids().await?;
    let job = place.start_job("w-1")?;
    place.roll("one").await?;
    place
        .until("the idle ones are new", async || {
            let now = place.uids().await?;
            let new = |name: &str| now.get(name).is_some_and(|uid| before.get(name) != Some(uid));
            Ok((new("w-0") && new("w-2")).then_some(()))
        })
        .await?;
    place.until_idle("w-0").await?;
    place.until_idle("w-2").await?;
    let told = place.until_told("WaitingForJobs", "True", &job).await?;
    assert!(told.contains("w-1"), "{told}");
    assert_eq!(place.uids().await?.get("w-1"), before.get("w-1"));
    let (updated, ..) = place.condition("StatefulSetUpdated").await?;
    assert_eq!(updated, "False");
    place.slurm.exec(&["scancel", &job])?;
    place.until_told("StatefulSetUpdated", "True", "").await?;
    place.until_idle("w-1").await?;
    assert_ne!(place.uids().await?.get("w-1"), before.get("w-1"));
    assert_eq!(place.kubelet.lost(), Vec::<String>::new());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn going_back_to_the_old_template_leaves_those_alone_that_still_have_it() -> Result<()> {
    let place = SlurmPlace::new("rollback", Version::V26_05, 2).await?;
    let before = place.uids().await?;
    for node in ["w-0", "w-1"] {
        place.start_job(node)?;
    }
    place.roll("one").await?;
    place.until_told("WaitingForJobs", "True", "is on it").await?;
    place.change(json!({ "spec": { "workerAnnotations": null } })).await?;
    place.until_told("StatefulSetUpdated", "True", "").await?;
    place.until_told("WaitingForJobs", "False", "").await?;
    for node in ["w-0", "w-1"] {
        let undrained = async || Ok(Some(place.state(node)?).filter(|state| !state.contains("drain")));
        place.until("it takes jobs again", undrained).await?;
    }
    assert_eq!(place.uids().await?, before);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn where_only_an_image_differs_it_is_changed_in_the_pod_after_its_job() -> Result<()> {
    let place = SlurmPlace::new("in-place", Version::V26_05, 2).await?;
    let before = place.uids().await?;
    place.change(json!({ "spec": { "updateStrategy": "inPlaceIfPossible" } })).await?;
    let job = place.start_job("w-0")?;
    place.change(json!({ "spec": { "slurmd": { "image": { "tag": "new" } } } })).await?;
    let image = async |pod: &str| -> Result<String> {
        let pod = place.place.api::<Pod>().get(pod).await?;
        let containers = pod.spec.map(|spec| spec.containers).unwrap_or_default();
        let slurmd = containers.into_iter().find(|container| container.name == "slurmd");
        Ok(slurmd.and_then(|container| container.image).unwrap_or_default())
    };
    place
        .until("w-1 has the image", async || Ok(image("w-1").await?.ends_with(":new").then_some(())))
        .await?;
    place.until_idle("w-1").await?;
    assert!(!image("w-0").await?.ends_with(":new"), "a job is there");
    place.slurm.exec(&["scancel", &job])?;
    place
        .until("w-0 has the image", async || Ok(image("w-0").await?.ends_with(":new").then_some(())))
        .await?;
    place.until_idle("w-0").await?;
    place.until_told("StatefulSetUpdated", "True", "").await?;
    assert_eq!(place.uids().await?, before, "no pod was replaced");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_that_is_deleted_goes_after_its_jobs() -> Result<()> {
    let place = SlurmPlace::new("delete", Version::V24_11, 2).await?;
    let job = place.start_job("w-0")?;
    place.place.api::<NodeSet>().delete(SET, &DeleteParams::background()).await?;
    place.until_pods(&["w-0"]).await?;
    let told = place.until_told("WaitingForJobs", "True", &job).await?;
    assert!(told.contains("w-0"), "{told}");
    assert_eq!(place.set().await?.status.map(|status| status.phase).as_deref(), Some("Terminating"));
    seconds(3).await;
    place.until_pods(&["w-0"]).await?;
    place.slurm.exec(&["scancel", &job])?;
    place
        .until("the set is gone", async || {
            Ok(place.place.api::<NodeSet>().get_opt(SET).await?.is_none().then_some(()))
        })
        .await?;
    place.until_pods(&[]).await?;
    assert_eq!(place.kubelet.lost(), Vec::<String>::new());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn no_worker_is_evicted_while_the_next_job_may_come_also_when_fewer_are_wanted() -> Result<()> {
    let place = SlurmPlace::new("evict", Version::V26_05, 2).await?;
    let pods = place.place.api::<Pod>();
    let evict = async |pod: &str| pods.evict(pod, &EvictParams::default()).await;
    // The disruption controller has to see the budget first; until then it refuses anyway.
    seconds(2).await;
    let refused = async |pod: &str| -> Result<()> {
        let error = evict(pod).await.err().with_context(|| format!("{pod} was evicted"))?;
        anyhow::ensure!(matches!(&error, kube::Error::Api(status) if status.code == 429), "{error}");
        Ok(())
    };
    refused("w-0").await?;
    let job = place.start_job("w-1")?;
    place.scale(1).await?;
    place.until_told("WaitingForJobs", "True", &job).await?;
    // More pods than replicas: a budget that says `maxUnavailable: 0` wants one healthy pod now, and lets the other go.
    place
        .until("the disruption controller wants more pods than there are", async || {
            let budget: PodDisruptionBudget = place.place.api().get("w-workers").await?;
            Ok(budget.status.filter(|status| status.desired_healthy == i32::MAX))
        })
        .await?;
    refused("w-1").await?;
    refused("w-0").await?;
    assert_eq!(place.slurm.exec(&["squeue", "-h", "-j", &job, "-o", "%T"])?.trim(), "RUNNING");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_tell_the_state_of_their_node_and_what_others_wrote_there_stays() -> Result<()> {
    let place = SlurmPlace::new("conditions", Version::V26_05, 1).await?;
    let conditions = async || -> Result<Vec<String>> {
        let pod = place.place.api::<Pod>().get("w-0").await?;
        let all = pod.status.and_then(|status| status.conditions).unwrap_or_default();
        Ok(all
            .into_iter()
            .filter(|condition| condition.status == "True")
            .map(|condition| condition.type_)
            .collect())
    };
    let told = async |type_: &str| {
        let has = async || Ok(conditions().await?.iter().any(|known| known == type_).then_some(()));
        place.until(&format!("the pod tells {type_}"), has).await
    };
    told("SlurmNodeStateIdle").await?;
    place.until_quiet().await?;
    let before = place.place.writes().len();
    let job = place.start_job("w-0")?;
    // One of its CPUs.
    told("SlurmNodeStateMixed").await?;
    let all = conditions().await?;
    assert!(all.iter().any(|type_| type_ == "Ready"), "{all:?}");
    assert!(!all.iter().any(|type_| type_ == "SlurmNodeStateIdle"), "{all:?}");
    seconds(2).await;
    let writes = place.place.writes().split_off(before);
    assert!(
        writes.len() <= 2,
        "{}",
        writes.iter().map(|write| write.call.to_string()).collect::<Vec<_>>().join("\n")
    );
    let pod = place.place.api::<Pod>().get("w-0").await?;
    assert_eq!(pod.labels().get("slurm.nebius.ai/pod-protect").map(String::as_str), Some("true"));
    place.slurm.exec(&["scancel", &job])?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_written_while_nothing_changes() -> Result<()> {
    let place = SlurmPlace::new("steady", Version::V26_05, 2).await?;
    place.until_quiet().await?;
    let before = place.place.writes().len();
    seconds(10).await;
    let writes = place.place.writes().split_off(before);
    assert!(
        writes.is_empty(),
        "{}",
        writes.iter().map(|write| write.call.to_string()).collect::<Vec<_>>().join("\n")
    );
    Ok(())
}
