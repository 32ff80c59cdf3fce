//! What slurm.conf says of nodes comes from the pods that exist, and from what each of them was made of.

use anyhow::{Context as _, Result};
use api::nebius::NodeSet;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::place::Place;
use crate::worker_sets::run;

/// A cluster `a` whose nodes have lines, and a set `gpu` of two workers that run.
async fn place(name: &str) -> Result<Place> {
    let place = Place::new(name).await?;
    place
        .make("a", |manifest| {
            manifest["spec"]["slurmNodes"]["worker"]["size"] = 0.into();
            manifest["spec"]["partitionConfiguration"] = json!({
                "configType": "structured",
                "partitions": [
                    { "name": "main", "isAll": true, "config": "Default=YES" },
                    { "name": "gpu", "nodeSetRefs": ["gpu"] },
                ],
            });
        })
        .await?;
    let text = include_str!("../../../../examples/api/slurm.nebius.ai/nodeset.yaml");
    let mut set: Value = serde_saphyr::from_str(text)?;
    set["metadata"] = json!({ "name": "gpu" });
    set["spec"]["clusterName"] = "a".into();
    set["spec"]["replicas"] = 2.into();
    set["spec"]["priorityClass"] = Value::Null;
    place.api::<NodeSet>().create(&Default::default(), &serde_json::from_value(set)?).await?;
    for pod in ["gpu-0", "gpu-1"] {
        place.until("the worker is made", async || Ok(place.api::<Pod>().get_opt(pod).await?)).await?;
        run(&place, pod).await?;
    }
    Ok(place)
}

async fn change(place: &Place, change: Value) -> Result<()> {
    place.api::<NodeSet>().patch("gpu", &PatchParams::default(), &Patch::Merge(&change)).await?;
    Ok(())
}

/// The lines of slurm.conf that begin so.
async fn lines(place: &Place, key: &str) -> Result<Vec<String>> {
    let map = place.api::<ConfigMap>().get_opt("a-slurm-configs").await?;
    let text = map.and_then(|map| map.data?.remove("slurm.conf")).unwrap_or_default();
    Ok(text.lines().filter(|line| line.starts_with(key)).map(String::from).collect())
}

async fn until_lines(place: &Place, what: &str, wanted: &[&str]) -> Result<()> {
    place
        .until(what, async || {
            let lines = lines(place, "NodeName=").await?;
            let same = lines.len() == wanted.len()
                && lines.iter().zip(wanted).all(|(line, wanted)| line.starts_with(wanted));
            Ok(same.then_some(()))
        })
        .await
        .with_context(|| format!("wanted: {wanted:?}"))
}

const FIRST: &str =
    "NodeName=gpu-0 NodeHostname=gpu-0 NodeAddr=192.0.2.1 CPUs=156 RealMemory=1249280 Gres=gpu:8";
const SECOND: &str =
    "NodeName=gpu-1 NodeHostname=gpu-1 NodeAddr=192.0.2.1 CPUs=156 RealMemory=1249280 Gres=gpu:8";

#[tokio::test(flavor = "multi_thread")]
async fn a_node_leaves_slurm_conf_after_its_pod_whatever_becomes_of_its_set() -> Result<()> {
    let place = place("lines").await?;
    until_lines(&place, "both nodes have lines", &[FIRST, SECOND]).await?;
    assert_eq!(lines(&place, "NodeSet=").await?, ["NodeSet=gpu Feature=gpu Nodes=gpu-[0-1]"]);
    assert_eq!(lines(&place, "PartitionName=gpu").await?, ["PartitionName=gpu Nodes=gpu"]);

    // Other CPUs, fewer GPUs, fewer workers: nothing of it is true of the pods that run.
    let less = json!({ "cpu": "8", "nvidia.com/gpu": "4" });
    change(&place, json!({ "spec": { "replicas": 1, "slurmd": { "resources": less } } })).await?;
    place.until_quiet().await?;
    until_lines(&place, "nothing changed", &[FIRST, SECOND]).await?;
    // It belongs to another cluster now; its pods are still nodes of this one.
    change(&place, json!({ "spec": { "clusterName": "b" } })).await?;
    place.until_quiet().await?;
    until_lines(&place, "the pods are still there", &[FIRST, SECOND]).await?;

    place.api::<Pod>().delete("gpu-1", &DeleteParams::default().grace_period(0)).await?;
    until_lines(&place, "the node left with its pod", &[FIRST]).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_replaced_stays_in_slurm_conf_and_then_is_what_its_new_pod_is() -> Result<()> {
    let place = place("replaced").await?;
    until_lines(&place, "both nodes have lines", &[FIRST, SECOND]).await?;
    change(&place, json!({ "spec": { "slurmd": { "resources": { "cpu": "8" } } } })).await?;
    let pods = place.api::<Pod>();
    let old = pods.get("gpu-1").await?.metadata.uid;
    pods.delete("gpu-1", &DeleteParams::default().grace_period(0)).await?;
    place
        .until("the next pod is made", async || {
            Ok(pods.get_opt("gpu-1").await?.filter(|pod| pod.metadata.uid != old))
        })
        .await?;
    // So that Slurm does not forget who drained it.
    let waits = "NodeName=gpu-1 NodeHostname=gpu-1 NodeAddr=203.0.113.1 CPUs=8";
    until_lines(&place, "the line waits for the address", &[FIRST, waits]).await?;
    run(&place, "gpu-1").await?;
    let next = "NodeName=gpu-1 NodeHostname=gpu-1 NodeAddr=192.0.2.1 CPUs=8";
    until_lines(&place, "the node is what its pod is", &[FIRST, next]).await
}
