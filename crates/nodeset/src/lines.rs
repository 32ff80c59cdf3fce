//! Which NodeName lines slurm.conf must have: law, rule 4.

use crate::facts::{Facts, Owner};
use crate::revision::choose;
use crate::scale;
use crate::view::View;

/// A line that slurm.conf must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeLine {
    /// The NodeName.
    pub node: String,
    /// The ordinal of its pod.
    pub ordinal: u32,
    /// The label of the revision that the line must be written from, because its pod runs it. None: the pod has no revision
    /// that is known, so a line that is there already must stay as it is.
    pub revision: Option<String>,
    /// Its pod is not there yet, and is about to be made. Such a line may come early where its name has an address already
    /// (slurmctld waits for each name that it cannot resolve); nothing is lost without it.
    pub coming: bool,
}

/// The nodes of the set that slurm.conf must name, sorted by ordinal, for sets whose nodes are static.
///
/// Every pod that exists has its line, also one that leaves or terminates, written from the revision that it runs: Slurm fails
/// the jobs of a node that is missing from slurm.conf, or whose CPUs or GRES changed. The number of replicas takes away
/// nothing.
pub fn node_lines(facts: &Facts<'_>) -> Vec<NodeLine> {
    let view = View::new(facts);
    let chosen = choose(facts);
    let known = |label: &str| label == chosen.update || chosen.revision(label).is_some();
    let mut lines: Vec<NodeLine> = facts
        .pods
        .iter()
        .filter(|pod| pod.owner == Owner::Set)
        .filter_map(|pod| {
            let ordinal = facts.set.ordinal_of(pod.name)?;
            if planted!(LinesFromReplicas) && ordinal >= facts.set.replicas {
                return None;
            }
            let mut revision = pod.revision.filter(|label| known(label)).map(str::to_owned);
            if planted!(LinesOfTheNewest) {
                revision = Some(chosen.update.clone());
            }
            Some(NodeLine { node: pod.slurm_node.to_owned(), ordinal, revision, coming: false })
        })
        .collect();
    if facts.set.deletion.is_none() && scale::can_create(&view) {
        for ordinal in scale::decide(&view).missing {
            let revision = Some(chosen.for_ordinal(facts, ordinal).to_owned());
            lines.push(NodeLine { node: facts.set.node_name(ordinal), ordinal, revision, coming: true });
        }
    }
    lines.sort_by_key(|line| line.ordinal);
    lines
}
