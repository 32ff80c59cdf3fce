//! What users see: files come, change and go with their JailedConfigs.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::time::Duration;

use anyhow::Result;
use api::nebius::JailedConfig;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;

use crate::place::{Place, times};

const FILES_WRITTEN: &str = "FilesWritten";
const COMPLETED: &str = "UpdateActionsCompleted";

#[tokio::test(flavor = "multi_thread")]
async fn files_come_into_the_jail_and_then_nothing_is_written_any_more() -> Result<()> {
    let place = Place::new("files").await?;
    let map: ConfigMap = serde_json::from_value(json!({
        "metadata": { "name": "a" }, "data": { "motd": "hello\n", "run": "#!/bin/sh\n" }, "binaryData": { "blob": "/wA=" },
    }))?;
    place.api::<ConfigMap>().create(&PostParams::default(), &map).await?;
    let items = [("motd", "/etc/motd"), ("run", "/opt/bin/run"), ("blob", "/opt/blob")];
    place
        .make("a", &items, |value| {
            value["spec"]["items"][1]["mode"] = json!(0o755);
            value["spec"]["defaultMode"] = json!(0o600);
        })
        .await?;
    assert!(place.until_told("a", FILES_WRITTEN, "Success").await?.0);
    assert!(place.until_told("a", COMPLETED, "MissingAction").await?.0);
    assert_eq!(place.text("/etc/motd").as_deref(), Some("hello\n"));
    assert_eq!(fs::read(place.at("/opt/blob"))?, [0xff, 0]);
    let mode = |path: &str| fs::metadata(place.at(path)).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode("/opt/bin/run"), mode("/opt/blob"), mode("/etc/motd")), (0o755, 0o600, 0o600));

    place.until_quiet(Duration::from_secs(1)).await?;
    let (writes, inode) = (place.writes().len(), fs::metadata(place.at("/etc/motd"))?.ino());
    tokio::time::sleep(times().look * 3).await;
    assert_eq!(place.writes().len(), writes, "{:#?}", place.writes());
    assert_eq!(fs::metadata(place.at("/etc/motd"))?.ino(), inode, "it was written again");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_replaces_the_file_at_once_and_the_old_one_goes_later() -> Result<()> {
    let place = Place::new("change").await?;
    place.map("a", json!({ "k": "1" })).await?;
    place.make("a", &[("k", "/etc/x")], |_| {}).await?;
    place.until_text("/etc/x", "1").await?;
    let old = fs::metadata(place.at("/etc/x"))?.ino();
    place.map("a", json!({ "k": "2" })).await?;
    place.until_text("/etc/x", "2").await?;
    let names = || -> Vec<(String, u64)> {
        let items = fs::read_dir(place.at("/etc")).unwrap().map(|item| item.unwrap());
        items.map(|item| (item.file_name().into_string().unwrap(), item.metadata().unwrap().ino())).collect()
    };
    assert!(
        names().iter().any(|(name, inode)| name.starts_with(".sconfig-") && *inode == old),
        "{:?}",
        names()
    );
    place.until("the old file is gone", async || Ok((names().len() == 1).then_some(()))).await?;
    assert!(place.until_told("a", FILES_WRITTEN, "Success").await?.0);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_file_of_a_process_before_is_found_and_removed() -> Result<()> {
    let place = Place::idle("leftover").await?;
    fs::write(place.at(".soperator-jail.json"), "{}")?;
    place.map("a", json!({ "k": "1" })).await?;
    place.make("a", &[("k", "/etc/x")], |_| {}).await?;
    let jail = sconfig::jail::Jail::open(&place.at(""))?;
    for text in ["0", "1"] {
        let path = sconfig::jail::JailPath::parse("/etc/x").unwrap();
        jail.write(&[sconfig::jail::Wanted { path, mode: 0o644, content: text.into() }])?;
    }
    assert_eq!(fs::read_dir(place.at("/etc"))?.count(), 2);
    place.start(times()).await?;
    place
        .until("the old file is gone", async || {
            Ok((fs::read_dir(place.at("/etc"))?.count() == 1).then_some(()))
        })
        .await?;
    assert_eq!(place.text("/etc/x").as_deref(), Some("1"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn files_go_with_their_jailed_config_and_with_their_items() -> Result<()> {
    let place = Place::new("going").await?;
    place.map("a", json!({ "k": "1", "l": "2" })).await?;
    place.make("a", &[("k", "/etc/x"), ("l", "/etc/y")], |_| {}).await?;
    place.until_text("/etc/y", "2").await?;
    place.change("a", json!({ "spec": { "items": [{ "key": "k", "path": "/etc/z" }] } })).await?;
    place.until_text("/etc/z", "1").await?;
    place
        .until("the files of old items are gone", async || {
            Ok((place.text("/etc/x").is_none() && place.text("/etc/y").is_none()).then_some(()))
        })
        .await?;
    fs::write(place.at("/etc/of-a-user"), "stays")?;
    place.delete("a").await?;
    place
        .until("it is gone", async || {
            Ok(place.api::<JailedConfig>().get_opt("a").await?.is_none().then_some(()))
        })
        .await?;
    assert_eq!(place.text("/etc/z"), None);
    assert_eq!(place.text("/etc/of-a-user").as_deref(), Some("stays"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_goes_on_without_the_one_whose_config_map_is_missing() -> Result<()> {
    let place = Place::new("group").await?;
    let label = |value: &mut serde_json::Value| {
        value["metadata"]["labels"] = json!({ "slurm.nebius.ai/jailed-aggregation": "common" });
    };
    place.map("a", json!({ "k": "1" })).await?;
    place.map("b", json!({ "k": "1" })).await?;
    for (name, path) in [("a", "/etc/a"), ("b", "/etc/b"), ("late", "/etc/late")] {
        place.make(name, &[("k", path)], label).await?;
    }
    place.until_text("/etc/a", "1").await?;
    place.until_text("/etc/b", "1").await?;
    let (status, message) = place.until_told("late", FILES_WRITTEN, "NotFound").await?;
    assert!(!status && message.contains("ConfigMap late"), "{message}");
    assert!(!place.until_told("late", COMPLETED, "NotWritten").await?.0);
    place.map("late", json!({ "k": "2" })).await?;
    place.until_text("/etc/late", "2").await?;
    assert!(place.until_told("late", FILES_WRITTEN, "Success").await?.0);

    // One that loses its ConfigMap keeps its file.
    place.api::<ConfigMap>().delete("a", &DeleteParams::default()).await?;
    place.until_told("a", FILES_WRITTEN, "NotFound").await?;
    assert_eq!(place.text("/etc/a").as_deref(), Some("1"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_jail_that_is_not_filled_is_left_alone_until_it_is() -> Result<()> {
    let place = Place::idle("unfilled").await?;
    place.start(times()).await?;
    place.map("a", json!({ "k": "1" })).await?;
    place.make("a", &[("k", "/etc/x")], |_| {}).await?;
    let (status, message) = place.until_told("a", FILES_WRITTEN, "Init").await?;
    assert!(!status && message.contains("jail to be filled"), "{message}");
    assert_eq!(fs::read_dir(place.at(""))?.count(), 0, "an empty jail has to stay empty");
    fs::write(place.at(".soperator-jail.json"), "{}")?;
    place.until_text("/etc/x", "1").await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_somebody_in_the_jail_changed_or_removed_comes_back() -> Result<()> {
    let place = Place::new("drift").await?;
    place.map("a", json!({ "k": "1" })).await?;
    place.make("a", &[("k", "/etc/x")], |_| {}).await?;
    place.until_told("a", FILES_WRITTEN, "Success").await?;
    place.until_quiet(Duration::from_secs(1)).await?;
    fs::write(place.at("/etc/x"), "of a user")?;
    place.until_text("/etc/x", "1").await?;
    place.until_told("a", FILES_WRITTEN, "Success").await?;
    place.until_quiet(Duration::from_secs(1)).await?;
    // As when the jail is filled anew.
    fs::remove_dir_all(place.at("/etc"))?;
    place.until_text("/etc/x", "1").await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_cluster_writes_itself_stays_when_its_jailed_config_goes() -> Result<()> {
    let place = Place::new("own").await?;
    place.make_cluster("c").await?;
    let hash = place.operator_takes(&[("slurm.conf", "s")]).await?;
    place.slurmctld(json!({ "inUse": hash })).await?;
    let uid = place.cluster_uid("c").await?;
    let owner =
        json!([{ "apiVersion": "slurm.nebius.ai/v1", "kind": "SlurmCluster", "name": "c", "uid": uid }]);
    place
        .make("c-slurm-configs", &[("slurm.conf", "/etc/slurm/slurm.conf")], |value| {
            value["metadata"]["ownerReferences"] = owner;
        })
        .await?;
    place.until_text("/etc/slurm/slurm.conf", "s").await?;
    place.until_told("c-slurm-configs", FILES_WRITTEN, "Success").await?;
    place.delete("c-slurm-configs").await?;
    place
        .until("it is gone", async || {
            Ok(place.api::<JailedConfig>().get_opt("c-slurm-configs").await?.is_none().then_some(()))
        })
        .await?;
    assert_eq!(place.text("/etc/slurm/slurm.conf").as_deref(), Some("s"), "jobs may need it until their end");
    Ok(())
}
