//! The definitions on a real API server: what it accepts, what it refuses and with which words, and what it makes of it.

#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic, reason = "this file is a test")]

mod apply;
mod cluster_rules;
mod core_types;
mod crds;
mod defaults;
mod examples;
mod manifests;
mod round_trip;
mod rules;
mod server;
