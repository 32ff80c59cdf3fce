//! The comment of a Slurm node, which says whose it is (`slinky.slurm.net` only).

use serde::{Deserialize, Serialize};
use slurm::Node;

use crate::drain;
use crate::facts::{Api, Set};
use crate::view::Worker;

/// What the comment says. Older versions of Slinky write the first two only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Comment {
    pub(crate) namespace: String,
    pub(crate) pod_name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) node: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) node_set_name: String,
    #[serde(default, rename = "nodeSetUID", skip_serializing_if = "String::is_empty")]
    pub(crate) node_set_uid: String,
    /// Why somebody else drained the node. Scripts of pods overwrite the reason when they stop, and nobody could tell
    /// afterwards that the drain is not ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) held: Option<String>,
}

impl Comment {
    /// Reads a comment. None if it is not of this shape.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// Whether it names this pod.
    pub(crate) fn names(&self, set: &Set<'_>, pod: &str) -> bool {
        self.namespace == set.namespace && self.pod_name == pod
    }
}

/// The comment that the node of a healthy pod should have, if it is not there already.
pub(crate) fn wanted(set: &Set<'_>, worker: &Worker<'_>) -> Option<String> {
    if set.api != Api::Slinky || (!worker.is_healthy() && is_kept(set, worker)) {
        return None;
    }
    let node = worker.node?;
    let known = Comment::parse(&node.comment);
    let wanted = Comment {
        namespace: set.namespace.into(),
        pod_name: worker.pod.name.into(),
        node: worker.pod.kube_node.as_ref().map(|node| node.name.to_owned()).unwrap_or_default(),
        node_set_name: set.name.into(),
        node_set_uid: set.uid.into(),
        held: held(node, known.as_ref()),
    };
    if known.as_ref() == Some(&wanted) {
        return None;
    }
    serde_json::to_string(&wanted).ok()
}

/// Whether it would be known after the pod stopped who drained the node.
pub(crate) fn is_kept(set: &Set<'_>, worker: &Worker<'_>) -> bool {
    let drained = worker.node.filter(|node| set.api == Api::Slinky && node.state.is_drain());
    drained.is_none_or(|node| {
        Comment::parse(&node.comment).is_some_and(|known| held(node, Some(&known)) == known.held)
    })
}

fn held(node: &Node, known: Option<&Comment>) -> Option<String> {
    if !drain::is_others(node) {
        return None;
    }
    let known = known.and_then(|comment| comment.held.clone());
    // The script of a pod that stopped has overwritten the reason; the one that it had is still the right one.
    if &*node.reason == drain::STOP_REASON && known.is_some() { known } else { Some(node.reason.to_string()) }
}
