//! The end of workers: with their cluster, and after it.

use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::Result;
use api::nebius::{NodeSet, SlurmCluster};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use rig::slurm::Version;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::place::Place;
use crate::slurm_place::{CLUSTER, SlurmPlace, node_set, running, worker_account};
use crate::worker_sets::until_told;

async fn seconds(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

/// A set of two workers in a cluster that has all its controllers.
async fn whole(name: &str, version: Version) -> Result<SlurmPlace> {
    SlurmPlace::with_setup(name, version, 2, |_| {}).await
}

async fn until_cluster_gone(place: &SlurmPlace) -> Result<()> {
    place
        .until("the cluster is gone", async || {
            Ok(place.place.clusters().get_opt(CLUSTER).await?.is_none().then_some(()))
        })
        .await
}

async fn a_cluster_goes_after_its_jobs(name: &str, version: Version) -> Result<()> {
    let place = whole(name, version).await?;
    let job = place.start_job("w-1")?;
    place.place.api::<SlurmCluster>().delete(CLUSTER, &DeleteParams::background()).await?;
    place.until_pods(&["w-1"]).await?;
    let words = format!("job {job} is on it");
    let told = place
        .until("the cluster tells what it waits for", async || {
            let told = place.place.condition(CLUSTER, "WaitingForWorkers").await?;
            Ok(told.filter(|(status, message)| status == "True" && message.contains(&words)))
        })
        .await?;
    assert!(told.1.contains("w-1") && told.1.contains("force-delete=true"), "{}", told.1);
    let state = place.state("w-1")?;
    assert!(state.contains("drain") && state.contains("slurm-operator: "), "no further job comes: {state}");
    seconds(3).await;
    place.until_pods(&["w-1"]).await?;
    assert!(place.place.api::<StatefulSet>().get_opt("test-controller").await?.is_some(), "it runs the job");

    place.slurm.exec(&["scancel", &job])?;
    until_cluster_gone(&place).await?;
    place.until_pods(&[]).await?;
    assert_eq!(place.kubelet.lost(), Vec::<String>::new());
    assert_eq!(place.set().await?.metadata.deletion_timestamp, None, "the user's set stays, without pods");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_of_slurm_24_11_goes_after_its_jobs() -> Result<()> {
    a_cluster_goes_after_its_jobs("goes-24-11", Version::V24_11).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_of_slurm_26_05_goes_after_its_jobs() -> Result<()> {
    a_cluster_goes_after_its_jobs("goes-26-05", Version::V26_05).await
}

#[tokio::test(flavor = "multi_thread")]
async fn who_gives_up_the_jobs_of_a_cluster_does_not_wait_for_them() -> Result<()> {
    let place = whole("given-up", Version::V26_05).await?;
    let job = place.start_job("w-0")?;
    place.place.api::<SlurmCluster>().delete(CLUSTER, &DeleteParams::background()).await?;
    place.until_pods(&["w-0"]).await?;
    let forced = json!({ "metadata": { "annotations": { "slurm.nebius.ai/force-delete": "true" } } });
    place.place.change(CLUSTER, forced).await?;
    until_cluster_gone(&place).await?;
    place.until_pods(&[]).await?;
    place
        .until("the kubelet has seen it go", async || {
            Ok((place.kubelet.lost() == [format!("w-0 with {job}")]).then_some(()))
        })
        .await?;
    let told = place.place.events("w").await?;
    assert!(
        told.iter().any(|note| note.contains("pod w-0") && note.contains("gave up the care")),
        "{told:?}"
    );
    Ok(())
}

/// An agent that sees these job steps, at an address of its own.
async fn agent(last: u8, steps: watch::Receiver<&'static str>) -> Result<String> {
    let address = Ipv4Addr::new(127, 0, 89, last);
    let listener = TcpListener::bind((address, slurm::agent::STATE_PORT)).await?;
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 1024];
            let _ = stream.read(&mut request).await;
            let body =
                format!("{{\"daemon\":\"slurmd\",\"running\":true,\"jobSteps\":[{}]}}", *steps.borrow());
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    Ok(address.to_string())
}

/// What a kubelet says of a worker with this address.
async fn run_at(place: &Place, pod: &str, address: &str) -> Result<()> {
    place.until(&format!("{pod} is there"), async || Ok(place.api::<Pod>().get_opt(pod).await?)).await?;
    let mut status = running(1);
    status["status"]["podIP"] = address.into();
    status["status"]["podIPs"] = json!([{ "ip": address }]);
    place.api::<Pod>().patch_status(pod, &PatchParams::default(), &Patch::Strategic(&status)).await?;
    Ok(())
}

async fn until_gone(place: &Place, pod: &str) -> Result<()> {
    let gone = async || Ok(place.api::<Pod>().get_opt(pod).await?.is_none().then_some(()));
    place.until(&format!("{pod} is gone"), gone).await
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_cluster_is_gone_for_good_agents_say_when_the_workers_of_a_deleted_set_go() -> Result<()> {
    // Without the controller of clusters nothing holds the cluster: it goes before its workers, as with `--force`.
    let place = Place::with_controller("agents", operator::nodeset::NAME).await?;
    place.make("a", |_| {}).await?;
    place.api::<ServiceAccount>().create(&PostParams::default(), &worker_account("a")?).await?;
    let sets = place.api::<NodeSet>();
    sets.create(&PostParams::default(), &node_set("w", "a", 3)?).await?;
    let (steps, seen) = watch::channel("\"7.batch\"");
    let none = watch::Sender::new("").subscribe();
    run_at(&place, "w-0", &agent(1, none).await?).await?;
    run_at(&place, "w-1", &agent(2, seen).await?).await?;
    // Nobody listens there.
    run_at(&place, "w-2", "127.0.89.3").await?;
    until_told(&place, "w", "PodsReady", "True", "").await?;

    place.api::<SlurmCluster>().delete("a", &DeleteParams::default()).await?;
    until_told(&place, "w", "PodsReady", "False", "waiting for SlurmCluster a").await?;
    seconds(2).await;
    for pod in ["w-0", "w-1", "w-2"] {
        let pod = place.api::<Pod>().get(pod).await?;
        assert_eq!(
            pod.metadata.deletion_timestamp, None,
            "a cluster that is missing by mistake costs nothing"
        );
    }

    sets.delete("w", &DeleteParams::background()).await?;
    until_gone(&place, "w-0").await?;
    let told = until_told(&place, "w", "WaitingForJobs", "True", "w-1").await?;
    assert!(told.contains("1 job steps live in it, and its cluster is gone"), "{told}");
    assert!(told.contains("nobody else can tell whether jobs are on it"), "{told}");
    seconds(6).await;
    for pod in ["w-1", "w-2"] {
        assert_eq!(place.api::<Pod>().get(pod).await?.metadata.deletion_timestamp, None);
    }
    steps.send_replace("");
    until_gone(&place, "w-1").await?;
    assert_eq!(place.api::<Pod>().get("w-2").await?.metadata.deletion_timestamp, None, "it is silent");

    let soon = json!({ "spec": { "drainOnDelete": { "deadline": "1s" } } });
    sets.patch("w", &PatchParams::default(), &Patch::Merge(&soon)).await?;
    until_gone(&place, "w-2").await?;
    place.until("the set is gone", async || Ok(sets.get_opt("w").await?.is_none().then_some(()))).await?;
    for (pod, why) in [("w-0", "saw no job step"), ("w-1", "saw no job step"), ("w-2", "nobody could tell")] {
        place
            .until(&format!("an event about {pod} says {why}"), async || {
                let told = place.events("w").await?;
                let is_it = |note: &String| note.contains(&format!("pod {pod}")) && note.contains(why);
                Ok(told.into_iter().find(is_it))
            })
            .await?;
    }
    Ok(())
}
