//! A hundred sets: how soon all of them are up to date after a restart, and what they cost then.
//!
//! While the operator is down every set is changed, so that its status shows when it was looked at: with Slurm's answer, as a
//! status is not written before that.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use kube::ResourceExt as _;
use kube::api::ListParams;
use serde_json::json;

use crate::options::Options;
use crate::place::{Place, With, is_write, summary, told};
use crate::pods::{Pods, Stage};
use crate::report::Report;
use crate::slurm::Slurm;
use crate::subject::Program;
use crate::work::{Work, is_complete};

/// Workers of each set.
const EACH: usize = 10;
const PATIENCE: Duration = Duration::from_secs(600);
const SETTLE: Duration = Duration::from_secs(75);

pub async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let count = options.workers.div_ceil(EACH);
    report.part(&format!("many: {count} sets of {EACH}"));
    let program = Program::ours(options)?;
    let place = Place::start(With { audit: true, kwok: true }).await?;
    let names: Vec<String> = (0..count).map(|number| format!("s{number}")).collect();
    let hosts: Vec<String> = names.iter().map(|name| format!("{name}-[0-{}]", EACH - 1)).collect();
    let slurm = Slurm::start(&hosts, 0).await?;
    let home = place.namespace("sets").await?;
    let work = Work::new(&place.client, home.name());
    let pods = Pods::follow(place.client.clone(), home.name());
    let kubeconfig = place.plane.kubeconfig();
    let running = program.start(&kubeconfig, home.name())?;
    work.connect(&slurm.proxy.url(), &slurm.token).await?;
    for name in &names {
        work.make(name, EACH).await?;
    }
    pods.until(Stage::Ready, count * EACH, PATIENCE).await.with_context(|| running.last_words())?;
    for name in &names {
        work.until_status(name, PATIENCE, |status| is_complete(status, EACH)).await?;
    }

    drop(running);
    for name in &names {
        work.change(name, json!({ "revisionHistoryLimit": 7 })).await?;
    }
    let known = place.calls().await?.len();
    let begun = Instant::now();
    let running = program.start(&kubeconfig, home.name())?;
    until_current(&work).await.with_context(|| running.last_words())?;
    let time = begun.elapsed();
    let calls = place.calls().await?;
    report.note(format!(
        "restarted: {:.2} s of its CPU time; its calls: {}",
        running.cpu()?.as_secs_f64(),
        summary(calls.get(known..).unwrap_or_default())
    ));
    report.at_most("from a restart until all sets are reconciled", time.as_secs_f64(), 3.0, "s");

    tokio::time::sleep(SETTLE).await;
    let before = place.calls().await?.len();
    tokio::time::sleep(Duration::from_secs(options.seconds)).await;
    let calls = place.calls().await?;
    let writes: Vec<_> =
        calls.get(before..).unwrap_or_default().iter().filter(|call| is_write(call)).collect();
    report.at_most(
        &format!("API writes in {} s of steady state", options.seconds),
        writes.len() as f64,
        0.0,
        "",
    );
    for call in writes.into_iter().take(10) {
        report.note(told(call));
    }
    Ok(())
}

/// Waits until every set's status is about its newest spec.
async fn until_current(work: &Work) -> Result<()> {
    let begun = Instant::now();
    loop {
        let sets = work.sets().list(&ListParams::default()).await?;
        let behind = sets.iter().find(|set| {
            let seen = set.status.as_ref().and_then(|status| status.observed_generation);
            seen != set.metadata.generation
        });
        let Some(behind) = behind else { return Ok(()) };
        if begun.elapsed() > PATIENCE {
            bail!("the status of {} is behind after {} s", behind.name_any(), PATIENCE.as_secs());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
