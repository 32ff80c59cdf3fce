//! A job that comes between the plan and the deletion of a pod stops the deletion.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use operator::slurm_links::SlurmLinks;
use parking_lot::Mutex;
use rig::SlurmMachine;
use rig::slurm::Version;
use slurm_client::{Pace, Timeouts};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

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

/// Stands between the operator and slurmrestd, and looks at each request before it passes.
struct Between {
    slurm: Arc<SlurmMachine>,
    stage: Mutex<Stage>,
}

impl Between {
    fn see(&self, request: &str) -> Result<()> {
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
        Ok(())
    }
}

/// Passes everything on to this address, after it was looked at; returns its own.
async fn serve(between: Arc<Between>) -> Result<String> {
    let to = between.slurm.rest_url()?.trim_start_matches("http://").to_string();
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let between = Arc::clone(&between);
            let Ok(server) = TcpStream::connect(&to).await else { continue };
            tokio::spawn(async move {
                let (mut requests, mut to_client) = client.into_split();
                let (mut answers, mut to_server) = server.into_split();
                let back = tokio::spawn(async move { tokio::io::copy(&mut answers, &mut to_client).await });
                let mut bytes = vec![0; 1 << 16];
                // Nobody sends a request before the answer to the one before: what comes at once is one request.
                while let Ok(length @ 1..) = requests.read(&mut bytes).await {
                    let text = String::from_utf8_lossy(&bytes[..length]);
                    let first = text.lines().next().unwrap_or_default().to_string();
                    let between = Arc::clone(&between);
                    match tokio::task::spawn_blocking(move || between.see(&first)).await {
                        Ok(Ok(())) => {}
                        problem => eprintln!("between: {problem:?}"),
                    }
                    if to_server.write_all(&bytes[..length]).await.is_err() {
                        break;
                    }
                }
                back.abort();
            });
        }
    });
    Ok(url)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_comes_after_the_plan_keeps_its_worker() -> Result<()> {
    let slurm = machine(Version::V26_05, 2)?;
    let between = Arc::new(Between { slurm: Arc::clone(&slurm), stage: Mutex::new(Stage::Before) });
    let url = serve(Arc::clone(&between)).await?;
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
