//! `slurm.nebius.ai`: the kinds of Nebius Soperator 1.23, with the fields that later versions added.
//!
//! A field that 1.23 has carries 1.23's default. A later field is optional, and absent means what 1.23 does.

mod active_check;
mod jailed_config;
mod jailed_files;
mod node_configurator;
mod node_set;
mod shared;
pub mod slurm_cluster;
mod topology_config;

pub use active_check::*;
pub use jailed_config::*;
pub use jailed_files::*;
pub use node_configurator::*;
pub use node_set::*;
pub use shared::*;
pub use slurm_cluster::{SlurmCluster, SlurmClusterSpec, SlurmClusterStatus};
pub use topology_config::*;

/// The API group.
pub const GROUP: &str = "slurm.nebius.ai";

pub(crate) fn unconfined() -> String {
    "unconfined".into()
}
