//! Kinds come and go on a real API server while a process runs.

use std::time::Duration;

use anyhow::{Context as _, Result};
use engine::client;
use engine::optional_kinds::{OptionalKind, OptionalKinds, Overrides};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use rig::ControlPlane;
use tokio_util::sync::CancellationToken;

/// "Within seconds".
const PATIENCE: Duration = Duration::from_secs(10);

/// A client as controllers have it.
pub async fn engine_client(options: client::Options) -> Result<Client> {
    let kubeconfig = Kubeconfig::read_from(ControlPlane::shared().await?.kubeconfig())?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(client::connect(config, options)?)
}

fn crd(kind: OptionalKind, version: &str) -> Result<CustomResourceDefinition> {
    Ok(serde_json::from_value(serde_json::json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": kind.crd() },
        "spec": {
            "group": kind.group(),
            "names": { "kind": kind.kind(), "plural": kind.plural() },
            "scope": "Namespaced",
            "versions": [{
                "name": version,
                "served": true,
                "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
            }],
        },
    }))?)
}

async fn wait_for(kinds: &OptionalKinds, kind: OptionalKind, served: bool) -> Result<()> {
    let mut watch = kinds.watch(kind);
    let became = tokio::time::timeout(PATIENCE, watch.wait_for(|now| *now == served)).await;
    became.with_context(|| format!("{kind:?} did not become served={served} in time"))??;
    assert_eq!(kinds.is_served(kind), served);
    Ok(())
}

#[tokio::test]
async fn a_kind_is_served_from_its_crds_creation_to_its_deletion_unless_the_user_says_otherwise() -> Result<()>
{
    let client = engine_client(client::Options::default()).await?;
    let stop = CancellationToken::new();
    let _stop = stop.clone().drop_guard();
    let kinds = OptionalKinds::start(&client, Overrides::default(), &stop);
    let told = Overrides { prometheus: Some(false), mariadb: Some(true), apparmor: None };
    let overridden = OptionalKinds::start(&client, told, &stop);
    assert!(overridden.is_served(OptionalKind::Grant), "what the user says holds at once");
    for kinds in [&kinds, &overridden] {
        tokio::time::timeout(PATIENCE, kinds.ready()).await?;
    }
    assert!(
        OptionalKind::ALL.into_iter().all(|kind| !kinds.is_served(kind)),
        "a bare API server serves none"
    );

    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    for kind in [OptionalKind::PodMonitor, OptionalKind::AppArmorProfile] {
        crds.create(&PostParams::default(), &crd(kind, kind.version())?).await?;
        wait_for(&kinds, kind, true).await?;
    }
    assert!(!kinds.is_served(OptionalKind::ServiceMonitor), "each kind by itself");
    wait_for(&overridden, OptionalKind::AppArmorProfile, true).await?;
    assert!(!overridden.is_served(OptionalKind::PodMonitor), "the user's word wins");
    assert!(overridden.is_served(OptionalKind::MariaDb), "the user's word wins");

    // A process that starts now sees it without any change.
    let late = OptionalKinds::start(&client, Overrides::default(), &stop);
    tokio::time::timeout(PATIENCE, late.ready()).await?;
    assert!(late.is_served(OptionalKind::PodMonitor));

    for kind in [OptionalKind::PodMonitor, OptionalKind::AppArmorProfile] {
        crds.delete(&kind.crd(), &DeleteParams::default()).await?;
        wait_for(&kinds, kind, false).await?;
    }

    // Only the version that we write counts.
    crds.create(&PostParams::default(), &crd(OptionalKind::Certificate, "v1alpha2")?).await?;
    crds.create(&PostParams::default(), &crd(OptionalKind::Grant, "v1alpha1")?).await?;
    wait_for(&kinds, OptionalKind::Grant, true).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!kinds.is_served(OptionalKind::Certificate));
    for kind in [OptionalKind::Certificate, OptionalKind::Grant] {
        crds.delete(&kind.crd(), &DeleteParams::default()).await?;
    }
    Ok(())
}
