//! Workers and their jobs.

use anyhow::Result;
use e2e::cluster::Cluster;

use crate::on_both_versions;

on_both_versions!(a_job_ends_well_when_slurmd_is_killed_under_it, a_deleted_worker_comes_back);

fn a_job_ends_well_when_slurmd_is_killed_under_it(cluster: &Cluster) -> Result<()> {
    let job = cluster.sbatch("--nodelist worker-0", "sleep 12")?;
    cluster.wait_running(&job)?;
    let (pod, uid) = (cluster.worker(0), cluster.pod_uid(&cluster.worker(0))?);
    let slurmd = || cluster.exec(&pod, "slurmd", &["pgrep", "--exact", "slurmd", "--oldest"]);
    let before = slurmd()?;
    cluster.exec(&pod, "slurmd", &["kill", "-9", before.trim()])?;
    cluster.wait("slurmd runs again", || Ok(slurmd()? != before))?;
    assert_eq!(cluster.job_state(&job)?, "RUNNING");
    cluster.wait_completed(&job)?;
    let pod = cluster.get("pod", &pod)?;
    assert_eq!(pod["metadata"]["uid"], uid, "the same pod");
    let restarts = pod["status"]["containerStatuses"]
        .as_array()
        .map(|all| all.iter().filter_map(|container| container["restartCount"].as_u64()).sum::<u64>());
    assert_eq!(restarts, Some(0), "the container was not restarted");
    assert_eq!(cluster.run("srun --nodelist worker-0 hostname")?.trim(), "worker-0");
    Ok(())
}

fn a_deleted_worker_comes_back(cluster: &Cluster) -> Result<()> {
    let (pod, before) = (cluster.worker(1), cluster.pod_uid(&cluster.worker(1))?);
    cluster.wait("an idle worker may be deleted", || {
        cluster.kubectl(&["delete", "pod", &pod, "--wait=false"])?;
        Ok(true)
    })?;
    cluster.wait("there is a new pod of the same name", || Ok(cluster.pod_uid(&pod)? != before))?;
    cluster.wait_idle(2)?;
    assert_eq!(cluster.run("srun --nodelist worker-1 hostname")?.trim(), "worker-1");
    cluster.wait_available()
}
