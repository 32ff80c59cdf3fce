//! Files of JailedConfigs below /etc/slurm are part of Slurm's configuration.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use api::nebius::{JAILED_FILES_FINALIZER, JailedConfig, SlurmCluster};
use k8s_openapi::api::core::v1::{ConfigMap, Event};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use operator::slurm_links::SlurmLinks;
use serde_json::{Value, json};

use crate::place::Place;

async fn map(place: &Place, name: &str, data: Value) -> Result<()> {
    let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": data });
    place.api::<ConfigMap>().patch(name, &PatchParams::apply("test").force(), &Patch::Apply(&map)).await?;
    Ok(())
}

async fn jailed(place: &Place, name: &str, path: &str) -> Result<()> {
    make(place, json!({ "name": name }), path).await
}

/// One that names its cluster.
async fn named(place: &Place, name: &str, path: &str, cluster: &str) -> Result<()> {
    let annotations = json!({ "slurm.nebius.ai/parental-cluster-ref": cluster });
    make(place, json!({ "name": name, "annotations": annotations }), path).await
}

async fn make(place: &Place, metadata: Value, path: &str) -> Result<()> {
    let config = json!({
        "apiVersion": "slurm.nebius.ai/v1alpha1", "kind": "JailedConfig", "metadata": metadata,
        "spec": { "configMap": { "name": metadata["name"] }, "items": [{ "key": "k", "path": path }] },
    });
    place.api::<JailedConfig>().create(&PostParams::default(), &serde_json::from_value(config)?).await?;
    Ok(())
}

async fn configs(place: &Place) -> Result<BTreeMap<String, String>> {
    let map = place.api::<ConfigMap>().get_opt("a-slurm-configs").await?;
    Ok(map.and_then(|map| map.data).unwrap_or_default())
}

/// The files of a cluster, if it has any.
async fn files_of(place: &Place, cluster: &str) -> Result<Option<BTreeMap<String, String>>> {
    let map = place.api::<ConfigMap>().get_opt(&format!("{cluster}-slurm-configs")).await?;
    Ok(map.and_then(|map| map.data))
}

async fn until_config(place: &Place, key: &str, text: Option<&str>) -> Result<()> {
    place
        .until(&format!("{key} is {text:?}"), async || {
            Ok((configs(place).await?.get(key).map(String::as_str) == text).then_some(()))
        })
        .await
}

/// How often the effective set was written.
fn writes(place: &Place) -> usize {
    let of_it = |write: &engine::testing::Write| {
        write.call.resource == "configmaps" && write.body["metadata"]["name"] == "a-slurm-configs"
    };
    place.writes().iter().filter(|write| of_it(write)).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn files_below_etc_slurm_join_the_configuration_and_leave_it() -> Result<()> {
    let place = Place::new("jailed").await?;
    place.make("a", |_| {}).await?;
    map(&place, "more", json!({ "k": "X=1" })).await?;
    jailed(&place, "more", "/etc/slurm/conf.d/x.conf").await?;
    map(&place, "other", json!({ "k": "hello" })).await?;
    jailed(&place, "other", "/etc/motd").await?;
    map(&place, "bold", json!({ "k": "SlurmUser=nobody" })).await?;
    jailed(&place, "bold", "/etc/slurm/slurm.conf").await?;
    until_config(&place, "conf.d..x.conf", Some("X=1")).await?;
    place.until_quiet().await?;
    let files = configs(&place).await?;
    assert!(files["slurm.conf"].starts_with("ClusterName=a\n"), "{}", files["slurm.conf"]);
    assert!(!files.values().any(|text| text == "hello"), "{files:?}");

    map(&place, "more", json!({ "k": "X=2" })).await?;
    until_config(&place, "conf.d..x.conf", Some("X=2")).await?;
    // Who deletes a ConfigMap by mistake has not asked Slurm for anything.
    place.api::<ConfigMap>().delete("more", &DeleteParams::default()).await?;
    place.until_quiet().await?;
    until_config(&place, "conf.d..x.conf", Some("X=2")).await?;
    place.api::<JailedConfig>().delete("more", &DeleteParams::default()).await?;
    until_config(&place, "conf.d..x.conf", None).await?;
    Ok(())
}

/// How often the set may be written for changes that began then: once, unless a busy machine lets a second pass between two of them.
fn most(start: Instant) -> usize {
    2 + usize::try_from(start.elapsed().as_secs()).unwrap_or(usize::MAX - 2)
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_changes_are_one_new_configuration() -> Result<()> {
    let place = Place::new("jailed-many").await?;
    place.make("a", |_| {}).await?;
    place
        .until("the set is there", async || {
            Ok(configs(&place).await?.contains_key("slurm.conf").then_some(()))
        })
        .await?;
    place.until_quiet().await?;
    let (before, start) = (writes(&place), Instant::now());
    for number in 0..20 {
        let name = format!("m{number}");
        map(&place, &name, json!({ "k": "1" })).await?;
        jailed(&place, &name, &format!("/etc/slurm/{name}.conf")).await?;
    }
    let most = most(start);
    until_config(&place, "m19.conf", Some("1")).await?;
    place.until_quiet().await?;
    assert_eq!(
        configs(&place).await?.keys().filter(|key| key.starts_with('m') && *key != "mpi.conf").count(),
        20
    );
    assert!(writes(&place) - before <= most, "{} writes of the set", writes(&place) - before);
    let (between, start) = (writes(&place), Instant::now());
    for number in 0..20 {
        map(&place, &format!("m{number}"), json!({ "k": "2" })).await?;
    }
    let most = self::most(start);
    until_config(&place, "m19.conf", Some("2")).await?;
    place.until_quiet().await?;
    assert!(configs(&place).await?.iter().all(|(key, text)| !key.starts_with("m1") || text == "2"));
    assert!(writes(&place) - between <= most, "{} writes of the set", writes(&place) - between);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_jailed_config_whose_cluster_is_gone_may_go() -> Result<()> {
    let place = Place::new("jailed-ending").await?;
    let held = json!({ "metadata": { "finalizers": [JAILED_FILES_FINALIZER] } });
    map(&place, "alone", json!({ "k": "1" })).await?;
    jailed(&place, "alone", "/etc/motd").await?;
    let configs = place.api::<JailedConfig>();
    configs.patch("alone", &PatchParams::default(), &Patch::Merge(&held)).await?;
    configs.delete("alone", &DeleteParams::default()).await?;
    place
        .until("one without a cluster is gone", async || {
            Ok(configs.get_opt("alone").await?.is_none().then_some(()))
        })
        .await?;

    place.make("a", |_| {}).await?;
    place.until_quiet().await?;
    jailed(&place, "alone", "/etc/motd").await?;
    configs.patch("alone", &PatchParams::default(), &Patch::Merge(&held)).await?;
    configs.delete("alone", &DeleteParams::default()).await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let kept = configs.get_opt("alone").await?.context("its files are not out of the jail yet")?;
    assert!(kept.metadata.deletion_timestamp.is_some());
    place.api::<SlurmCluster>().delete("a", &DeleteParams::background()).await?;
    place
        .until("it goes with its cluster", async || {
            Ok(configs.get_opt("alone").await?.is_none().then_some(()))
        })
        .await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_cluster_takes_no_files_from_the_first() -> Result<()> {
    let mut place = Place::new("jailed-two").await?;
    place.make("a", |_| {}).await?;
    map(&place, "more", json!({ "k": "X=1" })).await?;
    jailed(&place, "more", "/etc/slurm/x.conf").await?;
    until_config(&place, "x.conf", Some("X=1")).await?;

    place.make("b", |_| {}).await?;
    place.until("the second has files", async || files_of(&place, "b").await).await?;
    // Something else changes, so that the first looks at all of its files.
    map(&place, "other", json!({ "k": "1" })).await?;
    named(&place, "other", "/etc/slurm/other.conf", "a").await?;
    until_config(&place, "other.conf", Some("1")).await?;
    place.until_quiet().await?;
    until_config(&place, "x.conf", Some("X=1")).await?;
    // An operator that was started anew finds them where they are.
    place.restart(SlurmLinks::default()).await?;
    map(&place, "other", json!({ "k": "2" })).await?;
    until_config(&place, "other.conf", Some("2")).await?;
    assert_eq!(configs(&place).await?.get("x.conf").map(String::as_str), Some("X=1"));
    let second = files_of(&place, "b").await?.context("the set of the second")?;
    assert!(!second.contains_key("x.conf"), "it never had them");
    let told = place.api::<Event>().list(&ListParams::default()).await?;
    let told = told.iter().any(|event| event.reason.as_deref() == Some("Unclear"));
    assert!(told, "the user is told");

    // Whose files they are in the jail is as unclear: nobody lets it go without them.
    let held = json!({ "metadata": { "finalizers": [JAILED_FILES_FINALIZER] } });
    let configs = place.api::<JailedConfig>();
    configs.patch("more", &PatchParams::default(), &Patch::Merge(&held)).await?;
    configs.delete("more", &DeleteParams::default()).await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let kept = configs.get_opt("more").await?.context("its files are not out of the jail yet")?;
    assert!(kept.metadata.deletion_timestamp.is_some());
    Ok(())
}
