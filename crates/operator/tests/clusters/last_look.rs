//! A job that comes between the plan and the deletion of a pod stops the deletion.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use operator::slurm_links::SlurmLinks;
use parking_lot::Mutex;
use rig::SlurmMachine;
use rig::slurm::Version;
use slurm_client::{Pace, Timeouts};

use crate::slurm_between::{Fate, stand_between};
use crate::slurm_place::{SlurmPlace, machine, start_job};

/// How far the operator has come with `w-1`.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    /// It does not know yet that the node is drained.
    Before,
    /// It has asked for the nodes, of which `w-1` is a drained one.
    Nodes,
    /// It has asked for the jobs after that: none is on the node, so its pod may go.
    Jobs,
    /// This job came before it asked again.
    Came(String),
}

/// What looks at each request before it passes.
struct Between {
    slurm: Arc<SlurmMachine>,
    stage: Mutex<Stage>,
}

impl Between {
    fn see(&self, request: &str) -> Result<Fate> {
        let mut stage = self.stage.lock();
        let asks = |what: &str| request.contains(&format!("/{what}"));
        let next = match *stage {
            Stage::Before if asks("nodes") => {
                let state = self.slurm.exec(&["sinfo", "-h", "-N", "-n", "w-1", "-o", "%T"])?;
                (state.trim() == "drained").then_some(Stage::Nodes)
            }
            Stage::Nodes if asks("jobs") => Some(Stage::Jobs),
            Stage::Jobs if asks("nodes") || asks("jobs") => {
                self.slurm.exec(&["scontrol", "update", "NodeName=w-1", "State=UNDRAIN"])?;
                Some(Stage::Came(start_job(&self.slurm, "w-1", "sleep 1000")?))
            }
            _ => None,
        };
        if let Some(next) = next {
            *stage = next;
        }
        Ok(Fate::Pass)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_comes_after_the_plan_keeps_its_worker() -> Result<()> {
    let slurm = machine(Version::V26_05, 2)?;
    let between = Arc::new(Between { slurm: Arc::clone(&slurm), stage: Mutex::new(Stage::Before) });
    let looks = Arc::clone(&between);
    let url = stand_between(&slurm.rest_url()?, move |request| looks.see(request)).await?;
    let second = Duration::from_secs(1);
    let pace = Pace { fast: second, slow: second * 5, longest: second, full: second * 60 };
    // The job needs a while to start, and that must not look like a Slurm that does not answer.
    let timeouts = Timeouts { answer: second * 20, ..Timeouts::default() };
    let links = SlurmLinks::with(Box::new(move |_, _| url.clone()), pace, timeouts);
    let place = SlurmPlace::with_links("last-look", slurm, 2, links, |setup| {
        setup.controllers = vec![operator::nodeset::NAME];
    })
    .await?;
    let before = place.uids().await?;
    place.scale(1).await?;
    let job = place
        .until("the job came", async || match between.stage.lock().clone() {
            Stage::Came(job) => Ok(Some(job)),
            _ => Ok(None),
        })
        .await?;
    let told = place.until_told("WaitingForJobs", "True", &format!("job {job} is on it")).await?;
    assert!(told.contains("w-1"), "{told}");
    tokio::time::sleep(second * 3).await;
    assert_eq!(place.uids().await?, before);
    assert_eq!(place.slurm.exec(&["squeue", "-h", "-j", &job, "-o", "%T"])?.trim(), "RUNNING");
    place.slurm.exec(&["scancel", &job])?;
    place.until_pods(&["w-0"]).await?;
    assert_eq!(place.kubelet.lost(), Vec::<String>::new());
    Ok(())
}
