//! JailedConfigs on a real API server, and a jail in a folder.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "these are tests")]

mod bad_input;
mod behaviour;
mod place;
mod slurm;
mod sweep;
