//! Bad servers: each kind of failure becomes its own typed error in time, and the poller loses nothing.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "this file is a test")]

mod calls;
mod failures;
mod polling;
mod server;
mod tls;
mod versions;

use std::time::Duration;

use server::Server;
use slurm_client::{Client, StaticToken, Timeouts};

/// Short limits, so that tests end soon.
const SHORT: Timeouts = Timeouts {
    connect: Duration::from_millis(500),
    answer: Duration::from_millis(500),
    idle: Duration::from_millis(300),
    call: Duration::from_secs(2),
    list: Duration::from_secs(2),
};

fn client(server: &Server) -> Client {
    let url = server.url().parse().unwrap();
    Client::builder(url, StaticToken::new("token")).timeouts(SHORT).retries(0).build().unwrap()
}
