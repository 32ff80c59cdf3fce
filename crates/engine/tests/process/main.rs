//! What a process has around its controllers: settings, logs, probes, metrics, and the kinds that may be absent.

#![allow(clippy::expect_used, clippy::panic, reason = "this file is a test")]

mod docs;
mod metrics_access;
mod optional_kinds;
mod server;
mod silence;
