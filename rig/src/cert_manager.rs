//! cert-manager beside a control plane: its real definitions and controllers.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::wait::{await_condition, conditions};

use crate::build::{self, go};
use crate::cache::Cache;
use crate::components;
use crate::control_plane::ControlPlane;

/// cert-manager as it lies in the cache.
pub struct CertManager {
    directory: PathBuf,
}

impl CertManager {
    /// Finds it, built before if need be: that takes minutes, and blocks.
    pub fn find_or_build() -> Result<Self> {
        Ok(Self { directory: build::go_program(&Cache::open()?, &go::CERT_MANAGER)? })
    }

    /// Has `plane` serve cert-manager's kinds, and starts its controllers, which end with `plane`.
    ///
    /// There is neither cert-manager's webhook nor its CA injector.
    pub async fn start(&self, plane: &ControlPlane) -> Result<()> {
        let api: Api<CustomResourceDefinition> = Api::all(plane.client().await?);
        let definitions = definitions(&self.directory.join("crds"))?;
        for (name, definition) in &definitions {
            api.patch(name, &PatchParams::apply("rig").force(), &Patch::Apply(definition))
                .await
                .with_context(|| format!("cannot make the definition {name}"))?;
        }
        for (name, _) in &definitions {
            await_condition(api.clone(), name, conditions::is_crd_established()).await?;
        }
        let kubeconfig = plane.kubeconfig().display().to_string();
        plane.spawn(components::cert_manager(&self.directory.display().to_string(), &kubeconfig))
    }
}

/// The definitions of a folder with their names, sorted. Those of ACME are left out: no controller that we start looks at them.
fn definitions(folder: &Path) -> Result<Vec<(String, CustomResourceDefinition)>> {
    let mut found = Vec::new();
    for item in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = item?.path();
        if path.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        let text = fs::read_to_string(&path)?;
        let definition: CustomResourceDefinition =
            serde_saphyr::from_str(&text).with_context(|| format!("cannot read {}", path.display()))?;
        if definition.spec.group == "cert-manager.io" {
            let name = definition.metadata.name.clone().context("a definition without a name")?;
            found.push((name, definition));
        }
    }
    found.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(found)
}
