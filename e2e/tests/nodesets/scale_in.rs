//! Fewer replicas while jobs run.

use std::time::Duration;

use anyhow::Result;
use e2e::cluster::Cluster;

use crate::place::together;
use crate::workers::{Api, Workers, some};
use crate::{both, jobs};

/// Long enough for a pod that goes by mistake to be seen.
const WHILE: Duration = Duration::from_secs(6);

#[tokio::test]
async fn workers_leave_when_their_jobs_are_over_and_not_before() -> Result<()> {
    let cluster = together().await?;
    both(|| highest_ordinals_leave(&cluster), || idle_ones_leave(&cluster)).map(drop)
}

/// `slurm.nebius.ai`: 2 and 1 leave, each after its own job; a suspended one holds its pod.
fn highest_ordinals_leave(cluster: &Cluster) -> Result<()> {
    let set = Workers::make(cluster, Api::Nebius, "in", 3)?;
    let (one, two) = (set.job(1)?, set.job(2)?);
    jobs::suspend(cluster, &two)?;
    let before = set.pods()?;
    set.scale(1)?;
    set.wait_drained(1)?;
    set.wait_drained(2)?;
    set.stay(WHILE, &before)?;
    jobs::still_runs(cluster, &one)?;
    let (waits, message) = set.condition("WaitingForJobs")?;
    assert!(waits == "True" && message.contains(&format!("job {} is on it", one.0)), "{waits} {message}");
    let shown = set.soperator("status", &[])?;
    let line = format!("leaves when it is free (job {} is on it): there are fewer replicas", one.0);
    assert!(shown.contains(&line), "{shown}");

    jobs::end(cluster, &one)?;
    set.wait_gone(1)?;
    jobs::ended_well(cluster, &one)?;
    // Its node reads idle all the time.
    set.stay(WHILE, &some(&set, &[0, 2])?)?;
    jobs::resume(cluster, &two)?;
    jobs::end(cluster, &two)?;
    set.wait_gone(2)?;
    jobs::ended_well(cluster, &two)?;
    assert_eq!(set.pods()?.get(&set.pod(0)), before.get(&set.pod(0)), "the one that stays was not touched");
    set.wait("the nodes that left are forgotten", || Ok(set.node(1)?.is_none() && set.node(2)?.is_none()))?;
    set.wait_idle(&[0])?;
    set.clear()
}

/// `slinky.slurm.net`: those without jobs leave, whatever their ordinals.
fn idle_ones_leave(cluster: &Cluster) -> Result<()> {
    let set = Workers::make(cluster, Api::Slinky, "in", 3)?;
    let job = set.job(1)?;
    let busy = some(&set, &[1])?;
    set.scale(1)?;
    set.wait_gone(0)?;
    set.wait_gone(2)?;
    set.stay(Duration::ZERO, &busy)?;
    jobs::still_runs(cluster, &job)?;
    assert_eq!(set.drain(1)?, None, "it stays and takes jobs");

    jobs::suspend(cluster, &job)?;
    set.scale(0)?;
    set.wait_drained(1)?;
    set.stay(WHILE, &busy)?;
    jobs::resume(cluster, &job)?;
    jobs::end(cluster, &job)?;
    set.wait_gone(1)?;
    jobs::ended_well(cluster, &job)?;
    set.clear()
}
