//! slurmctld goes away and comes back.

use anyhow::Result;
use e2e::cluster::Cluster;

use crate::on_both_versions;

on_both_versions!(jobs_go_on_while_slurmctld_is_replaced);

fn jobs_go_on_while_slurmctld_is_replaced(cluster: &Cluster) -> Result<()> {
    let short = cluster.sbatch("", "sleep 5")?;
    let long = cluster.sbatch("", "sleep 30")?;
    cluster.wait_running(&short)?;
    cluster.wait_running(&long)?;
    let before = cluster.pod_uid(&cluster.controller())?;
    let workers = [cluster.pod_uid(&cluster.worker(0))?, cluster.pod_uid(&cluster.worker(1))?];
    // As when its machine fails: without a word to slurmctld.
    cluster.kubectl(&["delete", "pod", &cluster.controller(), "--grace-period=0", "--force"])?;
    cluster.wait("slurmctld is a new pod that answers", || {
        cluster.on_controller(&["scontrol", "ping"])?;
        Ok(cluster.pod_uid(&cluster.controller())? != before)
    })?;
    cluster.wait_completed(&short)?;
    cluster.wait_completed(&long)?;
    for job in [&short, &long] {
        cluster.wait("the job is recorded", || Ok(cluster.recorded_state(job)? == "COMPLETED"))?;
    }
    let after = [cluster.pod_uid(&cluster.worker(0))?, cluster.pod_uid(&cluster.worker(1))?];
    assert_eq!(workers, after, "the workers are the same pods");
    Ok(())
}
