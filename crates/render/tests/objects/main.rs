//! The objects that become of whole manifests.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "this file is a test")]

mod cases;
mod golden;
mod node_sets;
mod parts;
mod pods;
mod server;
