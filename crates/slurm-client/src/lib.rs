//! The only crate that talks to slurmrestd: a REST client, and a poller that feeds every consumer in a process.
//!
//! - [`Client`] does single calls, over TCP, TLS or a Unix socket. "Cannot know" is an [`Error`], "is not there" is
//!   [`Lookup::Absent`]: callers cannot mix them up.
//! - [`Poller`] reads nodes and jobs again and again, and hands out [`Snapshot`]s.

mod client;
mod clock;
mod connect;
mod error;
mod poller;
mod server;
mod snapshot;
mod token;
mod transport;

pub use client::{Client, ClientBuilder, Lookup};
pub use clock::now;
pub use connect::TlsError;
pub use error::{Error, Stage};
pub use poller::{Changed, Health, Pace, Poller, Stale, Subscription, WatchGuard};
pub use server::{Server, ServerError};
pub use snapshot::Snapshot;
pub use token::{
    FileToken, KeySource, MintedToken, StaticToken, TokenProblem, TokenProvider, random_bytes, unix_time,
};
pub use transport::Timeouts;
