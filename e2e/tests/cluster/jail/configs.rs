//! Files of JailedConfigs come into the jail, and those below /etc/slurm to Slurm's daemons.

use std::time::Instant;

use anyhow::Result;
use e2e::cluster::{Cluster, OperatorPeace};
use serde_json::{Value, json};

use crate::on_both_versions;

on_both_versions!(
    twenty_files_reach_the_jail_and_slurmctld_soon_and_with_one_reconfigure,
    files_that_slurm_refuses_do_not_come_into_the_jail,
);

fn map(name: &str, text: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": { "k": text } })
}

fn jailed(name: &str, path: &str) -> Value {
    json!({
        "apiVersion": "slurm.nebius.ai/v1alpha1", "kind": "JailedConfig", "metadata": { "name": name },
        "spec": {
            "configMap": { "name": name },
            "items": [{ "key": "k", "path": path }],
            "updateActions": ["Reconfigure"],
        },
    })
}

fn apply(cluster: &Cluster, items: Vec<Value>) -> Result<()> {
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": items });
    cluster.apply(&list.to_string()).map(drop)
}

/// Reason and message of a condition of a JailedConfig.
fn told(cluster: &Cluster, name: &str, type_: &str) -> Result<(String, String)> {
    let config = cluster.get("jailedconfig", name)?;
    let conditions = config["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.iter().find(|condition| condition["type"] == type_).cloned().unwrap_or_default();
    let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
    Ok((text("reason"), text("message")))
}

/// How many configurations slurmctld's agent has tried so far.
fn tried(cluster: &Cluster) -> Result<usize> {
    let log = cluster.kubectl(&["logs", &cluster.controller(), "--container", "slurmctld"])?;
    Ok(log.matches("trying the configuration").count())
}

/// How often slurmctld may read its configuration for changes that began then: once, unless a busy machine lets a second pass between
/// two of them.
fn most(start: Instant) -> usize {
    let split = usize::try_from(start.elapsed().as_secs()).unwrap_or(usize::MAX);
    2 + split.min(8)
}

fn twenty_files_reach_the_jail_and_slurmctld_soon_and_with_one_reconfigure(cluster: &Cluster) -> Result<()> {
    cluster.wait_available()?;
    let names: Vec<String> = (0..20).map(|number| format!("e2e-file-{number}")).collect();
    let path = |name: &str| format!("/etc/slurm/e2e.d/{name}.conf");
    let maps = |text: &str| names.iter().map(|name| map(name, text)).collect::<Vec<_>>();
    let mut all = maps("# one\n");
    all.extend(names.iter().map(|name| jailed(name, &path(name))));
    apply(cluster, all)?;
    let everywhere = |text: &str| -> Result<bool> {
        let look = "cat /etc/slurm/e2e.d/*.conf";
        let whole = format!("{text}\n").repeat(names.len());
        Ok(cluster.run(look)? == whole && cluster.on_controller(&["sh", "-c", look])? == whole)
    };
    cluster.wait("the first files are everywhere", || everywhere("# one"))?;
    cluster.wait_available()?;

    let _peace = OperatorPeace::begin();
    cluster.wait_available()?;
    let before = tried(cluster)?;
    let start = Instant::now();
    apply(cluster, maps("# two\n"))?;
    let most = most(start);
    cluster.wait("the new files are everywhere", || everywhere("# two"))?;
    let took = start.elapsed();
    println!("twenty files took {:.1} s", took.as_secs_f64());
    cluster.wait("all say so", || {
        Ok(names.iter().all(|name| {
            told(cluster, name, "UpdateActionsCompleted").is_ok_and(|(reason, _)| reason == "Success")
        }))
    })?;
    let reconfigures = tried(cluster)? - before;
    println!("{reconfigures} reconfigures");
    assert!((1..=most).contains(&reconfigures), "{reconfigures} reconfigures, {most} at most");

    let objects: Vec<&str> = names.iter().map(String::as_str).collect();
    cluster.kubectl(&[&["delete", "jailedconfig"], &*objects].concat())?;
    cluster.kubectl(&[&["delete", "configmap"], &*objects].concat())?;
    assert!(cluster.run("ls /etc/slurm/e2e.d/*.conf").is_err(), "they have gone with their JailedConfigs");
    cluster.run("rmdir /etc/slurm/e2e.d")?;
    cluster.wait_available()
}

fn files_that_slurm_refuses_do_not_come_into_the_jail(cluster: &Cluster) -> Result<()> {
    cluster.wait_available()?;
    let (name, path) = ("e2e-included", "/etc/slurm/e2e-included.conf");
    apply(cluster, vec![map(name, "# good\n"), jailed(name, path)])?;
    cluster.wait("slurmctld has the file", || {
        Ok(told(cluster, name, "UpdateActionsCompleted")?.0 == "Success")
    })?;
    let before = cluster.get("slurmcluster", cluster.name())?["spec"]["customSlurmConfig"].clone();
    let text = before.as_str().unwrap_or_default();
    cluster.patch(&json!({ "customSlurmConfig": format!("{text}\nInclude e2e-included.conf\n") }))?;
    cluster.wait_available()?;

    // Right by its form, so that nobody but Slurm itself can know.
    apply(cluster, vec![map(name, "SelectType=select/no_such_plugin\n")])?;
    cluster.wait("the status has Slurm's words", || {
        let (reason, message) = told(cluster, name, "UpdateActionsCompleted")?;
        Ok(reason == "Refused" && message.contains("fatal: "))
    })?;
    assert_eq!(cluster.run(&format!("cat {path}"))?, "# good\n", "the jail keeps what slurmctld runs with");
    cluster.run("srun -N2 true")?;

    apply(cluster, vec![map(name, "# good again\n")])?;
    cluster.wait("it is put right", || Ok(told(cluster, name, "UpdateActionsCompleted")?.0 == "Success"))?;
    assert_eq!(cluster.run(&format!("cat {path}"))?, "# good again\n");
    cluster.patch(&json!({ "customSlurmConfig": before }))?;
    cluster.wait_available()?;
    cluster.kubectl(&["delete", "jailedconfig,configmap", name])?;
    cluster.wait_available()
}
