//! The text of every file that becomes of whole manifests.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "this file is a test")]

mod cases;
mod daemons;
mod golden;
mod parts;
mod slurm_conf;
