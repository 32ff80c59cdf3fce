//! Real Slurm in one pod, in both versions.

use anyhow::{Context, Result};
use e2e::{Kubectl, image};
use rig::Rig;

const EXAMPLE: &str = include_str!("../../../examples/one-pod-slurm/pod.yaml");

#[tokio::test]
async fn slurm_24_11_runs_a_job_in_one_pod() -> Result<()> {
    runs_a_job("slurm-24.11", "24.11").await
}

#[tokio::test]
async fn slurm_26_05_runs_a_job_in_one_pod() -> Result<()> {
    runs_a_job("slurm-26.05", "26.05").await
}

async fn runs_a_job(recipe: &str, version: &str) -> Result<()> {
    let rig = Rig::shared().await?;
    let kubectl = Kubectl::in_fresh_namespace(rig, "slurm").await?;
    let default = image("slurm-24.11")?;
    assert_eq!(EXAMPLE.matches(&default).count(), 4, "the example names its image in four places");
    kubectl.apply(&EXAMPLE.replace(&default, &image(recipe)?))?;
    kubectl.wait_ready(&["slurm"])?;
    let slurmd = |command: &[&str]| {
        kubectl.run(&[&["exec", "slurm", "--container", "slurmd", "--"], command].concat())
    };
    assert!(slurmd(&["srun", "--version"])?.contains(version));
    assert_eq!(slurmd(&["srun", "hostname"])?, "slurm\n");

    let job =
        slurmd(&["sbatch", "--parsable", "--output", "/tmp/job.out", "--wrap", "echo job $SLURM_JOB_ID"])?;
    let job = job.trim();
    kubectl.wait_until("the batch job has run", || {
        Ok(slurmd(&["cat", "/tmp/job.out"])? == format!("job {job}\n"))
    })?;

    let ask = "eval $(scontrol token); exec 3<>/dev/tcp/127.0.0.1/6820; \
               printf \"GET /slurm/v0.0.42/ping HTTP/1.1\\r\\nHost: slurm\\r\\nConnection: close\\r\\nX-SLURM-USER-TOKEN: $1$SLURM_JWT\\r\\n\\r\\n\" >&3; \
               timeout 10 cat <&3";
    let answer = slurmd(&["bash", "-c", ask])?;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let body = answer.split_once("\r\n\r\n").context("no body")?.1;
    assert!(body.contains("\"responding\": true"), "{body}");
    // slurmrestd answers a ping of anyone; a token that slurmctld does not take gets no further.
    let refused = slurmd(&["bash", "-c", ask, "ask", "forged"])?;
    assert!(refused.contains("\"responding\": false"), "a bad token: {refused}");
    Ok(())
}
