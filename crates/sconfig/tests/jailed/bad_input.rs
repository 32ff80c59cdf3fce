//! What is wrong is told, nothing is lost, and it is put right when the reason is gone.

use std::fs;
use std::os::unix::fs::symlink;

use anyhow::Result;
use api::nebius::JailedConfig;
use serde_json::json;

use crate::place::Place;

const FILES_WRITTEN: &str = "FilesWritten";

#[tokio::test(flavor = "multi_thread")]
async fn a_link_or_a_directory_in_the_place_of_a_file_is_told_and_left_alone() -> Result<()> {
    let place = Place::new("planted").await?;
    let victim = place.folder.path().join("victim");
    fs::write(&victim, "untouched")?;
    fs::create_dir_all(place.at("/etc/directory"))?;
    symlink(&victim, place.at("/etc/link"))?;
    symlink(place.folder.path(), place.at("/opt"))?;
    for (name, path, part) in [
        ("link", "/etc/link", "/etc/link is a symbolic link"),
        ("way", "/opt/victim", "on the way to /opt/victim is a symbolic link"),
        ("directory", "/etc/directory", "/etc/directory is a directory"),
    ] {
        place.map(name, json!({ "k": "new" })).await?;
        place.make(name, &[("k", path)], |_| {}).await?;
        let (status, message) = place.until_told(name, FILES_WRITTEN, "NotWritten").await?;
        assert!(!status && message.contains(part), "{message}");
    }
    assert_eq!(fs::read_to_string(&victim)?, "untouched");
    assert!(place.at("/etc/link").is_symlink() && place.at("/etc/directory").is_dir());

    fs::remove_file(place.at("/etc/link"))?;
    fs::remove_dir(place.at("/etc/directory"))?;
    place.until_text("/etc/link", "new").await?;
    place.until_text("/etc/directory", "new").await?;
    assert!(place.until_told("link", FILES_WRITTEN, "Success").await?.0);

    // One that cannot be reached does not hold up its deletion, and what is behind the link stays.
    place.delete("way").await?;
    place
        .until("it is gone", async || {
            Ok(place.api::<JailedConfig>().get_opt("way").await?.is_none().then_some(()))
        })
        .await?;
    assert_eq!(fs::read_to_string(&victim)?, "untouched");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn two_that_want_one_path_are_told_apart_and_the_second_gets_it_when_the_first_goes() -> Result<()> {
    let place = Place::new("conflict").await?;
    for name in ["first", "second"] {
        place.map(name, json!({ "k": name })).await?;
        place.make(name, &[("k", "/etc/x")], |_| {}).await?;
        place.until("it was looked at", async || place.condition(name, FILES_WRITTEN).await).await?;
        // The time of creation has whole seconds.
        tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    }
    let (status, message) = place.until_told("second", FILES_WRITTEN, "Conflict").await?;
    assert!(!status && message.starts_with("/etc/x is a file of JailedConfig first"), "{message}");
    assert_eq!(place.text("/etc/x").as_deref(), Some("first"));
    place.delete("first").await?;
    place.until_text("/etc/x", "second").await?;
    assert!(place.until_told("second", FILES_WRITTEN, "Success").await?.0);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_key_and_missing_items_are_told_with_their_field() -> Result<()> {
    let place = Place::new("fields").await?;
    place.map("key", json!({ "k": "1" })).await?;
    place.make("key", &[("k", "/etc/x"), ("none", "/etc/y")], |_| {}).await?;
    let (_, message) = place.until_told("key", FILES_WRITTEN, "NotFound").await?;
    assert!(message.contains("spec.items[1].key") && message.contains("\"none\""), "{message}");
    assert_eq!(place.text("/etc/x"), None, "all or nothing");
    place.map("items", json!({ "k": "1" })).await?;
    place.make("items", &[], |_| {}).await?;
    let (_, message) = place.until_told("items", FILES_WRITTEN, "NotWritten").await?;
    assert!(message.contains("spec.items is missing"), "{message}");
    place.map("marker", json!({ "k": "1" })).await?;
    place.make("marker", &[("k", "/.soperator-jail.json")], |_| {}).await?;
    let (_, message) = place.until_told("marker", FILES_WRITTEN, "NotWritten").await?;
    assert!(message.contains("not for users"), "{message}");
    assert_eq!(place.text("/.soperator-jail.json").as_deref(), Some("{}"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_several_clusters_has_to_be_named() -> Result<()> {
    let place = Place::new("several").await?;
    place.make_cluster("c").await?;
    place.make_cluster("d").await?;
    // The controller has to know of both.
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    place.map("a", json!({ "k": "1" })).await?;
    place.make("a", &[("k", "/etc/x")], |_| {}).await?;
    let (_, message) = place.until_told("a", FILES_WRITTEN, "NotWritten").await?;
    assert!(message.contains("slurm.nebius.ai/parental-cluster-ref"), "{message}");
    assert_eq!(place.text("/etc/x"), None);
    let named = |name: &str| json!({ "metadata": { "annotations": { "slurm.nebius.ai/parental-cluster-ref": name } } });
    place.change("a", named("c")).await?;
    place.until_text("/etc/x", "1").await?;
    Ok(())
}
