//! Protected Secrets: nobody but the operator changes their content, and they stay as long as their cluster does.

use anyhow::{Context as _, Result};
use api::nebius::SlurmCluster;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::chart::OPERATOR;
use crate::place::Place;

fn secret() -> Result<Secret> {
    Ok(serde_json::from_value(json!({
        "metadata": {
            "name": "password",
            "labels": { "slurm.nebius.ai/webhook": "true" }, "annotations": { "slurm.nebius.ai/cluster": "a" },
        },
        "stringData": { "password": "x" },
    }))?)
}

async fn refused(api: &Api<Secret>, change: Value) -> Result<String> {
    let outcome = api.patch("password", &PatchParams::default(), &Patch::Merge(&change)).await;
    Ok(outcome.err().with_context(|| format!("{change} was taken"))?.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_protected_secret_stays_as_it_is_while_its_cluster_exists() -> Result<()> {
    let place = Place::new("secrets", "http://127.0.0.1:1").await?;
    place.make_cluster("a").await?;
    let secrets = place.api::<Secret>();
    secrets.create(&PostParams::default(), &secret()?).await?;

    let content = || json!({ "stringData": { "password": "y" } });
    assert!(refused(&secrets, content()).await?.contains("the content of Secret password is protected"));
    let no_label = json!({ "metadata": { "labels": { "slurm.nebius.ai/webhook": null } } });
    assert!(refused(&secrets, no_label).await?.contains("the label slurm.nebius.ai/webhook of Secret"));
    let rotate = json!({ "metadata": { "annotations": { "slurm.nebius.ai/rotate": "2026-11-16" } } });
    secrets.patch("password", &PatchParams::default(), &Patch::Merge(&rotate)).await?;
    let gone = secrets.delete("password", &DeleteParams::default()).await;
    let told = gone.err().context("it was deleted")?.to_string();
    assert!(told.contains("protected while SlurmCluster a exists"), "{told}");

    let operator: Api<Secret> = place.api_as(OPERATOR).await?;
    operator.patch("password", &PatchParams::default(), &Patch::Merge(&content())).await?;

    place.kind::<SlurmCluster>().delete("a", &DeleteParams::default()).await?;
    secrets.delete("password", &DeleteParams::default()).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_is_being_deleted_holds_no_secret() -> Result<()> {
    let place = Place::new("secrets-go", "http://127.0.0.1:1").await?;
    place.make_cluster("a").await?;
    let clusters = place.kind::<SlurmCluster>();
    let hold = |finalizers: Value| Patch::Merge(json!({ "metadata": { "finalizers": finalizers } }));
    clusters.patch("a", &PatchParams::default(), &hold(json!(["test/hold"]))).await?;
    place.api::<Secret>().create(&PostParams::default(), &secret()?).await?;
    clusters.delete("a", &DeleteParams::default()).await?;
    place.api::<Secret>().delete("password", &DeleteParams::default()).await?;
    clusters.patch("a", &PatchParams::default(), &hold(Value::Null)).await?;
    Ok(())
}
