//! Real Slurm daemons for tests, without Kubernetes: munged, slurmctld, slurmd, slurmrestd and, if asked for, slurmdbd with
//! MariaDB, from the images of [`crate::image`].
//!
//! A [`SlurmMachine`] is one process tree in namespaces of its own, as the rig's nodes are, with the image as its root file
//! system. What it writes is in memory. It ends with the value, and with the process that holds the value however that ends;
//! nothing is left behind. It needs root.

mod conf;
mod daemons;
mod machine;
mod options;
mod root;
mod setup;
mod tree;

pub use conf::{basic_lines, node_name};
pub use daemons::DATABASE_ROOT;
pub use machine::SlurmMachine;
pub use options::{Options, Version};
pub use tree::Running;
