//! What users do with Slurm on the login pod.

use anyhow::{Context, Result, bail};

use super::Cluster;

/// A job that was submitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job(pub String);

impl Cluster {
    /// Submits a batch job; its output goes nowhere.
    pub fn sbatch(&self, options: &str, script: &str) -> Result<Job> {
        let script = script.replace('\'', "'\\''");
        let id = self
            .run(&format!("sbatch --parsable --chdir /tmp --output /dev/null {options} --wrap '{script}'"))?;
        // `ID;CLUSTER` where several clusters share a database.
        let id = id.trim().split(';').next().unwrap_or_default().to_string();
        if id.is_empty() {
            bail!("sbatch named no job");
        }
        Ok(Job(id))
    }

    /// The state of a job as slurmctld has it now.
    pub fn job_state(&self, job: &Job) -> Result<String> {
        let shown = self.on_controller(&["scontrol", "show", "job", "--oneliner", &job.0])?;
        let state = shown.split_whitespace().find_map(|word| word.strip_prefix("JobState="));
        Ok(state.with_context(|| format!("no state in {shown}"))?.to_string())
    }

    /// Waits until a job runs.
    pub fn wait_running(&self, job: &Job) -> Result<()> {
        self.wait(&format!("job {} runs", job.0), || Ok(self.job_state(job)? == "RUNNING"))
    }

    /// Waits until a job has ended well; any other end is an error at once.
    pub fn wait_completed(&self, job: &Job) -> Result<()> {
        let ended = std::cell::RefCell::new(None);
        self.wait(&format!("job {} is over", job.0), || {
            let state = self.job_state(job)?;
            let over =
                !["PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED"].contains(&state.as_str());
            if over {
                *ended.borrow_mut() = Some(state);
            }
            Ok(over)
        })?;
        match ended.into_inner().as_deref() {
            Some("COMPLETED") => Ok(()),
            other => bail!("job {} ended as {other:?}\n{}", job.0, self.story()),
        }
    }

    /// The state of a job as the accounting database has it; empty if it does not have it.
    pub fn recorded_state(&self, job: &Job) -> Result<String> {
        let rows =
            self.run(&format!("sacct --allocations --noheader --parsable2 --format state --jobs {}", job.0))?;
        Ok(rows.lines().next().unwrap_or_default().to_string())
    }

    /// A value of `scontrol show config`.
    pub fn config_value(&self, key: &str) -> Result<String> {
        let shown = self.on_controller(&["scontrol", "show", "config"])?;
        let value = shown.lines().find_map(|line| {
            let (name, value) = line.split_once('=')?;
            (name.trim() == key).then(|| value.trim().to_string())
        });
        value.with_context(|| format!("no {key} in the configuration"))
    }

    /// How many nodes are idle.
    pub fn idle_nodes(&self) -> Result<usize> {
        let states = self.on_controller(&["sinfo", "--Node", "--noheader", "--format", "%N %T"])?;
        let mut idle: Vec<&str> = states.lines().filter(|line| line.ends_with(" idle")).collect();
        // A node is listed once per partition.
        idle.sort_unstable();
        idle.dedup();
        Ok(idle.len())
    }

    /// Waits until all workers take jobs.
    pub fn wait_idle(&self, nodes: usize) -> Result<()> {
        self.wait(&format!("{nodes} nodes are idle"), || Ok(self.idle_nodes()? == nodes))
    }
}
