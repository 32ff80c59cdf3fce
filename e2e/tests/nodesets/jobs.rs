//! Jobs that end when the test says so, and not before.

use anyhow::{Context, Result, bail};
use e2e::cluster::{Cluster, Job};

/// A job on a node that goes on until [`end`]. It runs when this returns.
pub fn endless(cluster: &Cluster, node: &str) -> Result<Job> {
    let script = r#"trap "exit 0" USR1; while true; do sleep 0.2; done"#;
    let job = cluster.sbatch(&format!("--nodelist {node} --time 60"), script)?;
    cluster.wait_running(&job)?;
    Ok(job)
}

/// Lets an endless job end well.
pub fn end(cluster: &Cluster, job: &Job) -> Result<()> {
    cluster.on_controller(&["scancel", "--signal", "USR1", "--batch", &job.0]).map(drop)
}

/// Stops a job for a while: its node reads IDLE then.
pub fn suspend(cluster: &Cluster, job: &Job) -> Result<()> {
    cluster.on_controller(&["scontrol", "suspend", &job.0])?;
    cluster.wait("the job is suspended", || Ok(cluster.job_state(job)? == "SUSPENDED"))
}

/// Lets a suspended job go on.
pub fn resume(cluster: &Cluster, job: &Job) -> Result<()> {
    cluster.on_controller(&["scontrol", "resume", &job.0])?;
    cluster.wait_running(job)
}

/// The job has ended well, at its first start: one that Slurm started anew lost its work.
pub fn ended_well(cluster: &Cluster, job: &Job) -> Result<()> {
    cluster.wait_completed(job)?;
    let shown = cluster.on_controller(&["scontrol", "show", "job", "--oneliner", &job.0])?;
    let restarts = shown.split_whitespace().find_map(|word| word.strip_prefix("Restarts="));
    match restarts.with_context(|| format!("no Restarts in {shown}"))? {
        "0" => Ok(()),
        times => bail!("job {} was started {times} times anew", job.0),
    }
}

/// The job runs, and has not been started anew.
pub fn still_runs(cluster: &Cluster, job: &Job) -> Result<()> {
    match cluster.job_state(job)?.as_str() {
        "RUNNING" => Ok(()),
        other => bail!("job {} is {other}\n{}", job.0, cluster.story()),
    }
}
