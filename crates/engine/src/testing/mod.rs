//! For tests: faults between a controller and the real API server, and sweeps over all places where they can happen.

mod fault;
pub mod sweep;
mod watch;
mod world;

pub use fault::{Fault, Injector, Schedule, Write};
pub use watch::WatchFault;
pub use world::World;
