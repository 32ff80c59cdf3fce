//! Reads 10,000 nodes and 100,000 jobs, as real Slurm writes them, over a real connection into a snapshot.
//!
//! One recorded record is multiplied, each with its own names and numbers. Two things are promised: the peak of memory stays
//! within 40 MB above idle, snapshot included, and reading is at least twice as fast as `serde_json::Value` over the whole body.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bench::{forget_peak, mb, memory, peak};
use serde_json::Value;
use slurm::wire::{ListDecoder, Record};
use slurm::{Interner, Job, Node};
use slurm_client::{Client, StaticToken};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const NODES: usize = 10_000;
const JOBS: usize = 100_000;
/// `Value` cannot hold all jobs in the memory of a small machine, so the race is over these.
const RACE: usize = 5_000;
const VERSION: &str = "v0.0.45";

/// A recorded answer, cut so that records can be put in.
struct Recorded {
    key: &'static str,
    record: String,
    /// What stands behind the list.
    rest: String,
}

impl Recorded {
    fn read(key: &'static str, name: &str, pretty: bool) -> Result<Self> {
        let path = format!(
            "{}/../crates/slurm/tests/golden/slurm-26.05/{VERSION}/{name}.json",
            env!("CARGO_MANIFEST_DIR")
        );
        let mut answer: Value = serde_json::from_str(&std::fs::read_to_string(&path).context(path)?)?;
        let write = |value: &Value| {
            if pretty { serde_json::to_string_pretty(value) } else { serde_json::to_string(value) }
        };
        let record = write(&answer[key][0])?;
        answer.as_object_mut().context("an object")?.remove(key);
        let rest = write(&answer)?;
        Ok(Self { key, record, rest: rest.trim_start_matches('{').into() })
    }

    /// The record with its own number and names.
    fn numbered(&self, number: usize) -> String {
        let one = |text: &str, new: &str, record: String| record.replacen(text, new, 1);
        if self.key == "nodes" {
            self.record.replace("node-1", &format!("worker-{number:05}"))
        } else {
            let record = one("\"job_id\": 4,", &format!("\"job_id\": {},", number + 1), self.record.clone());
            let record = one("\"job_id\":4,", &format!("\"job_id\":{},", number + 1), record);
            record
                .replace("node-2", &format!("worker-{:05}", number % NODES))
                .replace("\"running\"", &format!("\"training-{number}\""))
        }
    }

    /// The answer with so many records, piece by piece.
    fn pieces(&self, count: usize) -> impl Iterator<Item = String> + '_ {
        let first = format!("{{\"{}\": [", self.key);
        let records = (0..count).map(move |number| {
            let comma = if number == 0 { "" } else { ", " };
            format!("{comma}{}", self.numbered(number))
        });
        std::iter::once(first).chain(records).chain(std::iter::once(format!("], {}", self.rest)))
    }

    fn body(&self, count: usize) -> Vec<u8> {
        self.pieces(count).collect::<String>().into_bytes()
    }
}

/// Serves both lists as slurmrestd does.
async fn serve(listener: TcpListener, nodes: Arc<Recorded>, jobs: Arc<Recorded>) -> Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        let (nodes, jobs) = (Arc::clone(&nodes), Arc::clone(&jobs));
        tokio::spawn(async move { answer(stream, &nodes, &jobs).await });
    }
}

async fn answer(mut stream: TcpStream, nodes: &Recorded, jobs: &Recorded) -> Result<()> {
    loop {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await?);
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await?;
        let head = String::from_utf8(head)?;
        if head.contains("/openapi/") {
            send(&mut stream, &format!("{{\"paths\": {{\"/slurm/{VERSION}/nodes/\": {{}}}}}}")).await?;
        } else {
            let (list, count) = if head.contains("/nodes") { (nodes, NODES) } else { (jobs, JOBS) };
            for piece in list.pieces(count) {
                send(&mut stream, &piece).await?;
            }
        }
        stream.write_all(b"0\r\n\r\n").await?;
    }
}

async fn send(stream: &mut TcpStream, piece: &str) -> Result<()> {
    stream.write_all(format!("{:x}\r\n{piece}\r\n", piece.len()).as_bytes()).await?;
    Ok(())
}

/// How long reading takes our way, and by `Value` over the whole body.
fn race<R: Record>(recorded: &Recorded) -> Result<(Duration, Duration, usize)> {
    let body = recorded.body(RACE);
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
    // As slurmrestd writes it: with line breaks and blanks. A job running on one node is a full record.
    let (nodes, jobs) =
        (Recorded::read("nodes", "nodes", true)?, Recorded::read("jobs", "job-running", true)?);
    println!("a node has {} bytes, a job {} bytes", nodes.record.len(), jobs.record.len());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    // First, while memory is small.
    let (nodes, jobs) = (Arc::new(nodes), Arc::new(jobs));
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let server = tokio::spawn(serve(listener, Arc::clone(&nodes), Arc::clone(&jobs)));
        let read = read_everything(address).await;
        server.abort();
        read
    })?;
    let mut slow = false;
    for (name, (ours, theirs, bytes)) in [("nodes", race::<Node>(&nodes)?), ("jobs", race::<Job>(&jobs)?)] {
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
