//! Drains of the operator, and those of people.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::cluster::OperatorKill;

use crate::place::alone;
use crate::workers::{Api, Workers, some};
use crate::{both, jobs};

const REASON: &str = "bad disk";
/// The worker with a job, on a machine that is cordoned.
const BUSY: usize = 0;
/// The worker that a person drains.
const HELD: usize = 1;

#[tokio::test]
async fn a_cordon_drains_and_a_persons_drain_outlives_everything() -> Result<()> {
    let cluster = alone().await?;
    let (nebius, slinky) = both(
        || Workers::make(&cluster, Api::Nebius, "cord", 2),
        || Workers::make(&cluster, Api::Slinky, "cord", 2),
    )?;
    let sets = [&nebius, &slinky];
    let jobs = [nebius.job(BUSY)?, slinky.job(BUSY)?];
    for set in sets {
        set.soperator("drain", &["--pod", &set.pod(HELD), "--reason", REASON])?;
    }
    let machines: BTreeSet<String> = sets.iter().map(|set| machine(set)).collect::<Result<_>>()?;
    let before = [nebius.pods()?, slinky.pods()?];
    for machine in &machines {
        cluster.kubectl(&["cordon", machine])?;
    }
    let drained = sets.iter().try_for_each(|set| {
        set.wait("the cordon drains", || {
            let reason = set.drain(BUSY)?.unwrap_or_default();
            Ok(reason.starts_with("slurm-operator: ") && reason.contains("was cordoned"))
        })
    });
    // Also when that failed: others need the machines.
    for machine in &machines {
        cluster.kubectl(&["uncordon", machine])?;
    }
    let kill = OperatorKill::within(cluster.rig(), Duration::from_secs(2));
    drained?;
    for (set, before) in sets.iter().zip(&before) {
        set.stay(Duration::ZERO, before)?;
        set.wait("the drain is taken back", || Ok(set.drain(BUSY)?.is_none()))?;
    }
    kill.done()?;
    for (set, job) in sets.iter().zip(&jobs) {
        jobs::still_runs(&cluster, job)?;
        jobs::end(&cluster, job)?;
        jobs::ended_well(&cluster, job)?;
        assert_eq!(set.drain(HELD)?.as_deref(), Some(REASON), "a person's drain stays");
    }
    both(|| is_held_over_a_replacement(&nebius), || is_held_over_a_replacement(&slinky)).map(drop)
}

/// Nothing runs on the worker that a person drained, so its pod may go; whoever takes its place is drained too.
fn is_held_over_a_replacement(set: &Workers<'_>) -> Result<()> {
    let old = some(set, &[HELD])?;
    set.delete_pod(HELD)?;
    set.wait("the drained worker is replaced", || {
        let new = set.pods()?;
        Ok(new.get(&set.pod(HELD)).is_some_and(|uid| old.get(&set.pod(HELD)) != Some(uid))
            && set.ready()? == 2)
    })?;
    // Time for a drain to be taken back by mistake.
    std::thread::sleep(Duration::from_secs(6));
    assert_eq!(set.drain(HELD)?.as_deref(), Some(REASON), "over the replacement of its pod");
    set.soperator("undrain", &["--pod", &set.pod(HELD)])?;
    set.wait_idle(&[BUSY, HELD])?;
    set.clear()
}

/// The machine of the worker with a job.
fn machine(set: &Workers<'_>) -> Result<String> {
    let machine = set.kubectl(&["get", "pod", &set.pod(BUSY), "--output", "jsonpath={.spec.nodeName}"])?;
    ensure!(!machine.is_empty(), "{} has no machine", set.pod(BUSY));
    Ok(machine)
}
