//! Pins pods to nodes and devices. A pod names its place in a map ([`map`]); the scheduler checks that it fits there, keeps a
//! ledger of who has which device, and binds.
//!
//! Without the feature `server` only the core is left, which does no I/O and knows no clock.

#[cfg(feature = "server")]
pub mod certs;
#[cfg(feature = "server")]
pub mod check;
pub mod index;
pub mod map;
pub mod names;
#[cfg(feature = "server")]
pub mod webhook;
