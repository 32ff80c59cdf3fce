//! `soperator gpu-scheduler certs`.

use std::io::Write;

use crate::cli::Error;
use crate::role::Role;

/// Its arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(super) fn run(_args: &Args, _out: &mut impl Write) -> Result<(), Error> {
    Err(Error::NotBuilt(Role::GpuScheduler))
}
