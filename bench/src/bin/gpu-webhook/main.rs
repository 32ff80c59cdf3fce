//! The webhook of the GPU scheduler on a real API server: pod creates with and without it, and reviews sent straight to it.

mod idle;
mod place;
mod wire;

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use bench::cpu_time;
use clap::Parser;
use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, PostParams};
use place::{Asked, Place, has_devices, pod};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::sleep_until;
use wire::Connection;

/// Creates at once, as in the raw loops of the other benchmarks.
const IN_FLIGHT: usize = 32;
/// Connections that stay open, as an API server has them.
const CONNECTIONS: usize = 64;
/// Creates per second that leave the API server of a small machine some air: ten times what a controller manager sends by default.
const PACE: u32 = 200;
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
    /// Pods of each round: few, and many rounds, as a small machine is slow now and then for seconds
    #[arg(long, default_value_t = 600)]
    pods: usize,
    /// Rounds without a webhook, with the idle one and with ours each
    #[arg(long, default_value_t = 15)]
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
    let pace = paced(&place, args).await?;
    let late = open_loop(&place, args).await?;
    closed_loop(&place).await?;
    ensure!(
        ratio >= LEAST_RATIO,
        "over its limit: creates through the webhook are {:.1} % of those through one that takes no time",
        100.0 * ratio
    );
    ensure!(pace >= LEAST_RATIO, "over its limit: {:.1} % of the pace without the webhook", 100.0 * pace);
    ensure!(late < P99, "over its limit: p99 is {late:?}");
    Ok(())
}

/// The same pods without a webhook, through one that takes no time itself, and through ours, round by round, so that what changes on the
/// machine meets all of them.
///
/// As many creates as go take the whole machine, and most of what a webhook costs is the API server's: it encodes the pod, calls, applies
/// the patch, and decodes and checks the pod again. So ours is held against a webhook that answers the same and takes no time.
async fn creates(place: &Place, args: &Args) -> Result<f64> {
    const WHO: [Asked; 3] = [Asked::Nobody, Asked::Idle, Asked::Ours];
    let mut rates: [Vec<f64>; 3] = Default::default();
    // The first round warms everything up.
    for round in 0..=args.rounds {
        for turn in 0..WHO.len() {
            // Each is first in turn: the API server is slower right after a clean-up.
            let who = (turn + round) % WHO.len();
            let rate = round_of(place, args.pods, WHO[who], round).await?;
            if round > 0 {
                rates[who].push(rate);
                println!("round {round}: {rate:.0} creates/s, asked: {:?}", WHO[who]);
            }
        }
    }
    let [nobody, idle, ours] = rates.map(|mut rates| median(&mut rates));
    println!(
        "creates, {IN_FLIGHT} at once: {nobody:.0}/s without a webhook, {idle:.0}/s through one that takes no time, {ours:.0}/s through ours: \
         {:.1} % and {:.1} % (limit {:.0} %)",
        100.0 * ours / nobody,
        100.0 * ours / idle,
        100.0 * LEAST_RATIO
    );
    Ok(ours / idle)
}

/// Creates per second.
async fn round_of(place: &Place, count: usize, asked: Asked, round: usize) -> Result<f64> {
    let namespace = place.namespace(asked);
    let api = Api::<Pod>::namespaced(place.client(), namespace);
    let begun = Instant::now();
    let made = stream::iter(0..count)
        .map(|number| create(&api, format!("p{round}-{number}")))
        .buffer_unordered(IN_FLIGHT)
        .collect::<Vec<_>>()
        .await;
    let took = begun.elapsed();
    for outcome in made {
        ensure!(has_devices(&outcome?) == (asked != Asked::Nobody), "asked: not {asked:?}");
    }
    place.empty(namespace).await?;
    Ok(count as f64 / took.as_secs_f64())
}

async fn create(api: &Api<Pod>, name: String) -> Result<Pod> {
    Ok(api.create(&PostParams::default(), &pod(&name)?).await?)
}

/// Pods that come at a pace which leaves the API server some air, as controllers make them: what is left of the pace.
async fn paced(place: &Place, args: &Args) -> Result<f64> {
    let mut rates = Vec::new();
    for asked in [Asked::Nobody, Asked::Ours] {
        let namespace = place.namespace(asked);
        let api = Api::<Pod>::namespaced(place.client(), namespace);
        let begun = tokio::time::Instant::now();
        let tasks: Vec<_> = (0..PACE * args.seconds)
            .map(|number| {
                let (api, due) = (api.clone(), begun + Duration::from_secs(1) * number / PACE);
                tokio::spawn(async move {
                    sleep_until(due).await;
                    create(&api, format!("paced-{number}")).await?;
                    Ok::<_, anyhow::Error>(due.elapsed())
                })
            })
            .collect();
        let mut times = Vec::new();
        for task in tasks {
            times.push(task.await??);
        }
        let rate = times.len() as f64 / begun.elapsed().as_secs_f64();
        times.sort();
        println!(
            "creates, {PACE} wanted each second, asked: {asked:?}: {rate:.1}/s, p50 {:.1} ms, p99 {:.1} ms",
            1e3 * times[times.len() / 2].as_secs_f64(),
            1e3 * times[times.len() * 99 / 100].as_secs_f64(),
        );
        rates.push(rate);
        place.empty(namespace).await?;
    }
    println!("    {:.1} % of the pace (limit {:.0} %)", 100.0 * rates[1] / rates[0], 100.0 * LEAST_RATIO);
    Ok(rates[1] / rates[0])
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
