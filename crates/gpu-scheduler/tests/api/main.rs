//! The scheduler on a real API server.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "this file is a test")]

mod answers;
mod faults;
mod life;
mod placing;
mod world;
