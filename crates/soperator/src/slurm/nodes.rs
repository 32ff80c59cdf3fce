//! `soperator slurm nodes`, `drain` and `resume`

use std::collections::BTreeSet;
use std::io::Write;
use std::time::Duration;

use serde_json::{Value, json};
use slurm::{HostList, Node, NodeTarget, NodeUpdate, Occupancy};
use slurm_client::{Client, Lookup, Snapshot};
use tokio::time::{Instant, sleep};

use super::connection::Connection;
use super::table::cell;
use super::{Output, failed, table, wait};
use crate::cli::Error;

/// A snapshot that was just read is young enough.
const MAX_AGE: Duration = Duration::from_secs(300);
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);

#[derive(Debug, clap::Args)]
pub(super) struct ListArgs {
    #[command(flatten)]
    connection: Connection,
    /// Only these nodes, as host lists: worker-[0-3]
    #[arg(value_name = "NODE", value_parser = HostList::parse)]
    nodes: Vec<HostList>,
    /// The form of the answer
    #[arg(long, short, value_enum, default_value_t = Output::Table)]
    output: Output,
}

#[derive(Debug, clap::Args)]
pub(super) struct DrainArgs {
    #[command(flatten)]
    connection: Connection,
    /// The nodes, as host lists: worker-[0-3]
    #[arg(value_name = "NODE", required = true, value_parser = HostList::parse)]
    nodes: Vec<HostList>,
    /// Why; Slurm shows it to users
    #[arg(long, value_name = "TEXT", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    reason: String,
    /// Wait so many seconds until no job is on the nodes any more; fails if some are left
    #[arg(long, value_name = "SECONDS")]
    wait: Option<u64>,
}

#[derive(Debug, clap::Args)]
pub(super) struct ResumeArgs {
    #[command(flatten)]
    connection: Connection,
    /// The nodes, as host lists: worker-[0-3]
    #[arg(value_name = "NODE", required = true, value_parser = HostList::parse)]
    nodes: Vec<HostList>,
}

fn names(lists: &[HostList]) -> BTreeSet<String> {
    lists.iter().flat_map(HostList::names).map(String::from).collect()
}

pub(super) fn list(args: &ListArgs, out: &mut impl Write) -> Result<(), Error> {
    let client = args.connection.client()?;
    let snapshot = wait(async { client.snapshot().await.map_err(failed) })?;
    let wanted = names(&args.nodes);
    let shown = snapshot.nodes().iter().filter(|node| wanted.is_empty() || wanted.contains(&*node.name));
    match args.output {
        Output::Json => {
            let nodes: Value = shown.map(|node| json(node, &snapshot)).collect();
            writeln!(out, "{nodes}")?;
        }
        Output::Table => {
            let rows: Vec<_> = shown.map(|node| row(node, &snapshot)).collect();
            let titles = ["NODE", "STATE", "JOBS", "CPUS", "MEMORY", "PARTITIONS", "REASON"];
            table::write(out, &titles, &rows)?;
        }
    }
    let missing: Vec<&str> =
        wanted.iter().filter(|name| snapshot.node(name).is_none()).map(String::as_str).collect();
    if missing.is_empty() { Ok(()) } else { Err(no_such_nodes(&missing)) }
}

fn row(node: &Node, snapshot: &Snapshot) -> Vec<String> {
    let jobs = match snapshot.occupancy(&node.name, MAX_AGE) {
        Occupancy::Busy(_) => match snapshot.jobs_on(&node.name).count() {
            // Busy without a job that names it.
            0 => "perhaps".into(),
            count => count.to_string(),
        },
        Occupancy::Idle | Occupancy::Free => "none".into(),
    };
    vec![
        node.name.to_string(),
        cell(&node.state.to_string()),
        jobs,
        format!("{}/{}", node.alloc_cpus, node.cpus),
        format!("{}/{}M", node.alloc_memory, node.real_memory),
        cell(&node.partitions),
        cell(&node.reason),
    ]
}

fn json(node: &Node, snapshot: &Snapshot) -> Value {
    let (occupancy, why) = match snapshot.occupancy(&node.name, MAX_AGE) {
        Occupancy::Busy(reason) => ("busy", reason.to_string()),
        Occupancy::Idle => ("idle", "it takes jobs, and has none".into()),
        Occupancy::Free => ("free", "it is drained, and has no jobs".into()),
    };
    let jobs: Vec<u32> = snapshot.jobs_on(&node.name).map(|job| job.id.0).collect();
    let state = node.state.to_string();
    json!({
        "name": &*node.name,
        "state": state.split('+').filter(|word| !word.is_empty()).collect::<Vec<_>>(),
        "occupancy": occupancy,
        "why": why,
        "jobs": jobs,
        "cpus": node.cpus,
        "allocatedCpus": node.alloc_cpus,
        "memoryMiB": node.real_memory,
        "allocatedMemoryMiB": node.alloc_memory,
        "partitions": node.partitions.split(',').filter(|name| !name.is_empty()).collect::<Vec<_>>(),
        "reason": &*node.reason,
        "address": &*node.address,
        "version": &*node.version,
    })
}

pub(super) fn drain(args: &DrainArgs, out: &mut impl Write) -> Result<(), Error> {
    let client = args.connection.client()?;
    let names = names(&args.nodes);
    let update = NodeUpdate {
        state: Some(NodeTarget::Drain),
        reason: Some(args.reason.clone()),
        ..NodeUpdate::default()
    };
    wait(async {
        change(&client, &names, &update, "takes no more jobs", out).await?;
        match args.wait {
            None => Ok(()),
            Some(seconds) => wait_until_free(&client, &names, Duration::from_secs(seconds), out).await,
        }
    })
}

pub(super) fn resume(args: &ResumeArgs, out: &mut impl Write) -> Result<(), Error> {
    let client = args.connection.client()?;
    let update = NodeUpdate { state: Some(NodeTarget::Resume), ..NodeUpdate::default() };
    wait(change(&client, &names(&args.nodes), &update, "takes jobs again", out))
}

/// Changes the nodes one by one. One that is missing does not keep the others from being changed.
async fn change(
    client: &Client,
    names: &BTreeSet<String>,
    update: &NodeUpdate,
    done: &str,
    out: &mut impl Write,
) -> Result<(), Error> {
    let mut missing = Vec::new();
    for name in names {
        match client.update_node(name, update).await.map_err(|error| failed(format!("{name}: {error}")))? {
            Lookup::Found(()) => writeln!(out, "{name} {done}")?,
            Lookup::Absent => missing.push(name.as_str()),
        }
    }
    if missing.is_empty() { Ok(()) } else { Err(no_such_nodes(&missing)) }
}

/// Waits until all these nodes are drained and free, and tells of each. Fails with the reasons when time is up.
pub(crate) async fn wait_until_free(
    client: &Client,
    names: &BTreeSet<String>,
    limit: Duration,
    out: &mut impl Write,
) -> Result<(), Error> {
    let deadline = Instant::now() + limit;
    let mut waiting = names.clone();
    loop {
        let snapshot = client.snapshot().await.map_err(failed)?;
        let mut reasons = Vec::new();
        for name in std::mem::take(&mut waiting) {
            match snapshot.occupancy(&name, MAX_AGE) {
                Occupancy::Free => writeln!(out, "{name} is free")?,
                Occupancy::Busy(reason) => {
                    reasons.push(format!("{name}: {reason}"));
                    waiting.insert(name);
                }
                Occupancy::Idle => {
                    reasons.push(format!("{name}: somebody resumed it"));
                    waiting.insert(name);
                }
            }
        }
        if waiting.is_empty() {
            return Ok(());
        }
        if Instant::now() + BETWEEN_LOOKS > deadline {
            return Err(failed(format!("not free in time: {}", reasons.join("; "))));
        }
        sleep(BETWEEN_LOOKS).await;
    }
}

fn no_such_nodes(names: &[&str]) -> Error {
    failed(format!("Slurm has no such node: {}", names.join(", ")))
}
