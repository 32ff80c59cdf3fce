//! Records of dynamic nodes that no pod stands behind any more.

use std::collections::BTreeSet;

use slurm::{Node, NodeBase, NodeFlag};

use crate::comment::Comment;
use crate::drain::{self, REASON_PREFIX};
use crate::facts::{Api, Set};
use crate::plan::Action;
use crate::scale::Scale;
use crate::view::View;

/// Deletes the records of nodes whose pods are gone for good.
pub(crate) fn decide(view: &View<'_>, scale: &Scale) -> Vec<Action> {
    if !view.lists.is_fresh() || view.lists.distrust().is_some() {
        return Vec::new();
    }
    let set = &view.facts.set;
    let pods = &view.facts.pods;
    let names: BTreeSet<&str> = pods.iter().flat_map(|pod| [pod.name, pod.slurm_node]).collect();
    view.lists
        .nodes()
        .filter(|node| {
            let Some(ordinal) = set.ordinal_of_node(&node.name) else { return false };
            let pod = set.pod_name(ordinal);
            let has_pod = names.contains(&*node.name) || names.contains(&*pod);
            !has_pod
                && !scale.wanted.contains(&ordinal)
                && is_dead(node)
                && was_ours(set, node, &pod)
                && !view.lists.occupancy(&node.name).is_busy()
        })
        .map(|node| Action::DeleteSlurmNode { node: node.name.to_string() })
        .collect()
}

/// A dynamic node that takes no jobs.
fn is_dead(node: &Node) -> bool {
    let state = &node.state;
    let no_jobs =
        state.is_drain() || state.base() == Some(NodeBase::Down) || state.has(NodeFlag::NotResponding);
    state.has(NodeFlag::DynamicNorm) && no_jobs
}

/// Whether the record says that it was ours: a node of the same name may be somebody else's.
fn was_ours(set: &Set<'_>, node: &Node, pod: &str) -> bool {
    let by_reason = || {
        let reason = node.reason.strip_prefix(REASON_PREFIX);
        // Our agent is in the workers of `slurm.nebius.ai`, whose Slurm has no others of these names.
        reason.is_some_and(|reason| reason.contains(&format!("Pod ({})", set.full_name(pod))))
            || (set.api == Api::Nebius && drain::is_agents(node))
    };
    match Comment::parse(&node.comment) {
        Some(comment) => comment.names(set, pod),
        None => by_reason(),
    }
}
