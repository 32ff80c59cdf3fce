//! What runs on Kubernetes nodes.

use api::nebius::NodeConfigurator;
use render::check::problem::{Problem, Problems};
use render::check::quantity;

/// What is wrong with a NodeConfigurator.
#[must_use]
pub fn node_configurator(configurator: &NodeConfigurator) -> Vec<Problem> {
    let mut problems = Problems::default();
    quantity::check(&mut problems, &configurator.spec);
    problems.into_vec()
}
