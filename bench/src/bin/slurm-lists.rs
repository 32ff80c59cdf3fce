//! Reads 10,000 nodes and 100,000 jobs, as real Slurm writes them, over a real connection into a snapshot.
//!
//! One recorded record is multiplied, each with its own names and numbers. Two things are promised: the peak of memory stays
//! within 40 MB above idle, snapshot included, and reading is at least twice as fast as `serde_json::Value` over the whole body.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use bench::recorded::{Lists, Recorded, serve};
use bench::{forget_peak, mb, memory, peak};
use serde_json::Value;
use slurm::wire::{ListDecoder, Record};
use slurm::{Interner, Job, Node};
use slurm_client::{Client, StaticToken};
use tokio::net::TcpListener;

const NODES: usize = 10_000;
const JOBS: usize = 100_000;
/// `Value` cannot hold all jobs in the memory of a small machine, so the race is over these.
const RACE: usize = 5_000;

/// How long reading takes our way, and by `Value` over the whole body.
fn race<R: Record>(recorded: &Recorded) -> Result<(Duration, Duration, usize)> {
    let body = recorded.pieces(RACE, RACE).collect::<String>().into_bytes();
    let best = |work: &mut dyn FnMut() -> Result<()>| -> Result<Duration> {
        let mut best = Duration::MAX;
        for _ in 0..5 {
            let began = Instant::now();
            work()?;
            best = best.min(began.elapsed());
        }
        Ok(best)
    };
    let ours = best(&mut || {
        let (mut count, mut interner) = (0, Interner::default());
        let mut decoder = ListDecoder::<R>::new();
        // As much as comes from a socket at once.
        for piece in body.chunks(64 << 10) {
            decoder.feed(piece, &mut interner, &mut |_| count += 1)?;
        }
        ensure!(decoder.finish()?.has_list && count == RACE);
        Ok(())
    })?;
    let theirs = best(&mut || {
        let value: Value = serde_json::from_slice(&body)?;
        ensure!(value[R::LIST].as_array().is_some_and(|list| list.len() == RACE));
        Ok(())
    })?;
    Ok((ours, theirs, body.len()))
}

async fn read_everything(address: SocketAddr) -> Result<()> {
    let client = Client::new(format!("http://{address}").parse()?, StaticToken::new("token"))?;
    client.version().await?;
    let idle = memory()?;
    forget_peak()?;
    let began = Instant::now();
    let snapshot = client.snapshot().await?;
    let (took, most, held) = (began.elapsed(), peak()?, memory()?);
    ensure!(snapshot.nodes().len() == NODES && snapshot.jobs().len() == JOBS);
    let above = most.saturating_sub(idle);
    println!(
        "{NODES} nodes and {JOBS} jobs read in {:.1} s (server in the same process)",
        took.as_secs_f64()
    );
    println!("memory above idle: peak {:.1} MB, snapshot {:.1} MB", mb(above), mb(held.saturating_sub(idle)));
    println!("peak / 40 MB = {:.2} (promised: at most 1)", mb(above) / 40.0);
    if mb(above) > 40.0 {
        bail!("the peak of memory is above 40 MB");
    }
    Ok(())
}

fn main() -> Result<()> {
    // As slurmrestd writes it: with line breaks and blanks.
    let lists = Lists { node: Recorded::node(true)?, job: Recorded::job(true)?, nodes: NODES, jobs: JOBS };
    println!("a node has {} bytes, a job {} bytes", lists.node.record_length(), lists.job.record_length());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    // First, while memory is small.
    let lists = Arc::new(lists);
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let server = tokio::spawn(serve(listener, Arc::clone(&lists)));
        let read = read_everything(address).await;
        server.abort();
        read
    })?;
    let mut slow = false;
    for (name, (ours, theirs, bytes)) in
        [("nodes", race::<Node>(&lists.node)?), ("jobs", race::<Job>(&lists.job)?)]
    {
        let ratio = theirs.as_secs_f64() / ours.as_secs_f64();
        let speed = mb(bytes as u64) / ours.as_secs_f64();
        println!("{name}: {ratio:.1} times as fast as serde_json::Value (promised: 2), {speed:.0} MB/s");
        slow |= ratio < 2.0;
    }
    if slow {
        bail!("reading is not twice as fast as serde_json::Value");
    }
    Ok(())
}
