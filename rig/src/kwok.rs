//! kwok beside a control plane: nodes that exist only in the API, and pods on them that are ready as soon as they are bound.

use std::path::PathBuf;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, PostParams};
use serde_json::json;

use crate::build::{self, go};
use crate::cache::Cache;
use crate::components;
use crate::control_plane::ControlPlane;

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
        plane.spawn(components::kwok(&self.directory.display().to_string(), &kubeconfig))?;
        let api: Api<Node> = Api::all(plane.client().await?);
        let names: Vec<String> = (0..nodes).map(|number| format!("kwok-{number}")).collect();
        for name in &names {
            let node =
                json!({ "metadata": { "name": name, "annotations": { "kwok.x-k8s.io/node": "fake" } } });
            api.create(&PostParams::default(), &serde_json::from_value(node)?)
                .await
                .with_context(|| format!("cannot make the node {name}"))?;
        }
        Ok(names)
    }
}
