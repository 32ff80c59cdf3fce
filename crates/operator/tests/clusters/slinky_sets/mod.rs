//! Sets of workers of `slinky.slurm.net`.

mod adoption;
mod bad_input;
mod basics;
mod claims;
mod cordon;
mod end;
mod kubelet;
mod sweep;
mod take_over;
mod updates;
mod with_slurm;

use anyhow::{Context as _, Result};
use api::slinky::{Cluster, NodeSet};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Pod, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::place::Place;

/// A port of this machine where nobody listens.
pub const NOBODY: &str = "http://127.0.0.1:9";

/// The manifest of a set of `w-0`, `w-1`, ...; `change` replaces fields of its spec.
pub fn manifest(change: &Value) -> Value {
    let mut set = json!({
        "apiVersion": "slinky.slurm.net/v1alpha1",
        "kind": "NodeSet",
        "metadata": { "name": "w" },
        "spec": {
            "clusterName": "slurm",
            "serviceName": "workers",
            "replicas": 2,
            "selector": { "matchLabels": { "app": "slurmd" } },
            "template": template("slurmd:1"),
        },
    });
    for (key, value) in change.as_object().into_iter().flatten() {
        set["spec"][key] = value.clone();
    }
    set
}

/// Without a token of its own: its volume would have a name that is drawn.
pub fn template(image: &str) -> Value {
    json!({
        "metadata": { "labels": { "app": "slurmd" } },
        "spec": { "automountServiceAccountToken": false, "containers": [{ "name": "slurmd", "image": image }] },
    })
}

/// What tests do with sets.
pub struct Sets<'a>(pub &'a Place);

impl Sets<'_> {
    pub fn api(&self) -> Api<NodeSet> {
        self.0.api()
    }

    pub fn pods(&self) -> Api<Pod> {
        self.0.api()
    }

    /// Makes the Cluster `slurm` at this address, with this token.
    pub async fn make_cluster(&self, server: &str, token: &str) -> Result<()> {
        self.make_token(token).await?;
        let cluster = json!({
            "apiVersion": "slinky.slurm.net/v1alpha1",
            "kind": "Cluster",
            "metadata": { "name": "slurm" },
            "spec": { "server": server, "token": { "secretRef": "slurm-token" } },
        });
        self.0.api::<Cluster>().create(&PostParams::default(), &serde_json::from_value(cluster)?).await?;
        Ok(())
    }

    pub async fn make_token(&self, token: &str) -> Result<()> {
        let secret = Secret {
            metadata: serde_json::from_value(json!({ "name": "slurm-token" }))?,
            data: Some([("auth-token".to_owned(), ByteString(token.as_bytes().to_vec()))].into()),
            ..Secret::default()
        };
        self.0.api::<Secret>().create(&PostParams::default(), &secret).await?;
        Ok(())
    }

    pub async fn make(&self, change: &Value) -> Result<NodeSet> {
        let set = serde_json::from_value(manifest(change))?;
        Ok(self.api().create(&PostParams::default(), &set).await?)
    }

    /// Changes the spec by a merge patch.
    pub async fn change(&self, spec: Value) -> Result<()> {
        let patch = json!({ "spec": spec });
        self.api().patch("w", &PatchParams::default(), &Patch::Merge(&patch)).await?;
        Ok(())
    }

    pub async fn until_pod(&self, name: &str) -> Result<Pod> {
        self.0.until(&format!("{name} is made"), async || Ok(self.pods().get_opt(name).await?)).await
    }

    pub async fn until_gone(&self, name: &str) -> Result<()> {
        let gone = async || Ok(self.pods().get_opt(name).await?.is_none().then_some(()));
        self.0.until(&format!("{name} is gone"), gone).await
    }

    pub async fn condition(&self, type_: &str) -> Result<Option<Condition>> {
        let status = self.api().get("w").await?.status.unwrap_or_default();
        Ok(status.conditions.into_iter().flatten().find(|condition| condition.type_ == type_))
    }

    /// Waits until a condition has this status and reason, and a message with this in it.
    pub async fn until_told(&self, type_: &str, status: &str, reason: &str, part: &str) -> Result<Condition> {
        let told = async || {
            let condition = self.condition(type_).await?;
            Ok(condition.filter(|it| it.status == status && it.reason == reason && it.message.contains(part)))
        };
        match self.0.until(&format!("{type_} is {status}: {reason}, {part:?}"), told).await {
            Err(error) => Err(error).context(format!("{:?}", self.api().get("w").await?.status)),
            told => told,
        }
    }

    /// Waits until the status is about the newest spec and passes a check.
    pub async fn until_status(
        &self,
        what: &str,
        check: impl Fn(&api::slinky::NodeSetStatus) -> bool,
    ) -> Result<()> {
        let found = async || {
            let set = self.api().get("w").await?;
            let status = set.status.unwrap_or_default();
            let current = status.observed_generation == set.metadata.generation;
            Ok((current && check(&status)).then_some(()))
        };
        match self.0.until(what, found).await {
            Err(error) => Err(error).context(format!("{:?}", self.api().get("w").await?.status)),
            found => found,
        }
    }
}
