//! A slurmrestd that tells of as many nodes and jobs as one likes: one recorded record of each, multiplied, each with its own
//! names and numbers.

use std::sync::Arc;

use anyhow::{Context, Result};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The version of the API that it speaks.
const VERSION: &str = "v0.0.45";

/// A recorded answer, cut so that records can be put in.
pub struct Recorded {
    key: &'static str,
    record: String,
    /// What stands behind the list.
    rest: String,
}

impl Recorded {
    /// A node that is idle. `pretty`: with line breaks and blanks, as slurmrestd writes it.
    pub fn node(pretty: bool) -> Result<Self> {
        Self::read("nodes", "nodes", pretty)
    }

    /// A job that runs on one node: a full record.
    pub fn job(pretty: bool) -> Result<Self> {
        Self::read("jobs", "job-running", pretty)
    }

    fn read(key: &'static str, name: &str, pretty: bool) -> Result<Self> {
        let mut answer: Value = serde_json::from_str(&golden(name)?)?;
        let write = |value: &Value| {
            if pretty { serde_json::to_string_pretty(value) } else { serde_json::to_string(value) }
        };
        let record = write(&answer[key][0])?;
        answer.as_object_mut().context("an object")?.remove(key);
        let rest = write(&answer)?;
        Ok(Self { key, record, rest: rest.trim_start_matches('{').into() })
    }

    /// How many bytes a record has.
    pub fn record_length(&self) -> usize {
        self.record.len()
    }

    /// The record with its own number and names; jobs are on nodes below `nodes`.
    fn numbered(&self, number: usize, nodes: usize) -> String {
        let one = |text: &str, new: &str, record: String| record.replacen(text, new, 1);
        if self.key == "nodes" {
            self.record.replace("node-1", &node_name(number))
        } else {
            let record = one("\"job_id\": 4,", &format!("\"job_id\": {},", number + 1), self.record.clone());
            let record = one("\"job_id\":4,", &format!("\"job_id\":{},", number + 1), record);
            record
                .replace("node-2", &node_name(number % nodes.max(1)))
                .replace("\"running\"", &format!("\"training-{number}\""))
        }
    }

    /// The answer with so many records, piece by piece.
    pub fn pieces(&self, count: usize, nodes: usize) -> impl Iterator<Item = String> + '_ {
        let first = format!("{{\"{}\": [", self.key);
        let records = (0..count).map(move |number| {
            let comma = if number == 0 { "" } else { ", " };
            format!("{comma}{}", self.numbered(number, nodes))
        });
        std::iter::once(first).chain(records).chain(std::iter::once(format!("], {}", self.rest)))
    }
}

/// The node of this number.
fn node_name(number: usize) -> String {
    format!("w-{number}")
}

fn golden(name: &str) -> Result<String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/slurm/tests/golden/slurm-26.05");
    let path = format!("{folder}/{VERSION}/{name}.json");
    std::fs::read_to_string(&path).context(path)
}

/// What the server tells.
pub struct Lists {
    /// One node.
    pub node: Recorded,
    /// One job.
    pub job: Recorded,
    /// How many nodes: `w-0`, `w-1`, ...
    pub nodes: usize,
    /// How many jobs.
    pub jobs: usize,
}

/// Serves both lists, and pings, as slurmrestd does. A request for changes of jobs gets all jobs: as if some had changed.
pub async fn serve(listener: TcpListener, lists: Arc<Lists>) -> Result<()> {
    let ping: Arc<str> = golden("ping")?.into();
    loop {
        let (stream, _) = listener.accept().await?;
        let (lists, ping) = (Arc::clone(&lists), Arc::clone(&ping));
        tokio::spawn(async move { answer(stream, &lists, &ping).await });
    }
}

async fn answer(mut stream: TcpStream, lists: &Lists, ping: &str) -> Result<()> {
    loop {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await?);
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await?;
        let head = String::from_utf8(head)?;
        let path = head.split(' ').nth(1).unwrap_or_default();
        if path.contains("/openapi/") {
            send(&mut stream, &format!("{{\"paths\": {{\"/slurm/{VERSION}/nodes/\": {{}}}}}}")).await?;
        } else if path.contains("/ping") {
            send(&mut stream, ping).await?;
        } else {
            let (list, count) =
                if path.contains("/nodes") { (&lists.node, lists.nodes) } else { (&lists.job, lists.jobs) };
            for piece in list.pieces(count, lists.nodes) {
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
