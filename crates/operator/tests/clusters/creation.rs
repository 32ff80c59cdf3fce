//! From one manifest to all objects, and what happens to them afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use api::nebius::{JailedConfig, SlurmCluster};
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service};
use kube::ResourceExt as _;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::json;

use crate::place::Place;

async fn names<K>(place: &Place) -> Result<BTreeSet<String>>
where
    K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned,
{
    Ok(place.api::<K>().list(&ListParams::default()).await?.iter().map(|object| object.name_any()).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn one_manifest_becomes_every_object_with_one_write_each_and_then_there_is_rest() -> Result<()> {
    let place = Place::new("creation").await?;
    place.make("a", |_| {}).await?;
    place.until_quiet().await?;

    assert_eq!(names::<StatefulSet>(&place).await?, set(&["a-acct-db", "a-controller", "a-login"]));
    assert_eq!(names::<Deployment>(&place).await?, set(&["a-accounting", "a-rest", "a-sconfigcontroller"]));
    assert_eq!(names::<Job>(&place).await?, set(&["a-populate-jail"]));
    assert_eq!(names::<JailedConfig>(&place).await?, set(&["a-slurm-configs"]));
    let secrets = names::<Secret>(&place).await?;
    for name in [
        "a-mariadb-password",
        "a-mariadb-root",
        "a-munge",
        "a-rest-jwt-key",
        "a-sshd-keys",
        "a-slurmdbd-configs",
    ] {
        assert!(secrets.contains(name), "{name} is not among {secrets:?}");
    }
    let services = names::<Service>(&place).await?;
    for name in [
        "a-accounting-svc",
        "a-controller-svc",
        "a-login-svc",
        "a-rest-internal",
        "a-rest-svc",
        "a-worker-svc",
    ] {
        assert!(services.contains(name), "{name} is not among {services:?}");
    }
    assert!(names::<ConfigMap>(&place).await?.contains("a-slurm-configs"));
    let pods = names::<Pod>(&place).await?;
    assert!(pods.contains("a-worker-0") && pods.contains("a-worker-1"), "{pods:?}");

    // One write for each object, and no status twice.
    let mut written: BTreeMap<String, u32> = BTreeMap::new();
    let mut statuses = BTreeMap::new();
    for write in place.writes() {
        if write.call.subresource.is_some() {
            let seen: &mut BTreeSet<String> = statuses.entry(write.call.resource.clone()).or_default();
            assert!(
                seen.insert(write.body["status"].to_string()),
                "a status was written twice: {}",
                write.body
            );
        } else {
            *written
                .entry(format!("{} {}", write.call.resource, write.body["metadata"]["name"]))
                .or_default() += 1;
        }
    }
    let again: Vec<_> =
        written.iter().filter(|(name, count)| **count > 1 && !name.starts_with("pods ")).collect();
    assert!(again.is_empty(), "written more than once: {again:?}");

    let before = place.writes().len();
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(place.writes().len(), before, "steady state makes no write");

    let status = place.cluster_status("a").await?;
    assert_eq!(status.phase.as_deref(), Some("Pending"));
    let (_, message) = place.condition("a", "ControllersAvailable").await?.context("a condition")?;
    assert!(message.contains("waiting for PVC jail-pvc: it does not exist"), "{message}");
    assert_eq!(status.observed_generation, Some(1));
    Ok(())
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(ToString::to_string).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_changes_or_deletes_comes_back() -> Result<()> {
    let place = Place::new("drift").await?;
    place.make("a", |_| {}).await?;
    place.until_quiet().await?;
    let maps = place.api::<ConfigMap>();
    let text = |map: ConfigMap| map.data.and_then(|mut data| data.remove("slurm.conf"));
    let original = text(maps.get("a-slurm-configs").await?);
    assert!(original.as_deref().is_some_and(|text| text.contains("ClusterName=a")), "{original:?}");
    let change = json!({ "data": { "slurm.conf": "ClusterName=mine" } });
    maps.patch("a-slurm-configs", &PatchParams::default(), &Patch::Merge(&change)).await?;
    place
        .until("the text is ours again", async || {
            Ok((text(maps.get("a-slurm-configs").await?) == original).then_some(()))
        })
        .await?;
    let munge = place.api::<Secret>().get("a-munge").await?.data;
    for name in ["a-login-svc", "a-controller-svc"] {
        place.api::<Service>().delete(name, &DeleteParams::default()).await?;
        place.until("the Service is back", async || Ok(place.api::<Service>().get_opt(name).await?)).await?;
    }
    place.until_quiet().await?;
    assert_eq!(place.api::<Secret>().get("a-munge").await?.data, munge, "keys are made once");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn two_clusters_live_in_one_namespace_and_one_can_go() -> Result<()> {
    let place = Place::new("two").await?;
    place.make("a", |_| {}).await?;
    place.make("b", |_| {}).await?;
    // On a busy machine the host keys of the second may take longer than any rest.
    place
        .until("both have their pods", async || {
            let (sets, pods) = (names::<StatefulSet>(&place).await?, names::<Pod>(&place).await?);
            let has = |name: &str| {
                sets.contains(&format!("{name}-controller")) && pods.contains(&format!("{name}-worker-0"))
            };
            Ok((has("a") && has("b")).then_some(()))
        })
        .await?;
    let key = |name: &'static str| {
        let secrets = place.api::<Secret>();
        async move { anyhow::Ok(secrets.get(name).await?.data) }
    };
    assert_ne!(key("a-munge").await?, key("b-munge").await?);
    place.api::<SlurmCluster>().delete("a", &DeleteParams::background()).await?;
    place
        .until("all of a is gone", async || {
            let left: Vec<String> = names::<StatefulSet>(&place)
                .await?
                .into_iter()
                .chain(names::<Secret>(&place).await?)
                .chain(names::<Service>(&place).await?)
                .chain(names::<Pod>(&place).await?)
                .filter(|name| name.starts_with("a-"))
                .collect();
            Ok(left.is_empty().then_some(()))
        })
        .await?;
    assert!(names::<StatefulSet>(&place).await?.contains("b-controller"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_that_is_turned_off_goes_and_its_secrets_stay() -> Result<()> {
    let place = Place::new("off").await?;
    place.make("a", |_| {}).await?;
    place.until_quiet().await?;
    place.change("a", json!({ "spec": { "slurmNodes": { "accounting": { "enabled": false } } } })).await?;
    place
        .until("slurmdbd and its database are gone", async || {
            let gone = !names::<Deployment>(&place).await?.contains("a-accounting")
                && !names::<StatefulSet>(&place).await?.contains("a-acct-db");
            Ok(gone.then_some(()))
        })
        .await?;
    assert!(names::<Secret>(&place).await?.contains("a-mariadb-password"));
    assert!(names::<StatefulSet>(&place).await?.contains("a-controller"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_rotates_once_when_somebody_asks_and_a_brought_one_never() -> Result<()> {
    let place = Place::new("rotation").await?;
    let brought: Secret = serde_json::from_value(json!({
        "metadata": { "name": "a-rest-jwt-key", "annotations": { "slurm.nebius.ai/rotate": "2026-11-16" } },
        "data": { "rest_jwt.key": "QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE=" },
    }))?;
    place.api::<Secret>().create(&Default::default(), &brought).await?;
    place.make("a", |_| {}).await?;
    place.until_quiet().await?;
    let secrets = place.api::<Secret>();
    let first = secrets.get("a-munge").await?.data;
    let ask = json!({ "metadata": { "annotations": { "slurm.nebius.ai/rotate": "2026-11-16" } } });
    secrets.patch("a-munge", &PatchParams::default(), &Patch::Merge(&ask)).await?;
    place
        .until("there is a new key", async || {
            let now = secrets.get("a-munge").await?;
            let told = now.annotations().get("slurm.nebius.ai/rotated").is_some();
            Ok((now.data != first && told).then_some(()))
        })
        .await?;
    let second = secrets.get("a-munge").await?.data;
    assert_eq!(second.as_ref().and_then(|data| data.get("munge.key")).map(|key| key.0.len()), Some(1024));
    place.until_quiet().await?;
    assert_eq!(secrets.get("a-munge").await?.data, second, "once");
    assert_eq!(secrets.get("a-rest-jwt-key").await?.data, brought.data);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_password_of_the_database_is_the_one_in_slurmdbd_conf_also_after_a_rotation() -> Result<()> {
    let place = Place::new("password").await?;
    place.make("a", |_| {}).await?;
    place.until_quiet().await?;
    let secrets = place.api::<Secret>();
    let text = async |name: &str, key: &str| -> Result<String> {
        let data = secrets.get(name).await?.data.unwrap_or_default();
        let Some(bytes) = data.get(key) else { bail!("{name} has no key {key}") };
        Ok(String::from_utf8(bytes.0.clone())?)
    };
    let agree = async || -> Result<Option<String>> {
        let password = text("a-mariadb-password", "password").await?;
        let conf = text("a-slurmdbd-configs", "slurmdbd.conf").await?;
        Ok(conf.contains(&format!("StoragePass={password}")).then_some(password))
    };
    let first = agree().await?.context("slurmdbd.conf has the password")?;
    let ask = json!({ "metadata": { "annotations": { "slurm.nebius.ai/rotate": "now" } } });
    secrets.patch("a-mariadb-password", &PatchParams::default(), &Patch::Merge(&ask)).await?;
    place
        .until("slurmdbd.conf has the new password", async || {
            Ok(agree().await?.filter(|password| *password != first))
        })
        .await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn maintenance_stops_all_parts_and_starts_them_again() -> Result<()> {
    let place = Place::new("maintenance").await?;
    place.make("a", |_| {}).await?;
    place.until_quiet().await?;
    let replicas = async |name: &str| -> Result<Option<i32>> {
        let found = place.api::<StatefulSet>().get_opt(name).await?;
        Ok(found.and_then(|set| set.spec).and_then(|spec| spec.replicas))
    };
    place.change("a", json!({ "spec": { "maintenance": "downscale" } })).await?;
    place
        .until("everything is stopped", async || {
            let stopped = replicas("a-controller").await? == Some(0) && replicas("a-login").await? == Some(0);
            // What fills the jail is no part of what is stopped.
            let is_stopped = |pod: &String| pod.starts_with("a-populate-jail-");
            Ok((stopped && names::<Pod>(&place).await?.iter().all(is_stopped)).then_some(()))
        })
        .await?;
    let (status, _) = place.condition("a", "ControllersAvailable").await?.context("a condition")?;
    assert_eq!(status, "False");
    place.change("a", json!({ "spec": { "maintenance": "none" } })).await?;
    place
        .until("slurmctld is wanted again", async || {
            Ok((replicas("a-controller").await? == Some(1)).then_some(()))
        })
        .await?;
    // Login pods wait for slurmctld, which nobody runs here.
    place.until_quiet().await?;
    assert_eq!(replicas("a-login").await?, Some(0));
    Ok(())
}
