//! The poller and the law on real daemons: what is busy, and when a node is free.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rig::SlurmMachine;
use rig::slurm::{Options, Version};
use slurm::{NodeTarget, NodeUpdate, Occupancy, Reason};
use slurm_client::{Changed, Client, Pace, Poller, Snapshot};
use tokio::time::timeout;

use crate::client_calls::{client_for, endless_job, wait_for_job};

const SOON: Duration = Duration::from_secs(30);
const SLOW: Duration = Duration::from_secs(2);
const PACE: Pace =
    Pace { fast: Duration::from_millis(200), slow: SLOW, longest: SLOW, full: Duration::from_secs(60) };

async fn until(poller: &Poller, what: &str, check: impl Fn(&Snapshot) -> bool) -> Result<Arc<Snapshot>> {
    let deadline = tokio::time::Instant::now() + SOON;
    loop {
        let snapshot = poller.refresh(SOON).await?;
        if check(&snapshot) {
            return Ok(snapshot);
        }
        ensure!(tokio::time::Instant::now() < deadline, "never: {what}; {:?}", snapshot.nodes());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn update(client: &Client, node: &str, state: NodeTarget) -> Result<()> {
    let reason = (state == NodeTarget::Drain).then(|| "a test".to_owned());
    client.update_node(node, &NodeUpdate { state: Some(state), reason, ..NodeUpdate::default() }).await?;
    Ok(())
}

fn state(snapshot: &Snapshot, node: &str) -> String {
    snapshot.node(node).map_or_else(|| "absent".into(), |node| node.state.to_string())
}

async fn jobs_are_sacred(version: Version) -> Result<()> {
    let slurm = SlurmMachine::start(Options::new(version))?;
    let (client, tester) = (client_for(&slurm, "root")?, client_for(&slurm, "tester")?);
    let poller = Poller::start(client.clone(), PACE);
    let mut changes = poller.subscribe();
    let _guard = poller.watch_closely();
    let snapshot = poller.refresh(SOON).await?;
    ensure!(snapshot.occupancy("node-1", SOON) == Occupancy::Idle, "{}", state(&snapshot, "node-1"));

    // A draining node with a running job is busy, and drained when the job is over.
    let job = tester.submit(&endless_job("node-1")).await?.id;
    wait_for_job(&client, job, "RUNNING").await?;
    update(&client, "node-1", NodeTarget::Drain).await?;
    let snapshot = poller.refresh(SOON).await?;
    ensure!(
        snapshot.node("node-1").is_some_and(|node| node.state.is_draining()),
        "{}",
        state(&snapshot, "node-1")
    );
    ensure!(snapshot.occupancy("node-1", SOON) == Occupancy::Busy(Reason::Job(job)));

    // A suspended job makes its node look idle, and even drained. It is busy all the same.
    slurm.exec(&["scontrol", "suspend", &job.to_string()])?;
    wait_for_job(&client, job, "SUSPENDED").await?;
    let snapshot =
        until(&poller, "the node looks drained", |snapshot| state(snapshot, "node-1") == "IDLE+DRAIN")
            .await?;
    ensure!(snapshot.node("node-1").is_some_and(|node| node.state.is_drained()), "that is the trap");
    ensure!(
        snapshot.occupancy("node-1", SOON) == Occupancy::Busy(Reason::Job(job)),
        "and this the way around"
    );
    slurm.exec(&["scontrol", "resume", &job.to_string()])?;
    wait_for_job(&client, job, "RUNNING").await?;

    tester.cancel(job).await?;
    until(&poller, "DRAINED, and free", |snapshot| snapshot.occupancy("node-1", SOON).is_free()).await?;
    let snapshot = poller.refresh(SOON).await?;
    ensure!(state(&snapshot, "node-1") == "IDLE+DRAIN");
    ensure!(poller.refresh(SOON).await?.occupancy("node-2", SOON) == Occupancy::Idle);
    update(&client, "node-1", NodeTarget::Resume).await?;
    until(&poller, "idle again", |snapshot| snapshot.occupancy("node-1", SOON) == Occupancy::Idle).await?;

    subscribers_heard_of_it(&mut changes).await?;
    looks_between_are_answered(&poller).await?;
    arrays_and_heterogeneous_jobs_hold_their_nodes(&slurm, &client, &poller).await?;
    no_controller_means_busy(&slurm, &poller).await
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_sacred_on_slurm_24_11() -> Result<()> {
    jobs_are_sacred(Version::V24_11).await
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_sacred_on_slurm_26_05() -> Result<()> {
    jobs_are_sacred(Version::V26_05).await
}

/// Looks that nobody asks for take "nothing has changed since" for an answer, which each version of Slurm gives in its own way.
async fn looks_between_are_answered(poller: &Poller) -> Result<()> {
    let before = poller.health().looks;
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let health = poller.health();
        ensure!(health.failures == 0, "{:?}", health.error);
    }
    ensure!(poller.health().looks > before, "the poller stopped");
    ensure!(poller.latest().is_some_and(|snapshot| !snapshot.jobs().is_empty()), "the jobs are still known");
    Ok(())
}

async fn subscribers_heard_of_it(changes: &mut slurm_client::Subscription) -> Result<()> {
    let mut heard = Vec::new();
    while let Ok(Some(changed)) = timeout(Duration::from_millis(200), changes.next()).await {
        heard.push(changed);
    }
    let of_node_1 = |changed: &Changed| match changed {
        Changed::Everything => true,
        Changed::Nodes(names) => names.iter().any(|name| &**name == "node-1"),
    };
    ensure!(heard.iter().filter(|changed| of_node_1(changed)).count() >= 3, "{heard:?}");
    Ok(())
}

async fn arrays_and_heterogeneous_jobs_hold_their_nodes(
    slurm: &SlurmMachine,
    client: &Client,
    poller: &Poller,
) -> Result<()> {
    let sbatch = |arguments: &[&str]| -> Result<()> {
        slurm.exec_as("tester", &[&["sbatch", "--output", "/dev/null"], arguments].concat()).map(drop)
    };
    sbatch(&["--array=1-2", "--nodelist", "node-1", "--wrap", "sleep 1000"])?;
    sbatch(&[
        "--nodelist",
        "node-1",
        "--ntasks=1",
        ":",
        "--nodelist",
        "node-2",
        "--ntasks=1",
        "--wrap",
        "sleep 1000",
    ])?;
    let snapshot = until(poller, "all of them run", |snapshot| {
        snapshot.jobs_on("node-1").count() == 3 && snapshot.jobs_on("node-2").count() == 1
    })
    .await?;
    ensure!(snapshot.occupancy("node-2", SOON).is_busy());
    for job in snapshot.jobs() {
        client.cancel(job.id).await?;
    }
    until(poller, "none is left", |snapshot| {
        snapshot.jobs_on("node-1").count() + snapshot.jobs_on("node-2").count() == 0
    })
    .await
    .map(drop)
}

/// Without answers the last snapshot stays, and everything gets busy by its age.
async fn no_controller_means_busy(slurm: &SlurmMachine, poller: &Poller) -> Result<()> {
    slurm.stop("slurmctld")?;
    ensure!(poller.refresh(Duration::from_secs(3)).await.is_err(), "who answered?");
    let snapshot = poller.latest().context("the last snapshot")?;
    ensure!(snapshot.nodes().len() == 2, "it stays");
    ensure!(snapshot.age() >= Duration::from_secs(2), "and gets older: {:?}", snapshot.age());
    ensure!(snapshot.occupancy("node-1", Duration::from_secs(1)).is_busy());
    slurm.start_again("slurmctld")?;
    timeout(SOON, async { while poller.refresh(SOON).await.is_err() {} }).await.context("it comes back")
}
