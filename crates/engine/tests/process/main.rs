//! What a process has around its controllers: settings, logs, probes, metrics, and the kinds that may be absent.

mod docs;
mod metrics_access;
mod optional_kinds;
mod server;
