//! kwok beside a control plane: nodes that exist only in the API, and pods on them that are ready as soon as they are bound.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, PostParams};
use kube::runtime::wait::await_condition;
use serde_json::json;
use tokio::time::timeout;

use crate::build::{self, go};
use crate::cache::Cache;
use crate::components;
use crate::control_plane::ControlPlane;

/// What it makes of nodes and pods; it has no stages by itself.
const STAGES: &str = include_str!("../kwok/stages.yaml");

const PATIENCE: Duration = Duration::from_secs(60);

/// kwok as it lies in the cache.
pub struct Kwok {
    directory: PathBuf,
}

impl Kwok {
    /// Finds it, built before if need be: that takes minutes, and blocks.
    pub fn find_or_build() -> Result<Self> {
        Ok(Self { directory: build::go_program(&Cache::open()?, &go::KWOK)? })
    }

    /// Makes so many nodes, and starts kwok, which ends with `plane`. Returns the names of the nodes.
    ///
    /// A pod that is bound to one of them runs and is ready at once; one that is deleted is gone at once. There is no scheduler.
    pub async fn start(&self, plane: &ControlPlane, nodes: usize) -> Result<Vec<String>> {
        let kubeconfig = plane.kubeconfig().display().to_string();
        let stages = plane.kubeconfig().with_file_name("kwok-stages.yaml");
        fs::write(&stages, STAGES)?;
        let stages = stages.display().to_string();
        plane.spawn(components::kwok(&self.directory.display().to_string(), &kubeconfig, &stages))?;
        let api: Api<Node> = Api::all(plane.client().await?);
        let names: Vec<String> = (0..nodes).map(|number| format!("kwok-{number}")).collect();
        for name in &names {
            let node =
                json!({ "metadata": { "name": name, "annotations": { "kwok.x-k8s.io/node": "fake" } } });
            api.create(&PostParams::default(), &serde_json::from_value(node)?)
                .await
                .with_context(|| format!("cannot make the node {name}"))?;
        }
        for name in &names {
            let ready = await_condition(api.clone(), name, |node: Option<&Node>| node.is_some_and(is_ready));
            timeout(PATIENCE, ready).await.with_context(|| {
                format!("{name} is not ready after {} s: see kwok.log", PATIENCE.as_secs())
            })??;
        }
        Ok(names)
    }
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
