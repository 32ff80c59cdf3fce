//! New keys and passwords while a job runs.

use std::time::Duration;

use anyhow::Result;
use e2e::cluster::{Cluster, OperatorKill};

use crate::on_both_versions;

on_both_versions!(
    a_new_munge_key_ends_no_job,
    a_new_token_key_ends_no_job,
    new_host_keys_end_no_session,
    a_new_database_password_ends_no_job,
);

/// Asks for new content of a Secret, and waits until it is there.
fn rotate(cluster: &Cluster, secret: &str) -> Result<()> {
    let data = || cluster.kubectl(&["get", "secret", secret, "--output", "jsonpath={.data}"]);
    let before = data()?;
    let date = format!("slurm.nebius.ai/rotate={}", slurm_client::unix_time());
    cluster.kubectl(&["annotate", "secret", secret, &date, "--overwrite"])?;
    cluster.wait(&format!("{secret} is new"), || Ok(data()? != before))
}

/// A job runs through the rotation, and jobs work after it.
fn through(cluster: &Cluster, secret: &str) -> Result<()> {
    let job = cluster.sbatch("--nodes 2", "srun sleep 25")?;
    cluster.wait_running(&job)?;
    let kill = OperatorKill::within(cluster.rig(), Duration::from_secs(3));
    rotate(cluster, secret)?;
    kill.done()?;
    cluster.wait_completed(&job)?;
    cluster.wait("jobs of two nodes run", || {
        Ok(cluster.run("timeout 20 srun -N2 hostname")?.lines().count() == 2)
    })?;
    let next = cluster.sbatch("", "true")?;
    cluster.wait_completed(&next)?;
    cluster.wait("jobs are recorded", || Ok(cluster.recorded_state(&next)? == "COMPLETED"))?;
    cluster.wait_available()
}

fn a_new_munge_key_ends_no_job(cluster: &Cluster) -> Result<()> {
    through(cluster, &cluster.object("munge"))
}

fn a_new_token_key_ends_no_job(cluster: &Cluster) -> Result<()> {
    through(cluster, &cluster.object("rest-jwt-key"))
}

fn a_new_database_password_ends_no_job(cluster: &Cluster) -> Result<()> {
    through(cluster, &cluster.object("mariadb-password"))
}

fn new_host_keys_end_no_session(cluster: &Cluster) -> Result<()> {
    let session = cluster.ssh().session()?;
    cluster.wait("the session is open", || Ok(cluster.has_session()))?;
    rotate(cluster, &cluster.object("sshd-keys"))?;
    cluster.wait("ssh sees another host key", || {
        let Err(refused) = cluster.run("true") else { return Ok(false) };
        Ok(refused.to_string().contains("REMOTE HOST IDENTIFICATION HAS CHANGED")
            || refused.to_string().contains("Host key verification failed"))
    })?;
    std::fs::remove_file(cluster.ssh().known_hosts())?;
    assert_eq!(cluster.run("hostname")?.trim(), cluster.login());
    assert!(cluster.has_session(), "who was logged in still is");
    drop(session);
    Ok(())
}
