//! `soperator status`: a cluster on one screen.

mod kubernetes;
mod slurm;
mod view;

use std::collections::BTreeSet;
use std::io::Write;
use std::time::Duration;

use clap::ValueEnum;
use engine::client::Client;
use tokio::time::{Instant, sleep};

use self::kubernetes::{Wanted, look};
use self::view::View;
use crate::cli::Error;
use crate::place::{Place, block_on};

const AFTER_HELP: &str = "\
It reads the SlurmCluster, its workloads and NodeSets, and asks slurmrestd through the API server with a token made from \
the cluster's key; so it needs the rights to read them, the Secret <cluster>-rest-jwt-key and services/proxy. Without the \
last two it shows the rest, and says what is missing.

Exit codes: 0 done (with --wait: available), 1 failed, 2 wrong arguments.";

/// What is shown.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The SlurmCluster; without it, every one in the namespace
    cluster: Option<String>,
    /// The namespace; without it, that of the kubeconfig
    #[arg(long, short, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Look in all namespaces
    #[arg(long, short = 'A', conflicts_with = "namespace")]
    all_namespaces: bool,
    /// Wait so many seconds until it is available, and tell what happens, and what it waits for when nothing does
    #[arg(long, value_name = "SECONDS")]
    wait: Option<u64>,
    /// The form of the answer
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For people
    Text,
    /// A JSON list of clusters
    Json,
}

const BETWEEN_LOOKS: Duration = Duration::from_millis(500);
/// How long nothing may happen before it is told why.
const PATIENCE: Duration = Duration::from_secs(10);

/// Looks, and prints what it sees.
pub(crate) fn run(args: &Args, out: &mut impl Write, notes: &mut impl Write) -> Result<(), Error> {
    block_on(show(args, out, notes))
}

async fn show(args: &Args, out: &mut impl Write, notes: &mut impl Write) -> Result<(), Error> {
    let Place { client, namespace } = Place::find(args.namespace.as_deref()).await?;
    let wanted =
        Wanted { namespace: (!args.all_namespaces).then_some(namespace), name: args.cluster.clone() };

    let mut views = match args.wait {
        None => look(&client, &wanted).await?,
        Some(seconds) => wait(&client, &wanted, Duration::from_secs(seconds), notes).await?,
    };
    for view in &mut views {
        view.slurm = slurm::ask(&client, &view.namespace, &view.name).await;
    }
    match args.output {
        Output::Json => {
            let text = serde_json::to_string_pretty(&views).map_err(|error| Error::Bug(error.to_string()))?;
            writeln!(out, "{text}")?;
        }
        Output::Text => {
            for (index, view) in views.iter().enumerate() {
                if index > 0 {
                    writeln!(out)?;
                }
                view.write(out)?;
            }
        }
    }
    let late: Vec<&str> =
        views.iter().filter(|view| !view.available).map(|view| view.name.as_str()).collect();
    match args.wait {
        Some(seconds) if !late.is_empty() => {
            Err(Error::Refused(format!("not available after {seconds} s: {}", late.join(", "))))
        }
        _ => Ok(()),
    }
}

/// Looks again and again until everything that is wanted is available, or time is up.
async fn wait(
    client: &Client,
    wanted: &Wanted,
    limit: Duration,
    notes: &mut impl Write,
) -> Result<Vec<View>, Error> {
    let start = Instant::now();
    let mut teller = Teller::default();
    loop {
        let views = look(client, wanted).await;
        let done = views.as_ref().is_ok_and(|views| views.iter().all(|view| view.available));
        for line in teller.news(views.as_deref(), start.elapsed()) {
            // Without a reader of the notes the exit code still tells.
            let _ = writeln!(notes, "{:5.1} s: {line}", start.elapsed().as_secs_f64());
        }
        if done || start.elapsed() >= limit {
            return views;
        }
        sleep(BETWEEN_LOOKS).await;
    }
}

/// Tells what changes; and, when nothing has for a while, what it waits for.
#[derive(Default)]
struct Teller {
    state: Vec<String>,
    since: Duration,
    told: BTreeSet<String>,
}

impl Teller {
    fn news(&mut self, views: Result<&[View], &Error>, now: Duration) -> Vec<String> {
        let state: Vec<String> = match views {
            Ok(views) => views.iter().map(View::line).collect(),
            // It may still be made.
            Err(error) => vec![error.to_string()],
        };
        if state != self.state {
            self.since = now;
            let old = std::mem::replace(&mut self.state, state);
            return self.state.iter().filter(|line| !old.contains(line)).cloned().collect();
        }
        if now < self.since + PATIENCE {
            return Vec::new();
        }
        let waits = views.unwrap_or_default().iter().flat_map(View::wait_lines);
        waits.filter(|line| self.told.insert(line.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::view::Wait;
    use super::*;

    #[test]
    fn what_it_waits_for_is_told_once_and_only_when_nothing_moves() {
        let wait = Wait { condition: "A".into(), message: "no image".into(), ..Wait::default() };
        let view = View {
            namespace: "n".into(),
            name: "c".into(),
            phase: "Pending".into(),
            waits: vec![wait],
            ..View::default()
        };
        let views = [view];
        let mut teller = Teller::default();
        let mut at = |seconds| teller.news(Ok(&views), Duration::from_secs(seconds));
        assert_eq!(at(0), ["n/c: Pending"]);
        assert!(at(9).is_empty());
        assert_eq!(at(10), ["A: no image"]);
        assert!(at(30).is_empty());
    }
}
