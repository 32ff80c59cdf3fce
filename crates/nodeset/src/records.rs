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
    if view.lists.distrust().is_some() {
        return Vec::new();
    }
    left(view)
        .filter(|(ordinal, node)| {
            !scale.wanted.contains(ordinal) && !view.lists.occupancy(&node.name).is_busy()
        })
        .map(|(_, node)| Action::DeleteSlurmNode { node: node.name.to_string() })
        .collect()
}

/// The ordinals of records that somebody else drained. The next pod takes such a name before any other, so that the drain
/// outlives the pod that it was made for.
pub(crate) fn held(view: &View<'_>) -> BTreeSet<u32> {
    left(view).filter(|(_, node)| drain::is_others(node)).map(|(ordinal, _)| ordinal).collect()
}

/// Records of dynamic nodes of the set that no pod stands behind, with their ordinals.
fn left<'f>(view: &View<'f>) -> impl Iterator<Item = (u32, &'f Node)> {
    let (set, pods, is_fresh) = (&view.facts.set, &view.facts.pods, view.lists.is_fresh());
    let names: BTreeSet<&str> = pods.iter().flat_map(|pod| [pod.name, pod.slurm_node]).collect();
    view.lists.nodes().filter(move |node| is_fresh && is_dead(node)).filter_map(move |node| {
        let ordinal = set.ordinal_of_node(&node.name)?;
        let pod = set.pod_name(ordinal);
        let has_pod = names.contains(&*node.name) || names.contains(&*pod);
        (!has_pod && was_ours(set, node, &pod)).then_some((ordinal, node))
    })
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
        let of_many = |reason: &str| !planted!(RecordsOfOneOnly) && reason.starts_with(&drain::of_many(set));
        let names_pod = |reason: &str| reason.contains(&format!("Pod ({})", set.full_name(pod)));
        reason.is_some_and(|reason| names_pod(reason) || of_many(reason))
            || (set.api == Api::Nebius && drain::is_agents(node))
    };
    match Comment::parse(&node.comment) {
        Some(comment) => comment.names(set, pod),
        None => by_reason(),
    }
}
