//! `soperator gpu-scheduler scheduler`.

use engine::settings::Flags;

use crate::cli::Error;
use crate::role::Role;

/// Its arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    flags: Flags,
}

pub(super) fn run(args: &Args) -> Result<(), Error> {
    let _ = &args.flags;
    Err(Error::NotBuilt(Role::GpuScheduler))
}
