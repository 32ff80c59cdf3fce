//! `ControlPlane`: a real API server for tests of API behaviour, without nodes and without root.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use rig::{ControlPlane, ControlPlaneOptions};
use serde_json::json;

fn config_map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"key": "value"}})).unwrap()
}

#[tokio::test]
async fn tests_share_one_control_plane_and_have_a_namespace_each() -> Result<()> {
    let plane = ControlPlane::shared().await?;
    let (one, two) = (plane.namespace("same").await?, plane.namespace("same").await?);
    assert_ne!(one.name(), two.name());
    for namespace in [&one, &two] {
        namespace.api::<ConfigMap>().create(&PostParams::default(), &config_map("same")).await?;
    }
    assert_eq!(one.api::<ConfigMap>().list(&ListParams::default()).await?.items.len(), 1);
    Ok(())
}

#[tokio::test]
async fn pods_can_be_made_although_nothing_runs_them() -> Result<()> {
    let namespace = ControlPlane::shared().await?.namespace("pods").await?;
    let pod = serde_json::from_value(json!({
        "metadata": {"name": "one"},
        "spec": {"containers": [{"name": "main", "image": "none"}]},
    }))?;
    let made = namespace.api::<Pod>().create(&PostParams::default(), &pod).await?;
    assert_eq!(made.spec.and_then(|spec| spec.service_account_name).as_deref(), Some("default"));
    Ok(())
}

#[tokio::test]
async fn the_controller_manager_collects_what_lost_its_owner() -> Result<()> {
    let namespace = ControlPlane::shared().await?.namespace("garbage").await?;
    let maps: Api<ConfigMap> = namespace.api();
    let owner = maps.create(&PostParams::default(), &config_map("owner")).await?;
    let mut owned = config_map("owned");
    owned.metadata.owner_references = Some(vec![serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.metadata.uid,
    }))?]);
    maps.create(&PostParams::default(), &owned).await?;
    maps.delete("owner", &DeleteParams::default()).await?;
    for _ in 0..300 {
        if maps.get_opt("owned").await?.is_none() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    anyhow::bail!("the owned object is still there after 30 s")
}

#[tokio::test]
async fn the_audit_log_counts_calls() -> Result<()> {
    let plane = ControlPlane::start_with(ControlPlaneOptions { audit: true }).await?;
    let namespace = plane.namespace("audited").await?;
    namespace.api::<ConfigMap>().create(&PostParams::default(), &config_map("one")).await?;
    namespace.api::<ConfigMap>().get_opt("absent").await?;
    let log = plane.audit_log().unwrap();
    for _ in 0..100 {
        let calls = log.calls()?;
        let ours = |verb: &str, name: &str, code: u16| {
            calls
                .iter()
                .filter(|call| {
                    call.verb == verb
                        && call.response_status.as_ref().is_some_and(|status| status.code == code)
                })
                .filter_map(|call| call.object_ref.as_ref())
                .filter(|object| {
                    object.resource == "configmaps"
                        && object.namespace == namespace.name()
                        && object.name == name
                })
                .count()
        };
        if ours("create", "one", 201) == 1 && ours("get", "absent", 404) == 1 {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    anyhow::bail!("the audit log lacks a call: {:?}", log.calls()?)
}

#[tokio::test]
async fn a_control_plane_leaves_no_process_and_no_directory() -> Result<()> {
    let plane = ControlPlane::start().await?;
    let kubeconfig = plane.kubeconfig();
    let dir = kubeconfig.parent().unwrap().to_path_buf();
    let marker = dir.display().to_string();
    assert!(processes_naming(&marker) >= 2, "etcd and kube-apiserver");
    drop(plane);
    assert_eq!(processes_naming(&marker), 0);
    assert!(!dir.exists());
    Ok(())
}

fn processes_naming(text: &str) -> usize {
    let commands = std::fs::read_dir("/proc").unwrap().flatten();
    commands
        .filter_map(|item| std::fs::read(item.path().join("cmdline")).ok())
        .filter(|command| String::from_utf8_lossy(command).contains(text))
        .count()
}
