//! Everything stops for maintenance, and comes back.

use std::time::Duration;

use anyhow::Result;
use e2e::cluster::{Cluster, OperatorKill};
use serde_json::json;

use crate::on_both_versions;

on_both_versions!(maintenance_stops_all_pods_and_back_all_is_as_before);

fn maintenance_stops_all_pods_and_back_all_is_as_before(cluster: &Cluster) -> Result<()> {
    let job = cluster.sbatch("", "true")?;
    cluster.wait_completed(&job)?;
    cluster.wait("the job is recorded", || Ok(cluster.recorded_state(&job)? == "COMPLETED"))?;
    let kill = OperatorKill::within(cluster.rig(), Duration::from_secs(10));
    cluster.patch(&json!({"maintenance": "downscale"}))?;
    cluster.wait("workers, login pods and slurmctld are stopped", || {
        let pods = cluster.kubectl(&["get", "pods", "--output", "name"])?;
        let stopped = [cluster.controller(), cluster.login(), cluster.worker(0), cluster.worker(1)];
        Ok(!stopped.iter().any(|pod| pods.contains(pod.as_str())))
    })?;
    kill.done()?;
    cluster.patch(&json!({"maintenance": "none"}))?;
    cluster.wait_idle(2)?;
    cluster.wait_available()?;
    assert_eq!(cluster.recorded_state(&job)?, "COMPLETED", "what was is still known");
    assert_eq!(cluster.run("srun -N2 hostname")?.lines().count(), 2);
    Ok(())
}
