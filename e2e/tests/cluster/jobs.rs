//! What users do on the first day.

use anyhow::Result;
use e2e::cluster::{Cluster, Job};

use crate::on_both_versions;

on_both_versions!(users_log_in_with_their_key_and_run_jobs, arrays_run_and_are_cancelled);

fn users_log_in_with_their_key_and_run_jobs(cluster: &Cluster) -> Result<()> {
    assert_eq!(cluster.run("hostname")?.trim(), cluster.login());
    let other = cluster.ssh().other_key()?;
    let refused = cluster.ssh().run_with_key(&other, "hostname").unwrap_err().to_string();
    assert!(refused.contains("Permission denied"), "another key does not open the door: {refused}");

    let mut hosts: Vec<String> = cluster.run("srun -N2 hostname")?.lines().map(String::from).collect();
    hosts.sort();
    assert_eq!(hosts, ["worker-0", "worker-1"], "workers have the names that users know");
    let failed = cluster.run("srun false").unwrap_err().to_string();
    assert!(failed.contains("exit code 1"), "{failed}");

    let job = cluster.sbatch("--ntasks 2 --nodes 2", "srun hostname && test $(srun hostname | wc -l) = 2")?;
    cluster.wait_completed(&job)?;
    let failing = cluster.sbatch("", "exit 7")?;
    cluster.wait("the job has failed", || Ok(cluster.job_state(&failing)? == "FAILED"))?;
    Ok(())
}

fn arrays_run_and_are_cancelled(cluster: &Cluster) -> Result<()> {
    let array = cluster.sbatch("--array 0-3", "test $SLURM_ARRAY_TASK_ID -lt 4")?;
    for task in 0..4 {
        cluster.wait_completed(&Job(format!("{}_{task}", array.0)))?;
    }

    let long = cluster.sbatch("--array 0-1", "sleep 600")?;
    let tasks: Vec<Job> = (0..2).map(|task| Job(format!("{}_{task}", long.0))).collect();
    for task in &tasks {
        cluster.wait_running(task)?;
    }
    cluster.run(&format!("scancel {}_0", long.0))?;
    cluster.wait("one task is cancelled", || Ok(cluster.job_state(&tasks[0])? == "CANCELLED"))?;
    assert_eq!(cluster.job_state(&tasks[1])?, "RUNNING", "the other goes on");
    cluster.run(&format!("scancel {}", long.0))?;
    cluster.wait("the whole array is cancelled", || Ok(cluster.job_state(&tasks[1])? == "CANCELLED"))
}
