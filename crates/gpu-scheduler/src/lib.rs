//! Pins pods to nodes and devices. A pod names its place in a map ([`map`]); the scheduler checks that it fits there, keeps a
//! ledger of who has which device, and binds.
//!
//! Without the feature `server` only the core is left, which does no I/O and knows no clock.

#[cfg(feature = "server")]
pub mod certs;
#[cfg(feature = "server")]
pub mod check;
pub mod core;
pub mod facts;
pub mod filter;
pub mod index;
pub mod ledger;
pub mod map;
pub mod names;
pub mod nodes;
pub mod quantity;
pub mod queue;
#[cfg(feature = "server")]
pub mod server;
#[cfg(feature = "server")]
pub mod status;
#[cfg(test)]
mod testing;
#[cfg(feature = "server")]
pub mod view;
#[cfg(feature = "server")]
pub mod webhook;
