//! Workers with jobs stay, whoever wants to delete them, unless nothing runs in them or the user gave up their jobs.

use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::{Context as _, Result};
use api::nebius::{NodeSet, SlurmCluster};
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use operator::worker_pods::FORCE_DELETE;
use rig::SlurmMachine;
use rig::slurm::{Options, Version};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::chart::OPERATOR;
use crate::place::{CLUSTER, Place};

pub const COLLECTOR: (&str, &[&str]) = ("system:serviceaccount:kube-system:generic-garbage-collector", &[]);
const POD_COLLECTOR: (&str, &[&str]) = ("system:serviceaccount:kube-system:pod-garbage-collector", &[]);
const KUBELET: (&str, &[&str]) = ("system:node:guarded", &["system:nodes"]);

/// Starts a job on a node, and waits until it runs.
pub fn job_on(slurm: &SlurmMachine, node: &str) -> Result<String> {
    let submit =
        ["sbatch", "--parsable", "-J", "train", "-w", node, "-o", "/dev/null", "--wrap", "sleep 1000"];
    let job = slurm.exec(&submit)?.trim().to_string();
    slurm.wait_for_job(&job, &["RUNNING"])?;
    Ok(job)
}

async fn jobs_hold_their_workers(version: Version) -> Result<()> {
    let slurm = SlurmMachine::start(Options::new(version))?;
    let place = Place::with_slurm("jobs-hold", &slurm).await?;
    let job = job_on(&slurm, "node-1")?;
    for name in ["node-1", "node-2"] {
        place.worker(name).await?;
    }
    let words = format!("pod node-1 is the Slurm node node-1: job {job} (train of root) is on it");
    let told = place.refused_with(None, "node-1", &words).await?;
    let way =
        format!("kubectl annotate pod node-1 --namespace {} slurm.nebius.ai/force-delete=true", place.name());
    assert!(told.contains(&way), "{told}");
    let words = format!("job {job}");
    place.refused_with(Some(COLLECTOR), "node-1", &words).await?;
    place.refused_with(Some(("alice", &[])), "node-1", &words).await?;
    place
        .until("an idle worker may go", async || Ok(place.delete("node-2").await?.is_none().then_some(())))
        .await?;
    place.worker("node-2").await?;

    // A suspended job is one.
    slurm.exec(&["scontrol", "suspend", &job])?;
    slurm.wait_for_job(&job, &["SUSPENDED"])?;
    place.refused_with(None, "node-1", &words).await?;
    slurm.exec(&["scontrol", "resume", &job])?;

    // Who does not answer says nothing good.
    slurm.stop("slurmrestd")?;
    // Its last answer is a fresh one for a moment.
    tokio::time::sleep(Duration::from_secs(6)).await;
    place.refused_with(None, "node-2", "nobody can tell whether jobs are on it").await?;
    slurm.start_again("slurmrestd")?;

    slurm.exec(&["scancel", &job])?;
    place
        .until("the worker may go when its job is over", async || {
            Ok(place.delete("node-1").await?.is_none().then_some(()))
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_slurm_24_11_hold_their_workers() -> Result<()> {
    jobs_hold_their_workers(Version::V24_11).await
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_slurm_26_05_hold_their_workers() -> Result<()> {
    jobs_hold_their_workers(Version::V26_05).await
}

/// The ways around that need no operator: by the matchConditions of the chart.
async fn what_passes_without_a_question(place: &Place) -> Result<()> {
    let node: Node = serde_json::from_value(json!({ "metadata": { "name": "guarded" } }))?;
    let nodes: Api<Node> = Api::all(place.client.clone());
    if nodes.get_opt("guarded").await?.is_none() {
        nodes.create(&PostParams::default(), &node).await?;
    }
    place.worker("by-operator").await?;
    assert_eq!(place.delete_as(Some((OPERATOR, &[])), "by-operator").await?, None);
    place.worker("by-collector").await?;
    assert_eq!(place.delete_as(Some(POD_COLLECTOR), "by-collector").await?, None);
    place.new_worker("by-kubelet", |pod| pod["spec"]["nodeName"] = "guarded".into()).await?;
    place.report("by-kubelet", |_| {}).await?;
    assert_eq!(place.delete_as(Some(KUBELET), "by-kubelet").await?, None);

    place.new_worker("never-started", |_| {}).await?;
    place
        .report("never-started", |status| {
            status["phase"] = "Pending".into();
            status["containerStatuses"][0]["state"] = json!({ "waiting": { "reason": "ImagePullBackOff" } });
            status["containerStatuses"][0]["ready"] = false.into();
        })
        .await?;
    assert_eq!(place.delete("never-started").await?, None);
    place.new_worker("no-status", |_| {}).await?;
    assert_eq!(place.delete("no-status").await?, None);
    place.worker("ended").await?;
    place
        .report("ended", |status| {
            status["phase"] = "Failed".into();
            status["containerStatuses"][0]["ready"] = false.into();
            status["containerStatuses"][0]["state"] = json!({ "terminated": { "exitCode": 1 } });
        })
        .await?;
    assert_eq!(place.delete("ended").await?, None);

    for (index, annotation) in FORCE_DELETE.iter().enumerate() {
        let name = format!("forced-{index}");
        place.worker(&name).await?;
        place.annotate(place.api::<Pod>(), &name, annotation, Some("true")).await?;
        assert_eq!(place.delete(&name).await?, None, "{annotation}");
    }
    place.new_worker("terminating", |pod| pod["metadata"]["finalizers"] = json!(["test/hold"])).await?;
    place.report("terminating", |_| {}).await?;
    assert_eq!(place.delete_as(Some((OPERATOR, &[])), "terminating").await?, None);
    assert_eq!(place.delete("terminating").await?, None, "it is on its way already");
    let free = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    place.api::<Pod>().patch("terminating", &PatchParams::default(), &free).await?;

    // A pod that is no worker is nobody's business.
    place.new_worker("other", |pod| pod["metadata"]["labels"] = Value::Null).await?;
    place.report("other", |_| {}).await?;
    assert_eq!(place.delete("other").await?, None);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_may_go_waits_for_an_operator_that_is_down() -> Result<()> {
    // Nobody listens there: whoever is asked about is refused.
    let place = Place::new("without-question", "http://127.0.0.1:1").await?;
    place.make_cluster(CLUSTER).await?;
    place.worker("node-1").await?;
    assert!(place.refused(None, "node-1").await?.contains("nobody can tell"), "the webhook is asked");
    what_passes_without_a_question(&place).await.context("while the operator runs")?;

    place.stop_serving();
    place
        .until("a worker is held while nobody answers", async || {
            Ok(Some(place.refused(None, "node-1").await?)
                .filter(|told| told.contains("failed calling webhook")))
        })
        .await?;
    // The same again, with nobody to ask.
    what_passes_without_a_question(&place).await.context("while the operator is down")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_user_can_give_up_the_jobs_of_a_set_a_cluster_or_a_namespace() -> Result<()> {
    let place = Place::new("given-up", "http://127.0.0.1:1").await?;
    place.make_cluster(CLUSTER).await?;
    place.worker("node-1").await?;
    place.refused(None, "node-1").await?;
    let annotation = FORCE_DELETE[0];
    macro_rules! gives_up {
        ($api:expr, $object:expr) => {
            place.annotate($api, $object, annotation, Some("yes")).await?;
            place.refused(None, "node-1").await.context("only the word true")?;
            place.annotate($api, $object, annotation, Some("true")).await?;
            place.replace_as(None, "node-1").await.context($object.to_string())?;
            place.annotate($api, $object, annotation, None).await?;
            place.refused(None, "node-1").await?;
        };
    }
    gives_up!(place.kind::<NodeSet>(), "node");
    gives_up!(place.kind::<SlurmCluster>(), CLUSTER);
    gives_up!(Api::<Namespace>::all(place.client.clone()), place.name());

    // And nothing runs on a node that is not there.
    place.new_worker("lost", |pod| pod["spec"]["nodeName"] = "no-such-node".into()).await?;
    place.report("lost", |_| {}).await?;
    assert_eq!(place.delete("lost").await?, None);
    Ok(())
}

/// An agent that sees these job steps, at an address of its own.
pub async fn agent(last: u8, steps: tokio::sync::watch::Receiver<&'static str>) -> Result<String> {
    let address = Ipv4Addr::new(127, 0, 88, last);
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

#[tokio::test(flavor = "multi_thread")]
async fn where_slurm_has_ended_the_agent_of_a_worker_has_the_word() -> Result<()> {
    let place = Place::new("agent-says", "http://127.0.0.1:1").await?;
    let (steps, seen) = tokio::sync::watch::channel("");
    let address = agent(1, seen).await?;
    place.make_cluster(CLUSTER).await?;
    // There is a link, and it does not work: that must leave time for the agent.
    place.make_key(vec![7; 32]).await?;
    place.worker("node-1").await?;
    let ip = json!([{ "ip": address }]);
    place
        .report("node-1", |status| {
            status["podIP"] = address.as_str().into();
            status["podIPs"] = ip;
        })
        .await?;
    let told = place.refused(None, "node-1").await?;
    assert!(told.contains("nobody can tell"), "a Slurm that lives will answer again: {told}");

    steps.send_replace("\"7.batch\"");
    place.kind::<SlurmCluster>().delete(CLUSTER, &DeleteParams::default()).await?;
    place.refused_with(None, "node-1", "job step 7.batch runs on it").await?;
    steps.send_replace("");
    place.until("no step lives", async || Ok(place.delete("node-1").await?.is_none().then_some(()))).await?;

    // Nobody is left to ask.
    place.worker("node-2").await?;
    let told = place.refused(None, "node-2").await?;
    assert!(told.contains("no agent is in the pod that could tell"), "{told}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_goes_when_the_last_job_in_it_is_over() -> Result<()> {
    let slurm = SlurmMachine::start(Options::new(Version::V24_11))?;
    let place = Place::with_slurm("namespace-goes", &slurm).await?;
    let job = job_on(&slurm, "node-1")?;
    for name in ["node-1", "node-2"] {
        place.worker(name).await?;
    }
    place.refused_with(None, "node-1", &format!("job {job}")).await?;
    let namespaces: Api<Namespace> = Api::all(place.client.clone());
    namespaces.delete(place.name(), &DeleteParams::default()).await?;
    place
        .until("idle workers go at once", async || {
            // They have no kubelet to end them.
            let pod = place.api::<Pod>().get_opt("node-2").await?;
            Ok(pod.is_none_or(|pod| pod.metadata.deletion_timestamp.is_some()).then_some(()))
        })
        .await?;
    tokio::time::sleep(Duration::from_secs(8)).await;
    let busy = place.api::<Pod>().get("node-1").await?;
    assert_eq!(busy.metadata.deletion_timestamp, None, "its job runs");
    slurm.exec(&["scancel", &job])?;
    place
        .until("the busy one goes when its job is over", async || {
            let pod = place.api::<Pod>().get_opt("node-1").await?;
            Ok(pod.is_none_or(|pod| pod.metadata.deletion_timestamp.is_some()).then_some(()))
        })
        .await
}
