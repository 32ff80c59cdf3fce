//! Slurm's configuration follows the spec, and survives what Slurm refuses.

use std::time::Duration;

use anyhow::Result;
use e2e::cluster::{Cluster, OperatorKill};
use serde_json::json;

use crate::on_both_versions;

on_both_versions!(
    a_change_of_slurm_config_is_followed_without_a_restart,
    what_slurm_refuses_is_told_and_the_cluster_goes_on,
);

/// The uids of all pods whose restart users would notice.
fn pods(cluster: &Cluster) -> Result<Vec<String>> {
    [cluster.controller(), cluster.login(), cluster.worker(0), cluster.worker(1)]
        .iter()
        .map(|pod| cluster.pod_uid(pod))
        .collect()
}

fn a_change_of_slurm_config_is_followed_without_a_restart(cluster: &Cluster) -> Result<()> {
    let before = pods(cluster)?;
    let job = cluster.sbatch("", "sleep 20")?;
    cluster.wait_running(&job)?;
    let kill = OperatorKill::within(cluster.rig(), Duration::from_secs(3));
    for wait in [45, 30] {
        cluster.patch(&json!({"slurmConfig": {"completeWait": wait}}))?;
        cluster.wait("slurmctld has the new value", || {
            Ok(cluster.config_value("CompleteWait")? == format!("{wait} sec"))
        })?;
    }
    let seen = cluster.run("scontrol show config")?;
    assert!(seen.lines().any(|line| line.starts_with("CompleteWait") && line.ends_with("30 sec")), "{seen}");
    // As the example has it.
    cluster.patch(&json!({"slurmConfig": {"completeWait": 0}}))?;
    kill.done()?;
    cluster.wait_completed(&job)?;
    assert_eq!(pods(cluster)?, before, "no pod was replaced");
    cluster.wait_available()
}

fn what_slurm_refuses_is_told_and_the_cluster_goes_on(cluster: &Cluster) -> Result<()> {
    // Right by its form, so that nobody but Slurm itself can know.
    let good = cluster.get("slurmcluster", cluster.name())?["spec"]["customSlurmConfig"].clone();
    let bad = format!("{}\nSelectType=select/no_such_plugin\n", good.as_str().unwrap_or_default());
    let job = cluster.sbatch("", "sleep 25")?;
    cluster.wait_running(&job)?;
    cluster.patch(&json!({"customSlurmConfig": bad}))?;
    let refused = || -> Result<Option<String>> {
        let told = cluster.condition("ConfigurationApplied")?.filter(|told| told.status == "False");
        Ok(told.map(|told| told.message))
    };
    cluster.wait("a condition has Slurm's own words", || {
        Ok(refused()?.is_some_and(|words| words.contains("fatal: ")))
    })?;
    cluster.wait_completed(&job)?;
    assert_eq!(cluster.run("srun -N2 hostname")?.lines().count(), 2, "jobs run as before");

    let before = cluster.pod_uid(&cluster.controller())?;
    cluster.kubectl(&["delete", "pod", &cluster.controller()])?;
    cluster.wait("slurmctld starts again with the last good set", || {
        cluster.on_controller(&["scontrol", "ping"])?;
        Ok(cluster.pod_uid(&cluster.controller())? != before)
    })?;
    assert_eq!(cluster.run("srun -N2 hostname")?.lines().count(), 2);

    cluster.patch(&json!({"customSlurmConfig": good}))?;
    cluster.wait("nothing is refused any more", || Ok(refused()?.is_none()))?;
    cluster.wait_available()
}
