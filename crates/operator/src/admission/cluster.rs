//! Slurm clusters that run elsewhere.

use api::slinky::Cluster;
use slurm_client::Server;

use super::problem::{Problem, Problems};

/// What is wrong with a Cluster of `slinky.slurm.net`.
#[must_use]
pub fn slinky_cluster(cluster: &Cluster) -> Vec<Problem> {
    let mut problems = Problems::default();
    if let Err(error) = cluster.spec.server.parse::<Server>() {
        problems.error("spec.server", format!("{error}, without a user and without a query"));
    }
    problems.into_vec()
}
