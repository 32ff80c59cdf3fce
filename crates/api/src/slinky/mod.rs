//! `slinky.slurm.net`: the kinds of SchedMD's Slinky, as of its versions 0.2 and 0.3.

mod cluster;
mod node_set;

pub use cluster::*;
pub use node_set::*;

/// The API group.
pub const GROUP: &str = "slinky.slurm.net";
/// The only version of the group.
pub const VERSION: &str = "v1alpha1";
