//! The role sconfigcontroller: it writes the files of JailedConfigs into the jail of one cluster.
//!
//! It never calls Slurm: the operator puts files below `/etc/slurm` into Slurm's configuration, slurmctld's agent tries them,
//! and the status of the SlurmCluster tells how that went.

mod caches;
mod context;
pub mod controller;
mod error;
pub mod jail;
mod member;
mod memory;
mod options;
mod plan;
mod reconcile;
mod run;
mod status;
mod unit;
mod verdict;

pub use context::Times;
pub use options::Flags;
pub use run::{RunError, run};

/// The field manager of what the role writes.
pub const MANAGER: &str = "sconfigcontroller";
