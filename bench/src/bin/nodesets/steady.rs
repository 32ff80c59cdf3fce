//! Nothing changes: what it costs. Then one thing changes. A peer does the same work.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use bench::mb;
use kube::api::{Patch, PatchParams};
use rig::{Call, Namespace};
use serde_json::json;

use crate::options::{Options, Peer};
use crate::place::{Place, With, is_write, told};
use crate::pods::{Pods, Stage};
use crate::report::Report;
use crate::slurm::{Requests, Slurm};
use crate::subject::{Program, Running};
use crate::work::{Work, is_complete};

const PATIENCE: Duration = Duration::from_secs(1800);
/// The operator looks at Slurm every 30 s at last; after this time that pace is reached, and everything is written.
const SETTLE: Duration = Duration::from_secs(75);
/// A change of a pod is seen at once.
const POD_CHANGE: Duration = Duration::from_secs(15);
/// A change of a node is seen with the next look, 33 s later at most.
const NODE_CHANGE: Duration = Duration::from_secs(50);
const WITH: With = With { audit: true, kwok: true };

/// A set that is complete, and the program that made it.
struct Scene {
    running: Running,
    place: Place,
    slurm: Slurm,
    work: Work,
    created: Duration,
    ready: Duration,
    _home: Namespace,
}

/// What a time in which nothing happens costs.
struct Quiet {
    calls: usize,
    writes: Vec<Call>,
    cpu: Duration,
    memory: u64,
    requests: Requests,
}

pub async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let count = options.workers;
    report.part(&format!("steady: {count} workers, {} s", options.seconds));
    let ours = {
        let scene = grow(&Program::ours(options)?, count, None).await?;
        scene
            .work
            .until_status("w", PATIENCE, |status| is_complete(status, count))
            .await
            .with_context(|| scene.running.last_words())?;
        let quiet = scene.quiet(options.seconds).await?;
        told_of(report, "ours", &scene, &quiet);
        limits(report, &quiet, options.seconds);
        changes(report, &scene, count).await?;
        (scene.created, scene.ready, quiet)
    };
    if let Some(peer) = Program::peer(&options.peer)? {
        report.note(format!("peer: {} {}", peer.path(), options.peer.flags));
        let scene = grow(&peer, count, Some(&options.peer)).await?;
        let quiet = scene.quiet(options.seconds).await?;
        told_of(report, "peer", &scene, &quiet);
        let (created, ready, own) = ours;
        let ratio = |peer: f64, ours: f64| peer / ours.max(0.001);
        report.note(format!(
            "peer / ours: time to create {:.1}, time to all ready {:.1}, API calls {}, RSS {:.1}, CPU {:.1}",
            ratio(scene.created.as_secs_f64(), created.as_secs_f64()),
            ratio(scene.ready.as_secs_f64(), ready.as_secs_f64()),
            if own.calls == 0 {
                format!("{} to 0", quiet.calls)
            } else {
                format!("{:.1}", ratio(quiet.calls as f64, own.calls as f64))
            },
            ratio(quiet.memory as f64, own.memory as f64),
            ratio(quiet.cpu.as_secs_f64(), own.cpu.as_secs_f64()),
        ));
    }
    Ok(())
}

/// Starts everything, and waits until all workers are ready.
async fn grow(program: &Program, count: usize, peer: Option<&Peer>) -> Result<Scene> {
    let objects = peer.and_then(|peer| peer.objects.as_deref());
    let place = if objects.is_some() { Place::bare(WITH).await? } else { Place::start(WITH).await? };
    let hosts = [format!("w-[0-{}]", count - 1)];
    let slurm = Slurm::start(&hosts, peer.map_or(0, |peer| peer.rest_port)).await?;
    let home = place.namespace("sets").await?;
    let work = Work::new(&place.client, home.name());
    let pods = Pods::follow(place.client.clone(), home.name());
    let running = program.start(&place.plane.kubeconfig(), home.name())?;
    // It fills its caches meanwhile, so that only the work is measured.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let begun = match objects {
        None => {
            work.connect(&slurm.proxy.url(), &slurm.token).await?;
            tokio::time::sleep(Duration::from_secs(5)).await;
            let begun = Instant::now();
            work.make("w", count).await?;
            begun
        }
        Some(file) => {
            let begun = Instant::now();
            apply(&place, file, home.name(), &slurm, count)?;
            begun
        }
    };
    let created =
        pods.until(Stage::Made, count, PATIENCE).await.with_context(|| running.last_words())? - begun;
    let ready = pods.until(Stage::Ready, count, PATIENCE).await? - begun;
    Ok(Scene { running, place, slurm, work, created, ready, _home: home })
}

/// Applies a file of the user's, with what is only known now put in.
fn apply(place: &Place, file: &Path, namespace: &str, slurm: &Slurm, count: usize) -> Result<()> {
    let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let text = text
        .replace("NAMESPACE", namespace)
        .replace("SERVER", &slurm.proxy.url())
        .replace("TOKEN", &slurm.token)
        .replace("REPLICAS", &count.to_string());
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("objects.yaml");
    std::fs::write(&path, text)?;
    // Definitions and objects of their kinds may be in one file: the second time all kinds are known.
    let apply = || {
        let mut command = place.plane.kubectl();
        command.args(["apply", "--server-side", "--namespace", namespace, "--filename"]).arg(&path);
        command.output()
    };
    let first = apply()?;
    if first.status.success() {
        return Ok(());
    }
    std::thread::sleep(Duration::from_secs(2));
    let second = apply()?;
    anyhow::ensure!(second.status.success(), "{}", String::from_utf8_lossy(&second.stderr));
    Ok(())
}

impl Scene {
    async fn quiet(&self, seconds: u64) -> Result<Quiet> {
        tokio::time::sleep(SETTLE).await;
        let before = self.place.calls().await?.len();
        let (begun, cpu) = (Instant::now(), self.running.cpu()?);
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        let (cpu, requests) = (self.running.cpu()? - cpu, self.slurm.requests(begun));
        let memory = self.running.memory()?;
        let calls = self.place.calls().await?;
        let calls = calls.get(before..).unwrap_or_default();
        let writes = calls.iter().filter(|call| is_write(call)).cloned().collect();
        Ok(Quiet { calls: calls.len(), writes, cpu, memory, requests })
    }

    /// The writes that follow a change.
    async fn writes_after(&self, change: impl AsyncFn() -> Result<()>, time: Duration) -> Result<Vec<Call>> {
        let before = self.place.calls().await?.len();
        change().await?;
        tokio::time::sleep(time).await;
        let calls = self.place.calls().await?;
        Ok(calls.get(before..).unwrap_or_default().iter().filter(|call| is_write(call)).cloned().collect())
    }
}

fn told_of(report: &Report, who: &str, scene: &Scene, quiet: &Quiet) {
    let Requests { nodes, jobs, others, .. } = quiet.requests;
    report.note(format!(
        "{who}: created in {:.2} s, all ready in {:.2} s; then {} API calls ({} writes), {:.2} s CPU, {:.1} MB RSS; \
         slurmrestd was asked for {nodes} lists of nodes, {jobs} of jobs, {others} others",
        scene.created.as_secs_f64(),
        scene.ready.as_secs_f64(),
        quiet.calls,
        quiet.writes.len(),
        quiet.cpu.as_secs_f64(),
        mb(quiet.memory),
    ));
}

fn limits(report: &mut Report, quiet: &Quiet, seconds: u64) {
    report.at_most("API writes in steady state", quiet.writes.len() as f64, 0.0, "");
    show(report, &quiet.writes);
    let per_minute = quiet.cpu.as_secs_f64() * 60.0 / seconds as f64;
    report.at_most("CPU per minute", per_minute, 0.5, "s");
    report.at_most("RSS", mb(quiet.memory), 60.0, "MB");
    let out_of_turn = quiet.requests.out_of_turn as f64;
    report.at_most("lists beyond one of nodes and one of jobs per look", out_of_turn, 0.0, "");
}

fn show(report: &Report, writes: &[Call]) {
    for call in writes.iter().take(10) {
        report.note(told(call));
    }
}

/// One pod changes, then one node of Slurm.
async fn changes(report: &mut Report, scene: &Scene, count: usize) -> Result<()> {
    let name = format!("w-{}", count / 2);
    let unready = json!({ "status": { "conditions": [{
        "type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T00:00:00Z",
    }] } });
    let change = async || {
        let pods = scene.work.pods();
        pods.patch_status(&name, &PatchParams::default(), &Patch::Strategic(&unready)).await?;
        Ok(())
    };
    let writes = scene.writes_after(change, POD_CHANGE).await?;
    report.at_most("writes after one pod changed", writes.len() as f64, 2.0, "");
    show(report, &writes);
    report.at_least("writes that show that it was seen", writes.len() as f64, 1.0, "");

    let drain = ["scontrol", "update", "NodeName=w-0", "State=DRAIN", "Reason=disk"];
    let change = async || scene.slurm.machine.exec(&drain).map(drop);
    let writes = scene.writes_after(change, NODE_CHANGE).await?;
    report.at_most("writes after one Slurm node changed", writes.len() as f64, 2.0, "");
    show(report, &writes);
    report.at_least("writes that show that it was seen", writes.len() as f64, 1.0, "");
    Ok(())
}
