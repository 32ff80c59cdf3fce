//! The one careful way to talk to Kubernetes: a client that repeats only what is safe, caches that lose no event, a
//! controller runtime, and apply that writes nothing needlessly.

pub mod admission;
pub mod apply;
pub mod ask;
pub mod binding;
pub mod cache;
pub mod client;
pub mod condition;
pub mod controller;
pub mod error;
pub mod events;
pub mod finalizer;
mod follow;
mod key;
pub mod leader;
pub mod logging;
pub mod malformed;
pub mod objects;
pub mod optional_kinds;
pub mod required_kinds;
mod scope;
mod serve;
pub mod server;
pub mod service_proxy;
pub mod settings;
pub mod status;
#[cfg(feature = "testing")]
pub mod testing;
pub mod view;

pub use key::Key;
pub use scope::Scope;
