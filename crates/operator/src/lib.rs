//! The role operator: it checks objects before they are stored, and runs the controllers that build clusters.

pub mod admission;
mod agent_client;
pub mod caches;
pub mod context;
pub mod controllers;
pub mod error;
pub mod nodeset;
mod owner;
mod planted;
mod references;
mod run;
mod secrets;
pub mod slinky_cluster;
pub mod slinky_nodeset;
pub mod slurm_links;
pub mod slurmcluster;
pub mod worker_pods;
pub mod workers;

pub use run::{RunError, run};

/// The field manager of what controllers write, and the value of the label `app.kubernetes.io/managed-by`.
pub const MANAGER: &str = "slurm-operator";
