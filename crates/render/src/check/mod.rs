//! What schema and CEL rules cannot say about a cluster and its parts. Admission asks the same.

pub mod duration;
pub mod problem;
pub mod quantity;
mod slurm_cluster;
pub mod slurm_text;
mod volumes;
pub mod worker;

pub use slurm_cluster::slurm_cluster;
