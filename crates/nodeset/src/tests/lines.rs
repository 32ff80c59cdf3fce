//! slurm.conf in a simulated world: which NodeName lines the operator writes there (`operator::slurmcluster::worker_lines`, which
//! has tests of its own for rule 4 of the law). A world in which a pod goes too early then loses a line under a job.

use crate::facts::{Facts, Owner};
use crate::revision::choose;
use crate::scale;
use crate::view::View;

/// A line of slurm.conf.
pub(crate) struct NodeLine {
    /// The NodeName.
    pub(crate) node: String,
    /// The label of the revision that its pod runs, if that is known.
    pub(crate) revision: Option<String>,
}

/// The lines of the pods that exist, and of those that are about to be made.
pub(crate) fn node_lines(facts: &Facts<'_>) -> Vec<NodeLine> {
    let view = View::new(facts);
    let chosen = choose(facts);
    let known = |label: &str| label == chosen.update || chosen.revision(label).is_some();
    let mut lines: Vec<NodeLine> = facts
        .pods
        .iter()
        .filter(|pod| pod.owner == Owner::Set)
        .filter_map(|pod| {
            facts.set.ordinal_of(pod.name)?;
            let revision = pod.revision.filter(|label| known(label)).map(str::to_owned);
            Some(NodeLine { node: pod.slurm_node.to_owned(), revision })
        })
        .collect();
    if facts.set.deletion.is_none() && scale::can_create(&view) {
        for ordinal in scale::decide(&view).missing {
            let revision = Some(chosen.for_ordinal(facts, ordinal).to_owned());
            lines.push(NodeLine { node: facts.set.node_name(ordinal), revision });
        }
    }
    lines
}
