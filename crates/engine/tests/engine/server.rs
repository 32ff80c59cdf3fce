//! A real API server that knows the sample kind.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use engine::client::{self, Interceptor};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Client, Config, CustomResourceExt as _};
use rig::{ControlPlane, ControlPlaneOptions};
use tokio::sync::OnceCell;

use crate::sample::Widget;

/// The API server of all tests of this program. It writes an audit log, and has a controller manager.
pub async fn server() -> Result<&'static ControlPlane> {
    static SERVER: OnceCell<ControlPlane> = OnceCell::const_new();
    SERVER
        .get_or_try_init(|| async {
            let plane = ControlPlane::start_with(ControlPlaneOptions { audit: true })
                .await?
                .with_controller_manager()?;
            install(&plane, &Widget::crd()).await?;
            Ok(plane)
        })
        .await
}

/// Teaches an API server the sample kind.
pub async fn install(plane: &ControlPlane, crd: &CustomResourceDefinition) -> Result<()> {
    let crds: Api<CustomResourceDefinition> = Api::all(plane.client().await?);
    crds.create(&PostParams::default(), crd).await?;
    let name = crd.metadata.name.as_deref().context("a CRD has a name")?;
    await_condition(crds, name, conditions::is_crd_established()).await?;
    Ok(())
}

/// The way to the API server.
pub async fn config() -> Result<Config> {
    config_of(server().await?).await
}

/// The way to an API server.
pub async fn config_of(plane: &ControlPlane) -> Result<Config> {
    let kubeconfig = Kubeconfig::read_from(plane.kubeconfig())?;
    Ok(Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?)
}

/// A client as controllers have it, with faults if there are any.
pub fn client(config: Config, interceptor: Option<Arc<dyn Interceptor>>) -> Result<Client> {
    let options = client::Options { interceptor, ..client::Options::default() };
    Ok(client::connect(config, options)?)
}
