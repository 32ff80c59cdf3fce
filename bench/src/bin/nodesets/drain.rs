//! From the moment when Slurm reports a node drained to the deletion of its pod, at the default pace. Slurmds and jobs are real.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::json;
use slurm::{NodeBase, NodeFlag};
use slurm_client::{Client, Lookup, StaticToken};

use crate::options::Options;
use crate::place::{Place, With};
use crate::pods::{Pods, Stage};
use crate::report::{Report, spread};
use crate::slurm::Slurm;
use crate::subject::Program;
use crate::work::{Work, is_complete};

const PATIENCE: Duration = Duration::from_secs(300);
/// How often we look whether a node is drained: often, against a second of the operator.
const LOOK: Duration = Duration::from_millis(25);

pub async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let count = options.drains;
    report.part(&format!("drain: {count} workers with a job each leave one after the other"));
    let place = Place::start(With { kwok: true, ..With::default() }).await?;
    let slurm = Slurm::with_nodes(count).await?;
    let home = place.namespace("sets").await?;
    let work = Work::new(&place.client, home.name());
    let pods = Pods::follow(place.client.clone(), home.name());
    let running = Program::ours(options)?.start(&place.plane.kubeconfig(), home.name())?;
    work.connect(&slurm.proxy.url(), &slurm.token).await?;
    work.make("w", count).await?;
    pods.until(Stage::Ready, count, PATIENCE).await.with_context(|| running.last_words())?;
    // As in real life: first the pod, then its slurmd.
    slurm.start_slurmds(count)?;
    let complete = work.until_status("w", PATIENCE, |status| is_complete(status, count)).await;
    complete.with_context(|| running.last_words())?;

    let mut jobs = Vec::new();
    for number in 0..count {
        let node = format!("w-{number}");
        let submit = ["sbatch", "--parsable", "-w", &node, "-o", "/dev/null", "--wrap", "sleep 10000"];
        jobs.push((slurm.machine.exec(&submit)?.trim().to_owned(), node));
    }
    for (job, _) in &jobs {
        slurm.machine.wait_for_job(job, &["RUNNING"])?;
    }
    work.change("w", json!({ "replicas": 0 })).await?;
    for (_, node) in &jobs {
        slurm.machine.wait_for_node(node, &["draining"])?;
    }
    let client = Client::new(slurm.machine.rest_url()?.parse()?, StaticToken::new(&slurm.token))?;
    let (begun, mut delays) = (Instant::now(), Vec::new());
    for (left, (job, node)) in jobs.iter().enumerate() {
        // Anywhere between two looks of the operator.
        tokio::time::sleep(Duration::from_millis(rand::random_range(1000..2500))).await;
        let drained = until_drained(&client, node);
        let (drained, cancelled) = tokio::join!(drained, cancel(&slurm, job));
        cancelled?;
        let drained = drained?;
        let gone = pods.until(Stage::Leaving, left + 1, PATIENCE).await;
        let gone = gone.with_context(|| running.last_words())?;
        let delay = gone.checked_duration_since(drained);
        delays.push(delay.with_context(|| format!("the pod of {node} went before its node was drained"))?);
    }
    let looks = slurm.requests(begun).nodes;
    report.note(format!("{looks} looks at Slurm in {:.0} s", begun.elapsed().as_secs_f64()));
    let (least, median, most) = spread(delays);
    report.note(format!(
        "the shortest took {:.2} s, the longest {:.2} s",
        least.as_secs_f64(),
        most.as_secs_f64()
    ));
    report.at_most("from drained to deleted, p50", median.as_secs_f64(), 1.5, "s");
    Ok(())
}

async fn cancel(slurm: &Slurm, job: &str) -> Result<()> {
    let mut command = slurm.machine.command(&["scancel", job]);
    let output = tokio::task::spawn_blocking(move || command.output()).await??;
    ensure!(output.status.success(), "scancel failed: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// A moment before which Slurm did not call the node drained: when the last question was sent that it answered otherwise. So a
/// delay is never shown shorter than it was, however late an answer comes.
async fn until_drained(client: &Client, name: &str) -> Result<Instant> {
    let begun = Instant::now();
    let mut not_yet = begun;
    loop {
        let asked = Instant::now();
        if let Lookup::Found(node) = client.node(name).await? {
            let state = &node.state;
            let free = state.base() == Some(NodeBase::Idle) && !state.has(NodeFlag::Completing);
            if state.is_drain() && free {
                return Ok(not_yet);
            }
        }
        not_yet = asked;
        if begun.elapsed() > PATIENCE {
            bail!("{name} is not drained after {} s", PATIENCE.as_secs());
        }
        tokio::time::sleep(LOOK).await;
    }
}
