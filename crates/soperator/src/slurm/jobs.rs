//! `soperator slurm jobs`

use std::io::Write;

use serde_json::{Value, json};
use slurm::{Hold, HostList, Job};

use super::connection::Connection;
use super::table::cell;
use super::{Output, failed, table, wait};
use crate::cli::Error;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    connection: Connection,
    /// Only jobs that hold this node
    #[arg(long, value_name = "NODE")]
    node: Option<String>,
    /// Also jobs that are over
    #[arg(long, short, conflicts_with = "node")]
    all: bool,
    /// The form of the answer
    #[arg(long, short, value_enum, default_value_t = Output::Table)]
    output: Output,
}

pub(super) fn run(args: &Args, out: &mut impl Write) -> Result<(), Error> {
    let client = args.connection.client()?;
    let mut jobs = wait(async { client.jobs().await.map_err(failed) })?;
    jobs.retain(|job| match &args.node {
        Some(node) => holds(job, node),
        None => args.all || !job.state.is_finished(),
    });
    jobs.sort_by_key(|job| job.id);
    match args.output {
        Output::Json => writeln!(out, "{}", jobs.iter().map(json).collect::<Value>())?,
        Output::Table => {
            let rows: Vec<_> = jobs.iter().map(row).collect();
            let titles = ["JOB", "NAME", "USER", "PARTITION", "STATE", "NODES", "REASON"];
            table::write(out, &titles, &rows)?;
        }
    }
    Ok(())
}

/// Whether the job holds the node, or may.
fn holds(job: &Job, node: &str) -> bool {
    job.state.holds_nodes() != Hold::HoldsNot
        && HostList::parse(&job.nodes).map_or(true, |list| list.contains(node))
}

/// As users know it from squeue: tasks of arrays have two numbers.
pub(crate) fn number(job: &Job) -> String {
    match (job.array_job_id, job.array_task_id) {
        (Some(array), Some(task)) => format!("{array}_{task}"),
        _ => job.id.to_string(),
    }
}

fn row(job: &Job) -> Vec<String> {
    vec![
        number(job),
        cell(&job.name),
        cell(&job.origin.user),
        cell(&job.origin.partition),
        cell(&job.state.to_string()),
        cell(&job.nodes),
        cell(if &*job.reason == "None" { "" } else { &job.reason }),
    ]
}

fn json(job: &Job) -> Value {
    let state = job.state.to_string();
    json!({
        "id": job.id.0,
        "arrayId": job.array_job_id.map(|id| id.0),
        "arrayTask": job.array_task_id,
        "heterogeneousId": job.het_job_id.map(|id| id.0),
        "name": &*job.name,
        "user": &*job.origin.user,
        "account": &*job.origin.account,
        "partition": &*job.origin.partition,
        "state": state.split('+').filter(|word| !word.is_empty()).collect::<Vec<_>>(),
        "nodes": &*job.nodes,
        "reason": &*job.reason,
        "holdsNodes": job.state.holds_nodes() != Hold::HoldsNot,
        "submitTime": job.submit_time,
        "startTime": job.start_time,
        "endTime": job.end_time,
    })
}
