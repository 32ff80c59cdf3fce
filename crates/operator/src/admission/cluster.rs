//! Slurm clusters that run elsewhere.

use api::slinky::Cluster;
use render::check::problem::{Problem, Problems};
use slurm_client::Server;

/// What is wrong with a Cluster of `slinky.slurm.net`.
#[must_use]
pub fn slinky_cluster(cluster: &Cluster) -> Vec<Problem> {
    let mut problems = Problems::default();
    if cluster.spec.server.parse::<Server>().is_err() {
        // The text is not repeated: it may hold a password.
        problems.error(
            "spec.server",
            "is no base URL of a slurmrestd; write http://HOST:6820 or https://HOST:6820, without user, password and query",
        );
    }
    problems.into_vec()
}
