//! The role operator: it checks objects before they are stored, and runs the controllers that build clusters.

pub mod admission;
mod run;

pub use run::{RunError, run};
