//! A worker that somebody takes the labels from stays one, also where nobody wants it any more but its jobs.

use anyhow::{Result, ensure};
use api::nebius::NodeSet;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::place::Place;
use crate::slurm_place::node_set;
use crate::worker_sets::{run, until_told};

/// slurm.conf as it was written from time to time.
fn written(place: &Place) -> Vec<String> {
    let writes = place.writes().into_iter().filter(|write| write.call.resource == "configmaps");
    let text = |body: Value| body["data"]["slurm.conf"].as_str().map(String::from);
    writes.filter_map(|write| text(write.body)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_waits_for_its_job_gets_its_labels_back_and_keeps_its_line() -> Result<()> {
    let place = Place::new("lost-labels").await?;
    place
        .make("a", |manifest| {
            manifest["spec"]["slurmNodes"]["worker"]["size"] = 0.into();
            manifest["spec"]["partitionConfiguration"] = json!({
                "configType": "structured",
                "partitions": [{ "name": "main", "isAll": true, "config": "Default=YES" }],
            });
        })
        .await?;
    place.api::<NodeSet>().create(&Default::default(), &node_set("gpu", "a", 2)?).await?;
    for pod in ["gpu-0", "gpu-1"] {
        run(&place, pod).await?;
    }
    // Slurm does not answer, so a job may be there.
    let smaller = Patch::Merge(json!({ "spec": { "replicas": 1 } }));
    place.api::<NodeSet>().patch("gpu", &PatchParams::default(), &smaller).await?;
    until_told(&place, "gpu", "WaitingForJobs", "True", "gpu-1").await?;
    place
        .until("both have lines", async || {
            Ok(written(&place).last().filter(|text| text.contains("NodeName=gpu-1 ")).map(|_| ()))
        })
        .await?;
    place.until_quiet().await?;
    let before = place.api::<Pod>().get("gpu-1").await?;
    let so_far = written(&place).len();

    // By the first pods are watched; by the others they are found.
    let labels = ["app.kubernetes.io/name", "app.kubernetes.io/instance", "slurm.nebius.ai/nodeset"];
    for taken in [&labels[..1], &labels[1..2], &labels[2..], &labels[..]] {
        let taken: serde_json::Map<String, Value> =
            taken.iter().map(|label| ((*label).to_owned(), Value::Null)).collect();
        let take = Patch::Merge(json!({ "metadata": { "labels": taken } }));
        place.api::<Pod>().patch("gpu-1", &PatchParams::default(), &take).await?;
        place
            .until(&format!("{taken:?} are back"), async || {
                let pod = place.api::<Pod>().get("gpu-1").await?;
                let back = labels.iter().all(|label| pod.labels().get(*label) == before.labels().get(*label));
                Ok(back.then_some(()))
            })
            .await?;
        place.until_quiet().await?;
    }
    ensure!(place.api::<Pod>().get("gpu-1").await?.uid() == before.uid());
    for text in written(&place).split_off(so_far) {
        let line = text.lines().find(|line| line.starts_with("NodeName=gpu-1 ")).unwrap_or_default();
        ensure!(line.contains("NodeAddr=192.0.2.1 "), "the line of a pod that is there: {line:?}");
    }
    Ok(())
}
