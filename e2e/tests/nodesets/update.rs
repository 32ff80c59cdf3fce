//! A new template while jobs run.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Result;
use e2e::cluster::{Cluster, Job, OperatorKill};

use crate::place::together;
use crate::workers::{Api, Workers};
use crate::{both, jobs};

const WORKERS: usize = 3;
const WHILE: Duration = Duration::from_secs(6);

#[tokio::test]
async fn a_rolling_update_ends_no_job_and_keeps_within_what_may_be_away() -> Result<()> {
    let cluster = together().await?;
    // One kill for both: it comes somewhere in the first half.
    let kill = OperatorKill::within(cluster.rig(), Duration::from_secs(40));
    let rolled = both(|| rolls(&cluster, Api::Nebius), || rolls(&cluster, Api::Slinky));
    kill.done()?;
    rolled.map(drop)
}

fn rolls(cluster: &Cluster, api: Api) -> Result<()> {
    let set = Workers::make(cluster, api, "roll", WORKERS)?;
    let jobs: Vec<Job> = (0..WORKERS).map(|ordinal| set.job(ordinal)).collect::<Result<_>>()?;
    let before = set.pods()?;
    set.restart()?;
    set.wait("one worker is drained for the update", || Ok(drained(&set)? == 1))?;
    set.stay(WHILE, &before)?;
    assert_eq!(drained(&set)?, 1, "not more than may be away");
    for job in &jobs {
        jobs::still_runs(cluster, job)?;
    }
    let shown = set.soperator("status", &[])?;
    assert!(shown.contains("has an old revision: replaced when it is free (job "), "{shown}");
    assert!(shown.contains("has an old revision: replaced in its turn (maxUnavailable is 1)"), "{shown}");

    let (fewest, over) = (AtomicUsize::new(WORKERS), AtomicBool::new(false));
    std::thread::scope(|scope| -> Result<()> {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                if let Ok(ready) = set.ready() {
                    fewest.fetch_min(ready, Ordering::Relaxed);
                }
            }
        });
        let replaced = || -> Result<()> {
            for job in &jobs {
                jobs::end(cluster, job)?;
            }
            set.wait("all workers are replaced", || {
                let now = set.pods()?;
                Ok(now.len() == WORKERS && now.iter().all(|(pod, uid)| before.get(pod) != Some(uid)))
            })?;
            set.wait_idle(&[0, 1, 2])
        };
        let outcome = replaced();
        over.store(true, Ordering::Relaxed);
        outcome
    })?;
    for job in &jobs {
        jobs::ended_well(cluster, job)?;
    }
    assert!(fewest.load(Ordering::Relaxed) >= WORKERS - 1, "at most one is away: {fewest:?}");
    let (updated, message) = set.condition(match api {
        Api::Nebius => "StatefulSetUpdated",
        Api::Slinky => "Updated",
    })?;
    assert_eq!(updated, "True", "{message}");
    set.clear()
}

/// How many workers the operator has drained.
fn drained(set: &Workers<'_>) -> Result<usize> {
    let mut count = 0;
    for ordinal in 0..WORKERS {
        count += usize::from(set.drain(ordinal)?.is_some());
    }
    Ok(count)
}
