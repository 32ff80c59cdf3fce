//! `soperator gpu-scheduler check`.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use gpu_scheduler::check::{self, Options, Places};

use crate::cli::Error;

/// Its arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", env = "LOG_INTERVAL", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    interval: u64,
    /// Look once only
    #[arg(long)]
    once: bool,
    /// File with the pod's annotations, of a downward API volume
    #[arg(long, value_name = "FILE", default_value = "/etc/podinfo/annotations")]
    annotations: PathBuf,
}

pub(super) fn run(args: &Args, out: &mut impl Write) -> Result<(), Error> {
    let places = Places { annotations: args.annotations.clone(), proc: "/proc".into(), dev: "/dev".into() };
    let interval = (!args.once).then_some(Duration::from_secs(args.interval));
    let env = |name: &str| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
    check::run(&Options { places, interval }, &env, out).map_err(|error| Error::Refused(error.to_string()))
}
