//! The status of a set: a fold over the plan and what was observed. No I/O, and the clock is passed in.

use std::collections::BTreeMap;
use std::sync::Arc;

use ::nodeset::{Phase, condition as planned_condition};
use api::nebius::{NodeSet, NodeSetStatus, node_set_condition as type_, node_set_phase as phase};
use engine::condition;
use engine::malformed::VALID;
use engine::view::PodView;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Resource as _;

use super::home::DISAGREEMENT;
use super::set::NebiusSet;
use crate::references::References;
use crate::slurmcluster::{missing_references, pod_trouble};
use crate::workers::{Outcome, WorkerSet as _};

/// Reason of a condition: somebody has to bring something.
pub const MISSING: &str = "Missing";
/// The condition that is False on a set that asks for what is not built.
const SUPPORTED: &str = "Supported";

/// What keeps workers from being ready, and whether somebody has to bring something.
type Trouble = (String, bool);

/// The status after a plan.
pub fn planned(set: &NebiusSet<'_>, outcome: &Outcome<'_>) -> NodeSetStatus {
    let plan = &outcome.plan.status;
    let mut fold = Fold::new(set.object(), outcome.now);
    for condition in &plan.conditions {
        let (mut reason, mut message) = (condition.reason, condition.message.clone());
        if condition.type_ == planned_condition::PODS_READY
            && !condition.holds
            && let Some((trouble, is_missing)) = trouble(set, outcome)
        {
            message = format!("{message}; {trouble}");
            if is_missing {
                reason = MISSING;
            }
        }
        if condition.type_ == planned_condition::STATEFUL_SET_UPDATED
            && !condition.holds
            && let Some(waits) = set.update_waits()
        {
            message = format!("{message}; {waits}");
        }
        let mut holds = condition.holds;
        // None are there, as is planned for now, but not as the spec says.
        if condition.type_ == planned_condition::PODS_READY
            && !set.in_maintenance()
            && let Some(waits) = set.start_waits()
        {
            (holds, message) = (false, waits.into());
        }
        fold.put(condition.type_, holds, reason, &message);
    }
    // What a plan says nothing of is over.
    let said = |type_: &str| plan.conditions.iter().any(|condition| condition.type_ == type_);
    fold.conditions.retain(|condition| said(&condition.type_) || !of_plan(&condition.type_));
    let in_maintenance = set.in_maintenance() && plan.phase != Phase::Degraded;
    let phase = if in_maintenance { phase::TERMINATING } else { phase_text(plan.phase) };
    fold.finish(phase, plan.ready, &set.labels())
}

/// The status of a set for which nothing can be done now.
pub fn waiting(
    set: &NodeSet,
    pods: &[Arc<PodView>],
    reason: &str,
    message: &str,
    now: Timestamp,
) -> NodeSetStatus {
    let mut fold = Fold::new(set, now);
    let valid = reason != DISAGREEMENT;
    fold.put(VALID, valid, if valid { "Valid" } else { reason }, if valid { "" } else { message });
    fold.put(type_::PODS_READY, false, reason, message);
    let ready = pods.iter().filter(|pod| pod.is_ready() && !pod.is_terminating()).count();
    fold.finish(phase::PENDING, u32::try_from(ready).unwrap_or(u32::MAX), &BTreeMap::new())
}

/// Whether the condition comes from plans.
fn of_plan(type_: &str) -> bool {
    [
        planned_condition::PODS_READY,
        planned_condition::STATEFUL_SET_UPDATED,
        planned_condition::STATEFUL_SET_TERMINATED,
        planned_condition::SLURM_ANSWERS,
        planned_condition::WAITING_FOR_JOBS,
        planned_condition::VALID,
    ]
    .contains(&type_)
}

const fn phase_text(planned: Phase) -> &'static str {
    match planned {
        Phase::Pending => phase::PENDING,
        Phase::Configuring => phase::CONFIGURING,
        Phase::Provisioning => phase::PROVISIONING,
        Phase::Ready => phase::READY,
        Phase::Degraded => phase::DEGRADED,
        Phase::Terminating => phase::TERMINATING,
    }
}

/// What is wrong with the pods: what did not work, what they wait for, what they need and is not there, what they say.
fn trouble(set: &NebiusSet<'_>, outcome: &Outcome<'_>) -> Option<Trouble> {
    if let Some(failed) = outcome.failed {
        return Some((failed.into(), true));
    }
    if let Some(waits) = set.not_yet() {
        return Some((waits, false));
    }
    let mut references = References::default();
    if let Some(spec) = set.template.as_ref().and_then(|template| template.template().spec.as_ref()) {
        references.add_pod(spec);
    }
    let namespace = set.object().metadata.namespace.as_deref().unwrap_or_default();
    let missing = missing_references(set.caches, namespace, &references);
    if !missing.is_empty() {
        let messages: Vec<String> = missing.into_iter().map(|trouble| trouble.message).collect();
        return Some((messages.join("; "), true));
    }
    let trouble = outcome.pods.iter().filter(|pod| !pod.is_ready()).find_map(|pod| pod_trouble(pod))?;
    Some((trouble.message, trouble.is_missing))
}

struct Fold<'a> {
    set: &'a NodeSet,
    now: Timestamp,
    conditions: Vec<Condition>,
}

impl<'a> Fold<'a> {
    fn new(set: &'a NodeSet, now: Timestamp) -> Self {
        let conditions = set.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
        Self { set, now, conditions }
    }

    fn put(&mut self, type_: &str, holds: bool, reason: &str, message: &str) {
        let generation = self.set.meta().generation;
        condition::set(&mut self.conditions, type_, holds, reason, message, generation, self.now);
    }

    fn finish(mut self, phase: &str, ready: u32, selector: &BTreeMap<String, String>) -> NodeSetStatus {
        let unsupported = unsupported(self.set);
        if unsupported.is_empty() {
            self.conditions.retain(|condition| condition.type_ != SUPPORTED);
        } else {
            let message = format!("{} has no effect: it is not supported", unsupported.join(", "));
            self.put(SUPPORTED, false, "NotSupported", &message);
        }
        let before = self.set.status.as_ref().and_then(|status| status.label_selector.clone());
        let selector: Vec<String> = selector.iter().map(|(name, value)| format!("{name}={value}")).collect();
        NodeSetStatus {
            conditions: Some(self.conditions),
            phase: phase.into(),
            replicas: Some(i32::try_from(ready).unwrap_or(i32::MAX)),
            label_selector: if selector.is_empty() { before } else { Some(selector.join(",")) },
            observed_generation: self.set.meta().generation,
        }
    }
}

fn unsupported(set: &NodeSet) -> Vec<&'static str> {
    let mut fields = Vec::new();
    if set.spec.ephemeral_nodes == Some(true) {
        fields.push("spec.ephemeralNodes");
    }
    if set.spec.docker.is_some_and(|docker| docker.enabled == Some(true)) {
        fields.push("spec.docker.enabled");
    }
    if set.spec.node_config.as_ref().is_some_and(|config| config.auto_resume == Some(false)) {
        fields.push("spec.nodeConfig.autoResume");
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(status: Option<NodeSetStatus>) -> NodeSet {
        let text = include_str!("../../../../examples/api/slurm.nebius.ai/nodeset.yaml");
        let mut set: NodeSet = serde_saphyr::from_str(text).unwrap();
        set.status = status;
        set
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn condition(status: &NodeSetStatus, type_: &str) -> Condition {
        let mut all = status.conditions.iter().flatten();
        all.find(|condition| condition.type_ == type_).cloned().unwrap()
    }

    #[test]
    fn a_set_without_a_cluster_says_so_and_is_not_called_wrong() {
        let status = waiting(&set(None), &[], MISSING, "waiting for SlurmCluster a", at(0));
        assert_eq!(status.phase, phase::PENDING);
        assert_eq!(condition(&status, type_::PODS_READY).message, "waiting for SlurmCluster a");
        assert_eq!(condition(&status, VALID).status, "True");
    }

    #[test]
    fn a_set_that_names_two_clusters_is_wrong() {
        let status = waiting(&set(None), &[], DISAGREEMENT, "a and b", at(0));
        let valid = condition(&status, VALID);
        assert_eq!(
            (valid.status.as_str(), valid.reason.as_str(), valid.message.as_str()),
            ("False", DISAGREEMENT, "a and b")
        );
    }

    #[test]
    fn what_has_no_effect_is_said() {
        let mut set = set(None);
        let said = |set: &NodeSet| {
            let status = waiting(set, &[], MISSING, "waits", at(0));
            let mut all = status.conditions.unwrap_or_default().into_iter();
            all.find(|condition| condition.type_ == SUPPORTED).map(|condition| condition.message)
        };
        assert_eq!(said(&set), None);
        set.spec.node_config.get_or_insert_default().auto_resume = Some(false);
        assert!(said(&set).is_some_and(|message| message.contains("spec.nodeConfig.autoResume")));
        set.spec.node_config.get_or_insert_default().auto_resume = Some(true);
        assert_eq!(said(&set), None);
    }

    #[test]
    fn folding_the_same_again_changes_nothing() {
        let first = waiting(&set(None), &[], MISSING, "waits", at(0));
        assert_eq!(waiting(&set(Some(first.clone())), &[], MISSING, "waits", at(9)), first);
    }
}
