//! The accounting database, which outlives everything else.

use std::process::Command;

use anyhow::Result;
use e2e::cluster::Cluster;
use e2e::output_of;

use crate::on_both_versions;

on_both_versions!(
    sacct_lists_a_job_after_slurmctld_has_restarted,
    jobs_run_while_slurmdbd_is_down_and_are_recorded_later,
);

fn sacct_lists_a_job_after_slurmctld_has_restarted(cluster: &Cluster) -> Result<()> {
    let job = cluster.sbatch("", "true")?;
    cluster.wait_completed(&job)?;
    cluster.wait("the job is recorded", || Ok(cluster.recorded_state(&job)? == "COMPLETED"))?;
    let before = cluster.pod_uid(&cluster.controller())?;
    cluster.kubectl(&["delete", "pod", &cluster.controller()])?;
    cluster.wait("slurmctld is a new pod that answers", || {
        cluster.on_controller(&["scontrol", "ping"])?;
        Ok(cluster.pod_uid(&cluster.controller())? != before)
    })?;
    assert_eq!(cluster.recorded_state(&job)?, "COMPLETED");
    let next = cluster.sbatch("", "true")?;
    assert!(next.0.parse::<u32>()? > job.0.parse::<u32>()?, "numbers of jobs go on where they were");
    cluster.wait_completed(&next)
}

fn jobs_run_while_slurmdbd_is_down_and_are_recorded_later(cluster: &Cluster) -> Result<()> {
    let target = format!("deployment/{}", cluster.object("accounting"));
    let shell = |script: &str| -> Result<Command> {
        let mut kubectl = cluster.command()?;
        kubectl.args(["exec", &target, "--container", "accounting", "--", "bash", "-c", script]);
        Ok(kubectl)
    };
    // It dies as soon as it lives, until it may live.
    let mut killer =
        shell("rm -f /tmp/live; until [ -e /tmp/live ]; do pkill -9 slurmdbd; sleep 0.2; done")?.spawn()?;
    // Longer than the agent waits before it starts one again, at first.
    cluster.wait("slurmdbd is down", || {
        let down = "for look in 1 2 3 4 5 6 7 8 9 10; do ! pgrep --exact slurmdbd || exit 1; sleep 0.3; done";
        output_of(&mut shell(down)?, None).map(|_| true)
    })?;
    let job = cluster.sbatch("", "true")?;
    cluster.wait_completed(&job)?;
    assert!(killer.try_wait()?.is_none(), "slurmdbd was down all the time");
    output_of(&mut shell("touch /tmp/live")?, None)?;
    killer.wait()?;
    cluster.wait("the job is recorded when slurmdbd is back", || {
        Ok(cluster.recorded_state(&job)? == "COMPLETED")
    })?;
    cluster.wait_available()
}
