//! Workers of Slinky with jobs stay as well. Their Cluster is found by their NodeSet.

use anyhow::{Context as _, Result};
use api::slinky;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::{Api, DeleteParams, PostParams};
use operator::worker_pods::FORCE_DELETE;
use rig::SlurmMachine;
use rig::slurm::{Options, Version};
use serde_json::{Value, json};

use crate::place::Place;
use crate::worker_pods::{COLLECTOR, agent, job_on};

/// A namespace with the Cluster `slurm` at this address, and its NodeSet `node`.
async fn place(prefix: &str, server: &str, token: &str) -> Result<Place> {
    // No SlurmCluster is asked.
    let place = Place::new(prefix, "http://127.0.0.1:1").await?;
    let params = PostParams::default();
    let secret = Secret {
        metadata: serde_json::from_value(json!({ "name": "token" }))?,
        data: Some([("auth-token".to_string(), ByteString(token.as_bytes().to_vec()))].into()),
        ..Secret::default()
    };
    place.api::<Secret>().create(&params, &secret).await?;
    let cluster = json!({
        "apiVersion": "slinky.slurm.net/v1alpha1", "kind": "Cluster", "metadata": { "name": "slurm" },
        "spec": { "server": server, "token": { "secretRef": "token" } },
    });
    place.kind::<slinky::Cluster>().create(&params, &serde_json::from_value(cluster)?).await?;
    let text = include_str!("../../../../examples/api/slinky.slurm.net/nodeset.yaml");
    let mut set: Value = serde_saphyr::from_str(text)?;
    set["metadata"] = json!({ "name": "node" });
    set["spec"]["clusterName"] = "slurm".into();
    place.kind::<slinky::NodeSet>().create(&params, &serde_json::from_value(set)?).await?;
    Ok(place)
}

/// A worker of the set that runs; `change` changes its manifest.
async fn worker(place: &Place, name: &str, change: impl FnOnce(&mut Value)) -> Result<()> {
    let set = place.kind::<slinky::NodeSet>().get("node").await?;
    place
        .new_worker(name, |pod| {
            pod["metadata"]["labels"] = json!({ "slurm.nebius.ai/worker": "slinky" });
            pod["metadata"]["ownerReferences"] = json!([{
                "apiVersion": "slinky.slurm.net/v1alpha1", "kind": "NodeSet", "name": "node",
                "uid": set.metadata.uid, "controller": true,
            }]);
            pod["spec"]["initContainers"] = Value::Null;
            change(pod);
        })
        .await?;
    place.report(name, |_| {}).await
}

async fn jobs_hold_workers_of_slinky(version: Version) -> Result<()> {
    let slurm = SlurmMachine::start(Options::new(version))?;
    let place = place("slinky-hold", &slurm.rest_url()?, &slurm.token("root", 3600)?).await?;
    let job = job_on(&slurm, "node-1")?;
    // The Slurm node is called like the host, not like the pod.
    worker(&place, "node-7", |pod| pod["spec"]["hostname"] = "node-1".into()).await?;
    worker(&place, "node-2", |_| {}).await?;
    let words = format!("pod node-7 is the Slurm node node-1: job {job} (train of root) is on it");
    let told = place.refused_with(None, "node-7", &words).await?;
    assert!(told.contains("slinky.slurm.net/force-delete=true"), "{told}");
    place.refused_with(Some(COLLECTOR), "node-7", &format!("job {job}")).await?;
    place
        .until("an idle worker may go", async || Ok(place.delete("node-2").await?.is_none().then_some(())))
        .await?;
    slurm.exec(&["scontrol", "suspend", &job])?;
    slurm.wait_for_job(&job, &["SUSPENDED"])?;
    place.refused_with(None, "node-7", &format!("job {job}")).await?;
    slurm.exec(&["scontrol", "resume", &job])?;
    slurm.exec(&["scancel", &job])?;
    place
        .until("the worker may go when its job is over", async || {
            Ok(place.delete("node-7").await?.is_none().then_some(()))
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_slurm_24_11_hold_workers_of_slinky() -> Result<()> {
    jobs_hold_workers_of_slinky(Version::V24_11).await
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_slurm_26_05_hold_workers_of_slinky() -> Result<()> {
    jobs_hold_workers_of_slinky(Version::V26_05).await
}

#[tokio::test(flavor = "multi_thread")]
async fn who_cannot_be_asked_says_nothing_good_and_the_user_can_give_up_the_jobs() -> Result<()> {
    let place = place("slinky-unknown", "http://127.0.0.1:1", "a.b.c").await?;
    worker(&place, "node-1", |_| {}).await?;
    let told = place.refused(None, "node-1").await?;
    assert!(told.contains("nobody can tell whether jobs are on it"), "{told}");
    macro_rules! gives_up {
        ($api:expr, $object:expr) => {
            for annotation in FORCE_DELETE {
                place.annotate($api, $object, annotation, Some("yes")).await?;
                place.refused(None, "node-1").await.context("only the word true")?;
                place.annotate($api, $object, annotation, Some("true")).await?;
                assert_eq!(place.delete("node-1").await?, None, "{annotation} on {}", $object);
                place.annotate($api, $object, annotation, None).await?;
                worker(&place, "node-1", |_| {}).await?;
                place.refused(None, "node-1").await?;
            }
        };
    }
    gives_up!(place.kind::<slinky::NodeSet>(), "node");
    gives_up!(place.kind::<slinky::Cluster>(), "slurm");
    gives_up!(Api::<Namespace>::all(place.client.clone()), place.name());

    place.api::<Secret>().delete("token", &DeleteParams::default()).await?;
    let told = place.refused(None, "node-1").await?;
    assert!(told.contains("nobody can tell"), "{told}");
    place.kind::<slinky::NodeSet>().delete("node", &DeleteParams::default()).await?;
    let told = place.refused(None, "node-1").await?;
    assert!(told.contains("there is no NodeSet node"), "{told}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn where_the_cluster_is_gone_the_agent_of_a_worker_has_the_word() -> Result<()> {
    let place = place("slinky-agent", "http://127.0.0.1:1", "a.b.c").await?;
    let (steps, seen) = tokio::sync::watch::channel("\"7.batch\"");
    let address = agent(2, seen).await?;
    let with_agent = json!([{
        "name": "agent", "image": "i", "command": ["/usr/bin/slurm-agent", "install", "/opt"],
    }]);
    worker(&place, "node-1", |pod| pod["spec"]["initContainers"] = with_agent).await?;
    place
        .report("node-1", |status| {
            status["podIP"] = address.as_str().into();
            status["podIPs"] = json!([{ "ip": address }]);
        })
        .await?;
    worker(&place, "node-2", |_| {}).await?;
    let told = place.refused(None, "node-1").await?;
    assert!(told.contains("nobody can tell"), "a Slurm that lives will answer again: {told}");

    place.kind::<slinky::Cluster>().delete("slurm", &DeleteParams::default()).await?;
    place.refused_with(None, "node-1", "job step 7.batch runs on it").await?;
    let told = place.refused(None, "node-2").await?;
    assert!(told.contains("no agent is in the pod that could tell"), "{told}");
    steps.send_replace("");
    place.until("no step lives", async || Ok(place.delete("node-1").await?.is_none().then_some(()))).await
}
