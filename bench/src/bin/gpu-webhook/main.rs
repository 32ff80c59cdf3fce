//! The webhook of the GPU scheduler on a real API server: pod creates with and without it, and reviews sent straight to it.

mod place;
mod wire;

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use bench::cpu_time;
use clap::Parser;
use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, PostParams};
use place::{Place, pod};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::sleep_until;
use wire::Connection;

/// Creates at once, as in the raw loops of the other benchmarks.
const IN_FLIGHT: usize = 32;
/// Connections that stay open, as an API server has them.
const CONNECTIONS: usize = 64;
const RATE: u32 = 500;
const P99: Duration = Duration::from_millis(5);
const LEAST_RATIO: f64 = 0.95;

/// How fast the GPU scheduler's webhook is.
#[derive(Debug, Parser)]
struct Args {
    /// Be the webhook, with these flags of `soperator gpu-scheduler webhook`; what is measured is a process of its own
    #[arg(long, num_args = 1.., allow_hyphen_values = true)]
    serve: Option<Vec<String>>,
    /// Measure this program `soperator` instead
    #[arg(long)]
    program: Option<std::path::PathBuf>,
    /// Pods of each round
    #[arg(long, default_value_t = 1500)]
    pods: usize,
    /// Rounds with and without the webhook each
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Seconds of the open loop
    #[arg(long, default_value_t = 20)]
    seconds: u32,
}

fn main() -> Result<()> {
    let args = Args::parse();
    match &args.serve {
        Some(flags) => place::serve(flags),
        None => tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()?
            .block_on(measure(&args)),
    }
}

async fn measure(args: &Args) -> Result<()> {
    let place = Place::start(args.program.as_deref()).await?;
    let ratio = creates(&place, args).await?;
    let late = open_loop(&place, args).await?;
    closed_loop(&place).await?;
    ensure!(
        ratio >= LEAST_RATIO,
        "over its limit: creates through the webhook are {:.1} % of those through one that costs nothing",
        100.0 * ratio
    );
    ensure!(late < P99, "over its limit: p99 is {late:?}");
    Ok(())
}

/// The same pods with the webhook and without, round by round, so that what changes on the machine meets both.
///
/// Creates at this rate take the whole machine, and most of what a webhook costs is the API server's: it encodes the pod, calls, applies
/// the patch, and decodes and checks the pod again. So ours is held against a webhook that takes no time itself: what share of the
/// machine is left to the others.
async fn creates(place: &Place, args: &Args) -> Result<f64> {
    let process = place.process().to_string();
    let cores = std::thread::available_parallelism()?.get() as f64;
    let (mut with, mut without, mut left) = (Vec::new(), Vec::new(), Vec::new());
    // The first round warms everything up.
    for round in 0..=args.rounds {
        let plain = round_of(place, args.pods, false, round).await?;
        let before = cpu_time(&process)?;
        let asked = round_of(place, args.pods, true, round).await?;
        let own = (cpu_time(&process)? - before).as_secs_f64() * asked / args.pods as f64 / cores;
        let rates = [plain, asked];
        if round > 0 {
            left.push(1.0 - own);
            without.push(rates[0]);
            with.push(rates[1]);
            println!(
                "round {round}: {:.0} creates/s without the webhook, {:.0} through it",
                rates[0], rates[1]
            );
        }
    }
    println!(
        "creates: {:.0}/s without, {:.0}/s through the webhook: {:.1} %, {IN_FLIGHT} at once; {:.1} % of one that costs nothing (limit {:.0} %)",
        median(&mut without),
        median(&mut with),
        100.0 * median(&mut with) / median(&mut without),
        100.0 * median(&mut left),
        100.0 * LEAST_RATIO
    );
    Ok(median(&mut left))
}

/// Creates per second. Those that are not asked about go to a namespace that the registration leaves out; all else is the same.
async fn round_of(place: &Place, count: usize, asked: bool, round: usize) -> Result<f64> {
    let namespace = place.namespace(asked);
    let api = Api::<Pod>::namespaced(place.client(), namespace);
    let begun = Instant::now();
    let made = stream::iter(0..count)
        .map(|number| {
            let api = api.clone();
            async move {
                api.create(&PostParams::default(), &pod(&format!("p{round}-{number}"))?)
                    .await
                    .map_err(anyhow::Error::from)
            }
        })
        .buffer_unordered(IN_FLIGHT)
        .collect::<Vec<_>>()
        .await;
    let took = begun.elapsed();
    for outcome in made {
        let spec = outcome?.spec.unwrap_or_default();
        let injected = spec
            .containers
            .iter()
            .flat_map(|one| one.env.iter().flatten())
            .any(|one| one.name == "CUDA_VISIBLE_DEVICES");
        ensure!(injected == asked, "the webhook was {}asked", if injected { "" } else { "not " });
    }
    place.empty(namespace).await?;
    Ok(count as f64 / took.as_secs_f64())
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Reviews at fixed times, whatever became of those before, while one client holds a connection and says nothing.
async fn open_loop(place: &Place, args: &Args) -> Result<Duration> {
    let silent = TcpStream::connect(place.address).await?;
    let (free, mut next) = mpsc::channel(CONNECTIONS);
    for _ in 0..CONNECTIONS {
        free.send(Connection::open(place.address, &place.bundle).await?).await?;
    }
    let (tell, mut told) = mpsc::unbounded_channel();
    let review = place.review();
    let begun = tokio::time::Instant::now() + Duration::from_millis(100);
    let total = RATE * args.seconds;
    for number in 0..total {
        let due = begun + Duration::from_secs(1) * number / RATE;
        sleep_until(due).await;
        let (free, tell, review) = (free.clone(), tell.clone(), review.clone());
        let Some(mut connection) = next.recv().await else { break };
        tokio::spawn(async move {
            let outcome = connection.post("/mutate", &review).await;
            let _ = tell.send(outcome.map(|_| due.elapsed()));
            let _ = free.send(connection).await;
        });
    }
    drop(tell);
    let mut times = Vec::new();
    while let Some(time) = told.recv().await {
        times.push(time?);
    }
    drop(silent);
    times.sort();
    let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize];
    println!(
        "open loop: {} reviews at {RATE}/s over {CONNECTIONS} connections, one silent client beside: p50 {:.2} ms, p99 {:.2} ms (limit {} ms), most {:.2} ms",
        times.len(),
        1e3 * at(0.5).as_secs_f64(),
        1e3 * at(0.99).as_secs_f64(),
        P99.as_millis(),
        1e3 * at(1.0).as_secs_f64()
    );
    Ok(at(0.99))
}

/// As many reviews as go, for what one costs.
async fn closed_loop(place: &Place) -> Result<()> {
    const TIME: Duration = Duration::from_secs(5);
    let process = place.process().to_string();
    let (before, begun) = (cpu_time(&process)?, Instant::now());
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let (address, bundle, review) = (place.address, place.bundle.clone(), place.review());
            tokio::spawn(async move {
                let mut connection = Connection::open(address, &bundle).await?;
                let mut count = 0u32;
                while begun.elapsed() < TIME {
                    connection.post("/mutate", &review).await?;
                    count += 1;
                }
                Ok::<_, anyhow::Error>(count)
            })
        })
        .collect();
    let mut count = 0;
    for task in tasks {
        count += task.await??;
    }
    let (took, spent) = (begun.elapsed(), cpu_time(&process)? - before);
    println!(
        "closed loop: {:.0} reviews/s, {:.0} reviews per CPU second of the webhook, {:.1} MB",
        f64::from(count) / took.as_secs_f64(),
        f64::from(count) / spent.as_secs_f64(),
        bench::mb(bench::memory_of(&process)?)
    );
    Ok(())
}
