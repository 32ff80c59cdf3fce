//! What is deleted goes when its jobs are over: sets, and a namespace with a whole cluster in it.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::cluster::{Cluster, OperatorKill};
use e2e::output_of;
use rig::Rig;

use crate::place::{doomed, together};
use crate::workers::{Api, Workers, some};
use crate::{both, jobs};

const WHILE: Duration = Duration::from_secs(6);
/// How long slurmrestd is away.
const SILENCE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_deleted_set_goes_when_its_jobs_are_over() -> Result<()> {
    let cluster = together().await?;
    let elsewhere = Rig::shared().await?.namespace("e2e-elsewhere").await?;
    let kill = OperatorKill::within(cluster.rig(), Duration::from_secs(45));
    let gone = both(
        || is_deleted(&Workers::make(&cluster, Api::Nebius, "del", 2)?, |set| set.delete()),
        || {
            is_deleted(&Workers::make(&cluster, Api::Slinky, "del", 2)?, |set| set.delete())?;
            let set = Workers::make_in(&cluster, elsewhere.name(), Api::Slinky, "ns", 2)?;
            is_deleted(&set, |set| {
                set.kubectl(&["delete", "namespace", elsewhere.name(), "--wait=false"]).map(drop)
            })
        },
    );
    kill.done()?;
    gone.map(drop)
}

/// A job runs on one of two workers while the set is deleted in this way.
fn is_deleted(set: &Workers<'_>, delete: impl Fn(&Workers<'_>) -> Result<()>) -> Result<()> {
    let job = set.job(0)?;
    let busy = some(set, &[0])?;
    delete(set)?;
    set.wait_gone(1)?;
    set.stay(WHILE, &busy)?;
    jobs::still_runs(set.cluster, &job)?;
    jobs::end(set.cluster, &job)?;
    jobs::ended_well(set.cluster, &job)?;
    set.wait_all_gone()
}

#[tokio::test]
async fn a_cluster_survives_the_silence_of_slurmrestd_and_ends_with_its_namespace_after_its_job() -> Result<()>
{
    let rig = Rig::shared().await?;
    let namespace = rig.namespace("e2e-doomed").await?;
    let cluster = doomed(rig, namespace.name())?;
    nothing_leaves_while_slurmrestd_is_silent(&cluster)?;

    let set = Workers::make(&cluster, Api::Nebius, "last", 2)?;
    // slurmctld goes with the namespace at once, so the job tells its end by the log of its pod.
    let script = "sleep 30; echo the-job-has-ended > /proc/1/fd/1";
    let job = cluster.sbatch(&format!("--nodelist {}", set.pod(0)), script)?;
    cluster.wait_running(&job)?;
    let log = Log::follow(&set, 0)?;
    let busy = some(&set, &[0])?;
    cluster.kubectl(&["delete", "namespace", namespace.name(), "--wait=false"])?;
    set.stay(Duration::from_secs(15), &busy).or_else(|error| {
        // It may be told to stop, as long as it does not before its job has ended.
        if set.pods()?.contains_key(&set.pod(0)) { Ok(()) } else { Err(error) }
    })?;
    let printed = log.end()?;
    ensure!(printed.contains("the-job-has-ended"), "the job ended before its time: {printed}");
    let kubectl = |arguments: &[&str]| output_of(rig.kubectl()?.args(arguments), None);
    e2e::wait_until_for(Duration::from_secs(180), "all is gone", || {
        let kinds =
            "slurmclusters,nodesets.slurm.nebius.ai,statefulsets,pods,persistentvolumeclaims,services";
        Ok(kubectl(&["get", kinds, "--namespace", namespace.name(), "--output", "name"])?.is_empty())
    })
    .with_context(|| cluster.story())?;
    // Kubernetes looks again after half of the longest grace period that a pod had, or after five minutes, or when it changes.
    let _ = kubectl(&["annotate", "namespace", namespace.name(), "all-is-gone=true"]);
    e2e::wait_until_for(Duration::from_secs(60), "the namespace is gone", || {
        Ok(kubectl(&["get", "namespace", namespace.name(), "--ignore-not-found", "--output", "name"])?
            .is_empty())
    })
}

/// Both APIs: for a minute nobody knows whether jobs run, so nobody leaves; then they do.
fn nothing_leaves_while_slurmrestd_is_silent(cluster: &Cluster) -> Result<()> {
    let (nebius, slinky) = both(
        || Workers::make(cluster, Api::Nebius, "mute", 2),
        || Workers::make(cluster, Api::Slinky, "mute", 2),
    )?;
    for set in [&nebius, &slinky] {
        // The last answer shows it drained and free: no reason to believe that it still is.
        set.soperator("drain", &["--pod", &set.pod(1), "--reason", "to be sure"])?;
    }
    let before = [nebius.pods()?, slinky.pods()?];
    let deployment = format!("deployment/{}", cluster.object("rest"));
    let kubectl = |script: &str| -> Result<std::process::Command> {
        let mut kubectl = cluster.command()?;
        kubectl.args(["exec", &deployment, "--container", "slurmrestd", "--", "bash", "-c", script]);
        Ok(kubectl)
    };
    // It dies as soon as it lives, until it may live.
    let mut killer =
        kubectl("rm -f /tmp/live; until [ -e /tmp/live ]; do pkill -9 slurmrestd; sleep 0.2; done")?
            .spawn()?;
    cluster.wait("slurmrestd is away", || {
        Ok(output_of(&mut kubectl("pgrep slurmrestd || echo none")?, None)?.trim() == "none")
    })?;
    let silent = Instant::now();
    nebius.scale(1)?;
    slinky.scale(1)?;
    let stayed = both(
        || nebius.stay(SILENCE.saturating_sub(silent.elapsed()), &before[0]),
        || slinky.stay(SILENCE.saturating_sub(silent.elapsed()), &before[1]),
    );
    let was_away = killer.try_wait()?.is_none();
    output_of(&mut kubectl("touch /tmp/live")?, None)?;
    killer.wait()?;
    stayed?;
    assert!(was_away, "slurmrestd was away all the time");
    nebius.wait_gone(1)?;
    slinky.wait("one of the two leaves", || Ok(slinky.pods()?.len() == 1))?;
    both(|| nebius.clear(), || slinky.clear()).map(drop)
}

/// What a pod prints from now on.
struct Log {
    child: Child,
}

impl Log {
    fn follow(set: &Workers<'_>, ordinal: usize) -> Result<Self> {
        let mut kubectl = set.command()?;
        kubectl.args(["logs", "--follow", "--container", "slurmd", "--since=1s", &set.pod(ordinal)]);
        Ok(Self { child: kubectl.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()? })
    }

    /// All of it, when the container has ended.
    fn end(mut self) -> Result<String> {
        let deadline = Instant::now() + Duration::from_secs(180);
        while self.child.try_wait()?.is_none() {
            if Instant::now() > deadline {
                self.child.kill()?;
            }
            std::thread::sleep(Duration::from_millis(500));
        }
        Ok(String::from_utf8_lossy(&self.child.wait_with_output()?.stdout).into_owned())
    }
}
