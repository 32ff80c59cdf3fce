//! `soperator slurm ping`

use std::io::Write;

use serde_json::{Value, json};
use slurm::ControllerPing;

use super::connection::Connection;
use super::{Output, failed, table, wait};
use crate::cli::Error;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    connection: Connection,
    /// The form of the answer
    #[arg(long, short, value_enum, default_value_t = Output::Table)]
    output: Output,
}

pub(super) fn run(args: &Args, out: &mut impl Write) -> Result<(), Error> {
    let client = args.connection.client()?;
    let pings = wait(async { client.ping().await.map_err(failed) })?;
    match args.output {
        Output::Json => writeln!(out, "{}", json(&pings))?,
        Output::Table => {
            let row = |ping: &ControllerPing| {
                let state = if ping.responding { "up" } else { "no answer" };
                let role = if ping.primary { "primary" } else { "backup" };
                vec![ping.hostname.clone(), role.into(), state.into(), format!("{} µs", ping.latency)]
            };
            let rows: Vec<_> = pings.iter().map(row).collect();
            table::write(out, &["CONTROLLER", "ROLE", "STATE", "TOOK"], &rows)?;
        }
    }
    if pings.iter().any(|ping| ping.responding) {
        return Ok(());
    }
    Err(failed("no controller answers; either slurmctld is down, or it does not believe the token"))
}

fn json(pings: &[ControllerPing]) -> Value {
    pings
        .iter()
        .map(|ping| {
            json!({
                "hostname": ping.hostname, "primary": ping.primary, "responding": ping.responding,
                "latencyMicroseconds": ping.latency,
            })
        })
        .collect()
}
