//! Workers go only when a real Slurm says that no job is on them.

use std::time::Duration;

use anyhow::{Context as _, Result};
use api::nebius::NodeSet;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::api::{Patch, PatchParams};
use operator::slurm_links::SlurmLinks;
use rig::SlurmMachine;
use rig::slurm::{Options, Version};
use serde_json::json;

use crate::place::Place;
use crate::worker_sets::run;

/// A set `node` whose pods `node-1` and `node-2` are nodes of this Slurm; `node-0` never registers.
async fn place(slurm: &SlurmMachine, name: &str) -> Result<Place> {
    let url = slurm.rest_url()?;
    let place = Place::with(name, SlurmLinks::at(Box::new(move |_, _| url.clone()))).await?;
    let key = Secret {
        metadata: serde_json::from_value(json!({ "name": "a-rest-jwt-key" }))?,
        data: Some([("rest_jwt.key".to_string(), ByteString(slurm.jwt_key()?))].into()),
        ..Secret::default()
    };
    place.api::<Secret>().create(&Default::default(), &key).await?;
    place.make("a", |manifest| manifest["spec"]["slurmNodes"]["worker"]["size"] = 0.into()).await?;
    let text = include_str!("../../../../examples/api/slurm.nebius.ai/nodeset.yaml");
    let mut set: serde_json::Value = serde_saphyr::from_str(text)?;
    set["metadata"] = json!({ "name": "node" });
    set["spec"]["clusterName"] = "a".into();
    set["spec"]["replicas"] = 3.into();
    set["spec"]["priorityClass"] = serde_json::Value::Null;
    place.api::<NodeSet>().create(&Default::default(), &serde_json::from_value(set)?).await?;
    for pod in ["node-0", "node-1", "node-2"] {
        place.until("the worker is made", async || Ok(place.api::<Pod>().get_opt(pod).await?)).await?;
        run(&place, pod).await?;
    }
    Ok(place)
}

async fn scale(place: &Place, replicas: i32) -> Result<()> {
    let change = json!({ "spec": { "replicas": replicas } });
    place.api::<NodeSet>().patch("node", &PatchParams::default(), &Patch::Merge(&change)).await?;
    Ok(())
}

async fn until_gone(place: &Place, pod: &str) -> Result<()> {
    let gone = async || Ok(place.api::<Pod>().get_opt(pod).await?.is_none().then_some(()));
    place.until(&format!("{pod} is gone"), gone).await
}

fn state(slurm: &SlurmMachine, node: &str) -> Result<String> {
    Ok(slurm.exec(&["sinfo", "-h", "-n", node, "-o", "%T %E"])?.trim().to_lowercase())
}

async fn workers_go_when_they_are_free(version: Version) -> Result<()> {
    let slurm = SlurmMachine::start(Options::new(version))?;
    let place = place(&slurm, "with-slurm").await?;
    let submitted =
        slurm.exec(&["sbatch", "--parsable", "-w", "node-2", "-o", "/dev/null", "--wrap", "sleep 1000"])?;
    let job = submitted.trim();
    slurm.wait_for_job(job, &["RUNNING"])?;
    scale(&place, 1).await?;
    until_gone(&place, "node-1").await?;
    let told = place
        .until("the set tells of the job", async || {
            let set = place.api::<NodeSet>().get("node").await?;
            let conditions = set.status.and_then(|status| status.conditions).unwrap_or_default();
            let mut messages = conditions.into_iter().map(|condition| condition.message);
            Ok(messages.find(|message| message.contains(&format!("job {job} is on it"))))
        })
        .await?;
    assert!(told.contains("node-2 waits to be removed"), "{told}");
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert!(place.api::<Pod>().get_opt("node-2").await?.is_some(), "a job runs there");
    assert!(state(&slurm, "node-2")?.contains("drain"), "no further job comes: {}", state(&slurm, "node-2")?);

    slurm.exec(&["scancel", job])?;
    until_gone(&place, "node-2").await?;

    // Wanted again: what we drained takes jobs again, what an administrator drained does not.
    slurm.exec(&["scontrol", "update", "NodeName=node-1", "State=UNDRAIN"])?;
    slurm.exec(&["scontrol", "update", "NodeName=node-1", "State=DRAIN", "Reason=broken fan"])?;
    scale(&place, 3).await?;
    for pod in ["node-1", "node-2"] {
        place.until("the worker is back", async || Ok(place.api::<Pod>().get_opt(pod).await?)).await?;
        run(&place, pod).await?;
    }
    place
        .until("node-2 takes jobs again", async || {
            Ok(Some(state(&slurm, "node-2")?).filter(|state| !state.contains("drain")))
        })
        .await?;
    assert!(state(&slurm, "node-1")?.contains("drain"), "{}", state(&slurm, "node-1")?);
    slurm.stop("slurmrestd").context("slurmrestd stops")?;
    scale(&place, 2).await?;
    tokio::time::sleep(Duration::from_secs(8)).await;
    assert!(place.api::<Pod>().get_opt("node-2").await?.is_some(), "unknown is busy");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_of_slurm_24_11_go_when_they_are_free() -> Result<()> {
    workers_go_when_they_are_free(Version::V24_11).await
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_of_slurm_26_05_go_when_they_are_free() -> Result<()> {
    workers_go_when_they_are_free(Version::V26_05).await
}
