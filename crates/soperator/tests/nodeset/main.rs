//! `soperator nodeset` on a real API server, where no operator runs, and with real Slurm daemons.

#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic, reason = "this file is a test")]

mod objects;
mod place;
mod with_slurm;
