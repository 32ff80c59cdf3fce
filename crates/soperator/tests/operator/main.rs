//! The operator as a process, on a real API server: what kubectl, a kubelet and Prometheus see of it.

#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic, reason = "this file is a test")]

mod admission;
mod life;
mod process;
