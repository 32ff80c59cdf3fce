//! `soperator gpu-scheduler status`: who has which device, and why pods wait.

use std::io::Write;

use clap::ValueEnum;
use engine::ask;
use gpu_scheduler::names;
use gpu_scheduler::status::{Status, look};
use gpu_scheduler::view::{NodeView, PodView};

use crate::cli::Error;
use crate::place::{Place, block_on, untold};

const AFTER_HELP: &str = "\
It reads nodes and pods of all namespaces, and nothing else: the reason of a pod that waits is what its condition says.

Exit codes: 0 done, 1 failed, 2 wrong arguments.";

/// Its arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The name by which pods ask for the scheduler
    #[arg(long, env = "SCHEDULER_NAME", default_value = names::SCHEDULER)]
    scheduler_name: String,
    /// Show only what is in this namespace
    #[arg(long, short, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// The form of the answer
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// Two tables
    Text,
    /// A JSON object
    Json,
}

pub(super) fn run(args: &Args, out: &mut impl Write) -> Result<(), Error> {
    block_on(show(args, out))
}

async fn show(args: &Args, out: &mut impl Write) -> Result<(), Error> {
    let Place { client, .. } = Place::find(args.namespace.as_deref()).await?;
    let nodes: Vec<NodeView> = ask::list_global(&client, "").await.map_err(untold)?;
    let pods: Vec<PodView> = ask::list(&client, None, "").await.map_err(untold)?;
    let mut status = look(&args.scheduler_name, &nodes, &pods);
    if let Some(namespace) = &args.namespace {
        status.keep(namespace);
    }
    match args.output {
        Output::Json => {
            let text =
                serde_json::to_string_pretty(&status).map_err(|error| Error::Bug(error.to_string()))?;
            writeln!(out, "{text}")?;
        }
        Output::Text => write_text(&status, out)?,
    }
    Ok(())
}

fn write_text(status: &Status, out: &mut impl Write) -> Result<(), Error> {
    if status.devices.is_empty() {
        writeln!(out, "No device is held.")?;
    } else {
        let rows = status.devices.iter().map(|held| {
            [held.node.as_str(), &held.device, &held.owner, if held.gone { "(node is gone)" } else { "" }]
        });
        table(["NODE", "DEVICE", "POD", ""], rows, out)?;
    }
    if !status.pending.is_empty() {
        writeln!(out)?;
        let rows = status.pending.iter().map(|waits| [waits.pod.as_str(), &waits.reason, &waits.message, ""]);
        table(["PENDING POD", "REASON", "MESSAGE", ""], rows, out)?;
    }
    Ok(())
}

fn table<'a>(
    head: [&'a str; 4],
    rows: impl Iterator<Item = [&'a str; 4]>,
    out: &mut impl Write,
) -> Result<(), Error> {
    let rows: Vec<[&str; 4]> = std::iter::once(head).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let (first, second, third) = (width(0), width(1), width(2));
    for [a, b, c, d] in &rows {
        let line = format!("{a:first$}  {b:second$}  {c:third$}  {d}");
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}
