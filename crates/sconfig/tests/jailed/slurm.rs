//! Files below /etc/slurm come to the jail when slurmctld runs with them. The test plays the operator.

use std::time::Duration;

use anyhow::Result;
use sconfig::Times;
use serde_json::{Value, json};

use crate::place::{Place, times};

const FILES_WRITTEN: &str = "FilesWritten";
const COMPLETED: &str = "UpdateActionsCompleted";

fn reconfigures(value: &mut Value) {
    value["spec"]["updateActions"] = json!(["Reconfigure"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reconfigure_is_done_when_slurmctld_runs_with_the_files() -> Result<()> {
    let place = Place::new("in-use").await?;
    place.make_cluster("c").await?;
    place.map("a", json!({ "k": "X=1" })).await?;
    place.make("a", &[("k", "/etc/slurm/x.conf"), ("k", "/etc/other")], reconfigures).await?;
    let (_, message) = place.until_told("a", COMPLETED, "Refresh").await?;
    assert!(message.contains("the operator to put these files"), "{message}");
    let hash = place.operator_takes(&[("slurm.conf", "s"), ("x.conf", "X=1")]).await?;
    place
        .until("it waits for slurmctld", async || {
            let told = place.condition("a", COMPLETED).await?;
            Ok(told.filter(|(status, _, message)| {
                !status && message.contains("slurmctld to run with these files")
            }))
        })
        .await?;
    assert_eq!(place.text("/etc/slurm/x.conf"), None, "commands in the jail go on with what slurmctld has");
    place.slurmctld(json!({ "inUse": hash })).await?;
    assert!(place.until_told("a", COMPLETED, "Success").await?.0);
    assert!(place.until_told("a", FILES_WRITTEN, "Success").await?.0);
    assert_eq!(place.text("/etc/slurm/x.conf").as_deref(), Some("X=1"));

    // The set changes for other reasons, as when a worker comes: nobody is told anything.
    place.until_quiet(Duration::from_secs(1)).await?;
    let writes = place.writes().len();
    place.operator_takes(&[("slurm.conf", "more nodes"), ("x.conf", "X=1")]).await?;
    place.until_quiet(Duration::from_secs(2)).await?;
    assert_eq!(place.writes().len(), writes, "{:#?}", place.writes());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_slurm_refuses_do_not_come_into_the_jail_and_the_status_has_slurms_words() -> Result<()> {
    let place = Place::new("refused").await?;
    place.make_cluster("c").await?;
    place.map("a", json!({ "k": "X=1" })).await?;
    let good = place.operator_takes(&[("slurm.conf", "s"), ("x.conf", "X=1")]).await?;
    place.slurmctld(json!({ "inUse": good })).await?;
    place.make("a", &[("k", "/etc/slurm/x.conf")], reconfigures).await?;
    place.until_told("a", COMPLETED, "Success").await?;

    place.map("a", json!({ "k": "X=bad" })).await?;
    let bad = place.operator_takes(&[("slurm.conf", "s"), ("x.conf", "X=bad")]).await?;
    place.slurmctld(json!({ "inUse": good, "refused": bad, "message": "fatal: X=bad" })).await?;
    let (status, message) = place.until_told("a", COMPLETED, "Refused").await?;
    assert!(!status && message.ends_with("fatal: X=bad"), "{message}");
    assert!(!place.until_told("a", FILES_WRITTEN, "NotWritten").await?.0);
    assert_eq!(place.text("/etc/slurm/x.conf").as_deref(), Some("X=1"));

    place.map("a", json!({ "k": "X=2" })).await?;
    let mended = place.operator_takes(&[("slurm.conf", "s"), ("x.conf", "X=2")]).await?;
    place.slurmctld(json!({ "inUse": mended, "refused": null, "message": null })).await?;
    place.until_told("a", COMPLETED, "Success").await?;
    assert_eq!(place.text("/etc/slurm/x.conf").as_deref(), Some("X=2"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn without_slurmctld_the_jail_gets_the_files_after_a_while() -> Result<()> {
    let place = Place::with("patience", Times { patience: Duration::from_secs(1), ..times() }).await?;
    place.map("a", json!({ "k": "X=1" })).await?;
    place.make("a", &[("k", "/etc/slurm/x.conf")], reconfigures).await?;
    place.until_text("/etc/slurm/x.conf", "X=1").await?;
    assert!(place.until_told("a", FILES_WRITTEN, "Success").await?.0);
    assert!(!place.until_told("a", COMPLETED, "Refresh").await?.0, "Slurm has not read them");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_files_are_told_in_few_writes() -> Result<()> {
    let place = Place::new("twenty").await?;
    let keys: Vec<String> = (0..20).map(|number| format!("f{number}")).collect();
    let data = |text: &str| -> Value {
        keys.iter().map(|key| (key.clone(), json!(text))).collect::<serde_json::Map<_, _>>().into()
    };
    place.map("a", data("1")).await?;
    let paths: Vec<String> = keys.iter().map(|key| format!("/opt/{key}")).collect();
    let items: Vec<(&str, &str)> =
        keys.iter().zip(&paths).map(|(key, path)| (key.as_str(), path.as_str())).collect();
    place.make("a", &items, |_| {}).await?;
    place.until_told("a", FILES_WRITTEN, "Success").await?;
    let before = place.writes().len();
    place.map("a", data("2")).await?;
    place.until_text("/opt/f19", "2").await?;
    place.until_told("a", FILES_WRITTEN, "Success").await?;
    place.until_quiet(Duration::from_secs(1)).await?;
    assert_eq!(place.writes().len() - before, 2, "on the way, and done: {:#?}", place.writes());
    Ok(())
}
