//! What is written on pods: conditions with the state of their Slurm node, the label that guards them, and annotations.

use std::collections::BTreeMap;

use slurm::{NodeBase, NodeFlag, NodeState};

use crate::drain;
use crate::facts::{Api, Cordon, Facts};
use crate::plan::{Action, MarkChanges};
use crate::view::{Life, Worker};

/// The types of our conditions begin with this.
pub const CONDITION_PREFIX: &str = "SlurmNodeState";

/// The changes that a pod needs, if any. `condemned`: whether it is to leave; none if that is not to be changed.
pub(crate) fn changes(facts: &Facts<'_>, worker: &Worker<'_>, condemned: Option<bool>) -> Option<Action> {
    if worker.pod.terminating {
        return None;
    }
    let marks = MarkChanges {
        conditions: conditions(worker),
        protected: protected(facts, worker),
        deadline: deadline(worker),
        cordoned: condemned.and_then(|condemned| cordoned(facts, worker, condemned)),
    };
    (marks != MarkChanges::default()).then(|| Action::MarkPod { pod: worker.reference(), marks })
}

/// One condition for each word of the node's state that means something to others.
fn conditions(worker: &Worker<'_>) -> Option<BTreeMap<String, String>> {
    // What was true stays written while Slurm does not answer. A pod that never started is not behind the record yet.
    let node = worker.node.filter(|_| worker.life != Life::NeverStarted)?;
    let reason = drain::present_reason(node);
    let wanted: BTreeMap<String, String> =
        words(&node.state).map(|word| (format!("{CONDITION_PREFIX}{word}"), reason.to_owned())).collect();
    let known: BTreeMap<&str, &str> = worker.pod.marks.conditions.iter().copied().collect();
    let same =
        wanted.len() == known.len() && wanted.iter().zip(&known).all(|((a, b), (c, d))| a == c && b == d);
    (!same).then_some(wanted)
}

/// The words of a state that become conditions, as Slinky spells them.
fn words(state: &NodeState) -> impl Iterator<Item = &'static str> {
    let base = state.base().map(|base| match base {
        NodeBase::Unknown => "Unknown",
        NodeBase::Down => "Down",
        NodeBase::Idle => "Idle",
        NodeBase::Allocated => "Allocated",
        NodeBase::Error => "Error",
        NodeBase::Mixed => "Mixed",
        NodeBase::Future => "Future",
    });
    let flags = state.flags().filter_map(|flag| match flag {
        NodeFlag::Completing => Some("Completing"),
        NodeFlag::Drain => Some("Drain"),
        NodeFlag::Fail => Some("Fail"),
        NodeFlag::InvalidReg => Some("InvalidReg"),
        NodeFlag::Maintenance => Some("Maintenance"),
        NodeFlag::NotResponding => Some("NotResponding"),
        NodeFlag::Undrain => Some("Undrain"),
        _ => None,
    });
    base.into_iter().chain(flags.collect::<Vec<_>>())
}

/// Whether the label that guards the pod against eviction must change.
///
/// A pod is made with it. It loses it only when its node is drained and free: the next job may come to an idle node at any
/// moment, and nobody knows of a node that Slurm does not tell of. Cordoning a Kubernetes node drains, so it lets the pods go.
fn protected(facts: &Facts<'_>, worker: &Worker<'_>) -> Option<bool> {
    let wanted = match worker.life {
        _ if !facts.set.protect => false,
        Life::NeverStarted | Life::Ended | Life::NodeGone => return None,
        Life::Running if planted!(GuardsAllocatedOnly) => {
            worker.node.is_some_and(|node| node.state.is_at_work())
        }
        Life::Running => worker.may_go(facts).is_err(),
    };
    (wanted != worker.pod.marks.protected).then_some(wanted)
}

/// Until when jobs keep a drained node. Not written for others: each short job would be a write.
fn deadline(worker: &Worker<'_>) -> Option<Option<crate::UnixTime>> {
    let node = worker.node?;
    let wanted = if node.state.is_drain() { worker.until.time() } else { None };
    (wanted != worker.pod.marks.deadline).then_some(wanted)
}

/// Whether our mark "this one leaves" must change. A user's own is the user's.
fn cordoned(facts: &Facts<'_>, worker: &Worker<'_>, condemned: bool) -> Option<bool> {
    match (facts.set.api, worker.pod.cordon) {
        (Api::Nebius, _) | (_, Cordon::User) => None,
        // While Slurm says nothing, who leaves first may still change.
        _ if condemned && worker.node.is_none() => None,
        (Api::Slinky, cordon) => (condemned != (cordon == Cordon::Ours)).then_some(condemned),
    }
}
