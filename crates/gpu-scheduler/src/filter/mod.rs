//! Whether a pod may run on a node. Each filter says why not in the words of kube-scheduler.

mod fit;
mod gpus;
mod taints;
mod volumes;

use crate::facts::select::has_labels;
use crate::facts::{Ask, Node, Pod};
pub use fit::Usage;
pub(crate) use gpus::gpus;
pub(crate) use volumes::{Volumes, WaitsFor};

/// Why a pod cannot be placed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// The filter, as metrics name it.
    pub plugin: &'static str,
    /// A sentence without its end.
    pub text: String,
}

impl Reason {
    pub(crate) fn new(plugin: &'static str, text: impl Into<String>) -> Self {
        Self { plugin, text: text.into() }
    }
}

/// What a node itself says against a pod: its state, taints and labels. Nothing but a change of the node or pod helps.
pub(crate) fn node(node: &Node, ask: &Ask) -> Vec<Reason> {
    let mut reasons = Vec::new();
    let not_ready = !node.ready && !taints::tolerates_not_ready(node, ask);
    if not_ready {
        reasons.push(Reason::new("NodeReady", "1 node(s) were not ready"));
    }
    let cordoned = node.unschedulable && !taints::tolerates_unschedulable(ask);
    if cordoned {
        reasons.push(Reason::new("NodeUnschedulable", "1 node(s) were unschedulable"));
    }
    // The taints of these two states would say the same again.
    let state = |key: &str| {
        (not_ready && matches!(key, taints::NOT_READY | taints::UNREACHABLE))
            || (cordoned && key == taints::UNSCHEDULABLE)
    };
    if let Some(taint) = taints::untolerated(node, ask).find(|taint| !state(&taint.key)) {
        let text = format!("1 node(s) had untolerated taint {{{}: {}}}", taint.key, taint.value);
        reasons.push(Reason::new("TaintToleration", text));
    }
    let selected = has_labels(node, &ask.node_selector)
        && ask.affinity.as_ref().is_none_or(|affinity| affinity.matches(node));
    if !selected {
        reasons.push(Reason::new("NodeAffinity", "1 node(s) didn't match Pod's node affinity/selector"));
    }
    reasons
}

/// What the pods of a node leave too little of for another one. It helps when one of them goes.
pub(crate) fn room(node: &Node, usage: &Usage, pod: &Pod) -> Vec<Reason> {
    let mut reasons = usage.fit(node, &pod.requests);
    if usage.takes_port(&pod.ports) {
        reasons
            .push(Reason::new("NodePorts", "1 node(s) didn't have free ports for the requested pod ports"));
    }
    reasons
}
