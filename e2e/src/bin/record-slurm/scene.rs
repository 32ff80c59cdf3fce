//! A cluster in which every state that matters is there at once.

use anyhow::{Context, Result};
use rig::slurm::{Options, Version};

use super::Slurm;

/// Its name begins with what its job or state is.
pub(crate) const SUSPENDED: &str = "node-1";
pub(crate) const DRAINING: &str = "node-2";
pub(crate) const DRAINED: &str = "node-3";
pub(crate) const DOWN: &str = "node-4";
pub(crate) const COMPLETING: &str = "node-5";
pub(crate) const MAINTENANCE: &str = "node-6";
pub(crate) const FREE: [&str; 2] = ["node-7", "node-8"];
pub(crate) const DYNAMIC: &str = "dynamic-1";

const CONF: &str = "\
MaxNodeCount=20
Licenses=compiler:10,viewer:5
Epilog=/etc/slurm/epilog.sh
PartitionName=small Nodes=node-[7-8] MaxTime=60 State=UP AllowAccounts=testing
";

/// Holds a node's jobs in COMPLETING while there is a file of the node's name.
const EPILOG: &str = "#!/bin/sh\nwhile [ -e /tmp/hold-$SLURMD_NODENAME ]; do sleep 0.2; done\n";

/// Ids of jobs to ask for.
pub(crate) struct Facts {
    pub(crate) suspended: String,
    pub(crate) running: String,
    pub(crate) pending: String,
    pub(crate) completing: String,
    pub(crate) completed: String,
    pub(crate) failed: String,
    pub(crate) array: String,
    pub(crate) heterogeneous: String,
}

/// Starts the machine.
pub(crate) fn start(version: Version) -> Result<Slurm> {
    let options = Options::new(version).nodes(8).accounting().extra_conf(CONF).file("epilog.sh", EPILOG);
    Slurm::start(options)
}

/// Brings every node and job into its state.
pub(crate) fn set(slurm: &Slurm) -> Result<Facts> {
    slurm.exec(&["chmod", "0755", "/etc/slurm/epilog.sh"])?;
    slurm.start_daemon(
        "slurmd-dynamic-1",
        &[
            "/usr/sbin/slurmd",
            "-D",
            "-Z",
            "-N",
            DYNAMIC,
            "--conf",
            "CPUs=4 RealMemory=4000 Feature=dynamic,fast",
        ],
    )?;
    let sleep = "sleep 3600";
    let completed = submit(slurm, &["--job-name=completed", "-w", FREE[0]], "true")?;
    let failed = submit(slurm, &["--job-name=failed", "-w", FREE[0]], "exit 3")?;
    slurm.wait_for_job(&completed, &["COMPLETED"])?;
    slurm.wait_for_job(&failed, &["FAILED"])?;

    let suspended = submit(slurm, &["--job-name=suspended", "--exclusive", "-w", SUSPENDED], sleep)?;
    let running = submit(
        slurm,
        &["--job-name=running", "-w", DRAINING, "--licenses=compiler:2", "--comment=a \"quoted\" comment"],
        sleep,
    )?;
    slurm.exec(&["touch", &format!("/tmp/hold-{COMPLETING}")])?;
    let completing = submit(slurm, &["--job-name=completing", "-w", COMPLETING], "true")?;
    slurm.wait_for_job(&completing, &["COMPLETING"])?;
    let array = submit(slurm, &["--job-name=array", "--array=1-6%2", "--partition=small"], sleep)?;
    let heterogeneous = heterogeneous(slurm)?;
    let pending = submit(slurm, &["--job-name=pending", "--begin=now+1hour", "--time=1-02:03:04"], sleep)?;

    slurm.wait_for_job(&suspended, &["RUNNING"])?;
    slurm.exec(&["scontrol", "suspend", &suspended])?;
    slurm.wait_for_job(&suspended, &["SUSPENDED"])?;
    slurm.wait_for_job(&running, &["RUNNING"])?;
    update(slurm, DRAINING, "drain", "to be replaced")?;
    update(slurm, DRAINED, "drain", "broken fan")?;
    update(slurm, DOWN, "down", "power supply")?;
    slurm.exec(&[
        "scontrol",
        "create",
        "reservation",
        "ReservationName=maintenance",
        "StartTime=now",
        "Duration=infinite",
        "Users=root",
        "Flags=maint,ignore_jobs",
        &format!("Nodes={MAINTENANCE}"),
    ])?;
    slurm.wait_for_node(DRAINING, &["draining"])?;
    slurm.wait_for_node(DRAINED, &["drained"])?;
    slurm.wait_for_node(DOWN, &["down"])?;
    slurm.wait_for_node(MAINTENANCE, &["maint"])?;
    slurm.wait_until("the dynamic node is idle", || {
        Ok(slurm.exec(&["scontrol", "show", "node", DYNAMIC])?.contains("State=IDLE"))
    })?;
    slurm.wait_until("slurmdbd has the jobs", || {
        let shown =
            slurm.exec(&["sacct", "--allusers", "--noheader", "--allocations", "--format=JobName%20"])?;
        Ok(["completed", "failed", "suspended", "array"].iter().all(|name| shown.contains(name)))
    })?;
    Ok(Facts { suspended, running, pending, completing, completed, failed, array, heterogeneous })
}

fn submit(slurm: &Slurm, options: &[&str], script: &str) -> Result<String> {
    let words =
        [&["sbatch", "--parsable", "--output=/dev/null", "--chdir=/tmp"], options, &["--wrap", script]];
    let printed = slurm.exec_as("tester", &words.concat())?;
    Ok(printed.trim().to_string())
}

/// Two parts with different needs, one on each free node.
fn heterogeneous(slurm: &Slurm) -> Result<String> {
    let printed = slurm.exec_as(
        "tester",
        &[
            "sbatch",
            "--parsable",
            "--output=/dev/null",
            "--chdir=/tmp",
            "--job-name=heterogeneous",
            "-w",
            FREE[0],
            ":",
            "--ntasks=2",
            "-w",
            FREE[1],
            "--wrap",
            "sleep 3600",
        ],
    )?;
    let job = printed.trim().to_string();
    slurm.wait_until("the heterogeneous job runs", || {
        let states = slurm.exec(&["squeue", "--noheader", "--jobs", &job, "--format", "%T"])?;
        Ok(states == "RUNNING\nRUNNING\n")
    })?;
    Ok(job)
}

fn update(slurm: &Slurm, node: &str, state: &str, reason: &str) -> Result<()> {
    let (node, state, reason) =
        (format!("NodeName={node}"), format!("State={state}"), format!("Reason={reason}"));
    slurm.exec(&["scontrol", "update", &node, &state, &reason]).context("cannot update a node").map(drop)
}
