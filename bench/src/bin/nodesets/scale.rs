//! From 0 to many workers and back, against raw loops with the same concurrency in the same run.
//!
//! Before and after ours runs a raw loop; their mean counts, because the API server gets slower as it fills.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use crate::options::Options;
use crate::place::{Place, With, summary};
use crate::pods::{Pods, Stage};
use crate::report::{Report, rate};
use crate::slurm::Slurm;
use crate::subject::Program;
use crate::work::{PARALLEL, Raw, Work, is_complete};

const PATIENCE: Duration = Duration::from_secs(600);
/// So many times the workers must work, too.
const MANY: usize = 5;
/// After all is done, until the next measurement begins.
const PAUSE: Duration = Duration::from_secs(5);

pub async fn run(options: &Options, report: &mut Report) -> Result<()> {
    report.part(&format!("scale: 0 to {0} and back, {PARALLEL} calls at a time", options.workers));
    let pattern = out(options, report).await?;
    back(options, report, &pattern).await
}

/// How long a raw loop takes until the last of its pods is seen.
async fn raw_creates(place: &Place, pattern: &Pod, count: usize) -> Result<Duration> {
    let namespace = place.namespace("raw").await?;
    let raw = Raw::like(pattern, Work::new(&place.client, namespace.name()));
    let pods = Pods::follow(place.client.clone(), namespace.name());
    let begun = Instant::now();
    raw.create(count).await?;
    Ok(pods.until(Stage::Made, count, PATIENCE).await? - begun)
}

/// How long a raw loop takes until the last of its running pods is seen to leave.
async fn raw_deletes(place: &Place, pattern: &Pod, count: usize) -> Result<Duration> {
    let namespace = place.namespace("raw").await?;
    let raw = Raw::like(pattern, Work::new(&place.client, namespace.name()));
    let pods = Pods::follow(place.client.clone(), namespace.name());
    raw.create(count).await?;
    pods.until(Stage::Ready, count, PATIENCE).await?;
    tokio::time::sleep(PAUSE).await;
    let begun = Instant::now();
    raw.delete(count).await?;
    Ok(pods.until(Stage::Leaving, count, PATIENCE).await? - begun)
}

/// Without nodes. Returns a pod that the operator made.
async fn out(options: &Options, report: &mut Report) -> Result<Pod> {
    let (count, many) = (options.workers, options.workers * MANY);
    let place = Place::start(With { audit: true, ..With::default() }).await?;
    let hosts = [format!("w-[0-{}]", count - 1), format!("big-[0-{}]", many - 1), "warm-0".into()];
    let slurm = Slurm::start(&hosts, 0).await?;
    let home = place.namespace("sets").await?;
    let work = Work::new(&place.client, home.name());
    let running = Program::ours(options)?.start(&place.plane.kubeconfig(), home.name())?;
    work.connect(&slurm.proxy.url(), &slurm.token).await?;
    let pods = Pods::follow(place.client.clone(), home.name());
    work.make("warm", 1).await?;
    pods.until(Stage::Made, 1, PATIENCE).await.with_context(|| running.last_words())?;
    let pattern = work.pods().get("warm-0").await?;
    tokio::time::sleep(PAUSE).await;

    let before = raw_creates(&place, &pattern, count).await?;
    tokio::time::sleep(PAUSE).await;
    let known = place.calls().await?.len();
    let begun = Instant::now();
    work.make("w", count).await?;
    let made = pods.until(Stage::Made, count + 1, PATIENCE).await.with_context(|| running.last_words())?;
    let ours = made - begun;
    let quarters =
        [1, count / 4, count / 2, count * 3 / 4].map(|number| pods.until(Stage::Made, number + 1, PATIENCE));
    let mut at = Vec::new();
    for quarter in quarters {
        at.push(format!("{:.2}", (quarter.await? - begun).as_secs_f64()));
    }
    work.until_status("w", PATIENCE, |status| status.replicas == i32::try_from(count).ok()).await?;
    tokio::time::sleep(PAUSE).await;
    let calls = place.calls().await?;
    let after = raw_creates(&place, &pattern, count).await?;
    let raw = (before + after) / 2;
    report.note(format!(
        "0 to {count}: {:.2} s, {:.0} pods/s; raw loops {:.2} s and {:.2} s",
        ours.as_secs_f64(),
        rate(count, ours),
        before.as_secs_f64(),
        after.as_secs_f64(),
    ));
    report.note(format!("    its first pod and quarters after: {} s", at.join(", ")));
    report.note(format!("    its calls: {}", summary(calls.get(known..).unwrap_or_default())));
    report.at_least("rate of creation / raw loop", raw.as_secs_f64() / ours.as_secs_f64(), 0.8, "");

    let begun = Instant::now();
    work.make("big", many).await?;
    let made = pods.until(Stage::Made, count + 1 + many, PATIENCE).await;
    let time = made.with_context(|| running.last_words())? - begun;
    work.until_status("big", PATIENCE, |status| status.replicas == i32::try_from(many).ok()).await?;
    report.note(format!("0 to {many}: {:.2} s, {:.0} pods/s", time.as_secs_f64(), rate(many, time)));
    let seen = pods.count(Stage::Made).saturating_sub(count + 1);
    report.at_least(&format!("pods of a set of {many}"), seen as f64, many as f64, "");
    Ok(pattern)
}

/// With kwok's nodes.
async fn back(options: &Options, report: &mut Report, pattern: &Pod) -> Result<()> {
    let count = options.workers;
    let place = Place::start(With { audit: true, kwok: true }).await?;
    let slurm = Slurm::start(&[format!("w-[0-{}]", count - 1)], 0).await?;
    let home = place.namespace("sets").await?;
    let work = Work::new(&place.client, home.name());
    let running = Program::ours(options)?.start(&place.plane.kubeconfig(), home.name())?;
    work.connect(&slurm.proxy.url(), &slurm.token).await?;
    let pods = Pods::follow(place.client.clone(), home.name());
    let before = raw_deletes(&place, pattern, count).await?;
    tokio::time::sleep(PAUSE).await;

    let begun = Instant::now();
    work.make("w", count).await?;
    let complete = work.until_status("w", PATIENCE, |status| is_complete(status, count)).await;
    let complete = complete.with_context(|| running.last_words())?;
    let made = pods.until(Stage::Made, count, PATIENCE).await?;
    let ready = pods.until(Stage::Ready, count, PATIENCE).await?;
    report.note(format!(
        "0 to {count} while kwok makes them ready: made after {:.2} s, ready after {:.2} s",
        (made - begun).as_secs_f64(),
        (ready - begun).as_secs_f64(),
    ));
    let late = complete.saturating_duration_since(ready);
    report.at_most("from the last Ready to the complete status", late.as_secs_f64(), 3.0, "s");
    tokio::time::sleep(PAUSE).await;

    let known = place.calls().await?.len();
    let begun = Instant::now();
    work.change("w", json!({ "replicas": 0 })).await?;
    let left = pods.until(Stage::Leaving, count, PATIENCE).await.with_context(|| running.last_words())?;
    let (ours, first) = (left - begun, pods.until(Stage::Leaving, 1, PATIENCE).await? - begun);
    let (changes, looks) = (slurm.changes(begun), slurm.requests(begun).nodes);
    let calls = place.calls().await?;
    tokio::time::sleep(PAUSE).await;
    let after = raw_deletes(&place, pattern, count).await?;
    let raw = (before + after) / 2;
    report.note(format!(
        "{count} idle to 0: {:.2} s, {:.0} pods/s; raw loops {:.2} s and {:.2} s",
        ours.as_secs_f64(),
        rate(count, ours),
        before.as_secs_f64(),
        after.as_secs_f64(),
    ));
    if let Some((wait, drains, number)) = changes {
        report.note(format!(
            "    of it: {:.2} s to the first drain, {:.2} s for {number} drains, {:.2} s to the first delete, {:.2} s for deletes",
            wait.as_secs_f64(),
            drains.as_secs_f64(),
            first.saturating_sub(wait + drains).as_secs_f64(),
            ours.saturating_sub(first).as_secs_f64(),
        ));
    }
    let calls = summary(calls.get(known..).unwrap_or_default());
    report.note(format!("    its calls: {calls}; {looks} looks at Slurm"));
    report.at_least("rate of deletion / raw loop", raw.as_secs_f64() / ours.as_secs_f64(), 0.6, "");
    Ok(())
}
