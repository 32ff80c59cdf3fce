//! The status of a set: a fold over what was observed. No I/O, and the clock is passed in.

use std::collections::BTreeMap;

use api::nebius::{NodeSet, NodeSetStatus, node_set_condition as type_, node_set_phase as phase};
use engine::condition;
use engine::malformed::VALID;
use jiff::Timestamp;
use kube::Resource as _;

/// Reason of a condition: somebody has to bring something.
pub const MISSING: &str = "Missing";
/// The condition that is False on a set that asks for what is not built.
const SUPPORTED: &str = "Supported";

/// Everything that the status tells about.
#[derive(Clone, Debug, Default)]
pub struct Observation {
    /// Why there cannot be workers: no cluster, for example.
    pub waits_for: Option<String>,
    /// How many workers there should be now.
    pub wanted: u32,
    /// Pods that are not on their way out.
    pub present: u32,
    /// Those of them that are ready.
    pub ready: u32,
    /// Those of them that were made of another template.
    pub stale: u32,
    /// What is wrong with pods, and whether somebody has to bring something.
    pub trouble: Option<(String, bool)>,
    /// Whether the cluster is in maintenance.
    pub in_maintenance: bool,
    /// Which pods the set's are.
    pub selector: BTreeMap<String, String>,
}

/// The new status.
pub fn fold(set: &NodeSet, seen: &Observation, now: Timestamp) -> NodeSetStatus {
    let before = set.status.clone().unwrap_or_default();
    let generation = set.meta().generation;
    let mut conditions = before.conditions.clone().unwrap_or_default();
    let mut put = |type_: &str, status: bool, reason: &str, message: &str| {
        condition::set(&mut conditions, type_, status, reason, message, generation, now);
    };
    put(VALID, true, "Valid", "");
    let all_ready = seen.waits_for.is_none() && seen.ready == seen.wanted && seen.present == seen.wanted;
    let numbers = format!("{} of {} workers are ready", seen.ready, seen.wanted);
    match (&seen.waits_for, &seen.trouble) {
        (Some(waits), _) => put(type_::PODS_READY, false, MISSING, waits),
        (None, _) if all_ready => put(type_::PODS_READY, true, "Ready", ""),
        (None, Some((trouble, is_missing))) => {
            let reason = if *is_missing { MISSING } else { "NotReady" };
            put(type_::PODS_READY, false, reason, &format!("{numbers}; {trouble}"));
        }
        (None, None) => put(type_::PODS_READY, false, "NotReady", &numbers),
    }
    let stale =
        format!("{} workers run an older template; they change when their pods are replaced", seen.stale);
    let stale_message = if seen.stale > 0 { stale.as_str() } else { "" };
    put(
        type_::STATEFUL_SET_UPDATED,
        seen.stale == 0,
        if seen.stale == 0 { "Updated" } else { "Outdated" },
        stale_message,
    );
    let unsupported = unsupported(set);
    if unsupported.is_empty() {
        conditions.retain(|condition| condition.type_ != SUPPORTED);
    } else {
        let message = format!("{} has no effect: it is not supported", unsupported.join(", "));
        condition::set(&mut conditions, SUPPORTED, false, "NotSupported", &message, generation, now);
    }
    let selector: Vec<String> = seen.selector.iter().map(|(name, value)| format!("{name}={value}")).collect();
    NodeSetStatus {
        conditions: Some(conditions),
        phase: phase_of(&before, seen, all_ready).into(),
        replicas: Some(i32::try_from(seen.ready).unwrap_or(i32::MAX)),
        label_selector: if selector.is_empty() { before.label_selector } else { Some(selector.join(",")) },
        observed_generation: generation,
    }
}

fn phase_of(before: &NodeSetStatus, seen: &Observation, all_ready: bool) -> &'static str {
    let was_ready = [phase::READY, phase::DEGRADED].contains(&before.phase.as_str());
    if seen.waits_for.is_some() {
        phase::PENDING
    } else if seen.in_maintenance {
        phase::TERMINATING
    } else if all_ready {
        phase::READY
    } else if was_ready && seen.present == seen.wanted {
        phase::DEGRADED
    } else {
        phase::PROVISIONING
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

    #[test]
    fn a_set_is_provisioning_then_ready_then_degraded() {
        let mut seen = Observation { wanted: 2, present: 2, ready: 1, ..Observation::default() };
        let first = fold(&set(None), &seen, at(0));
        assert_eq!((first.phase.as_str(), first.replicas), (phase::PROVISIONING, Some(1)));
        seen.ready = 2;
        let second = fold(&set(Some(first)), &seen, at(1));
        assert_eq!(second.phase, phase::READY);
        seen.ready = 1;
        seen.trouble = Some(("pod x finds no node".into(), true));
        let third = fold(&set(Some(second)), &seen, at(2));
        assert_eq!(third.phase, phase::DEGRADED);
        let ready = &third.conditions.unwrap()[1];
        assert_eq!(ready.message, "1 of 2 workers are ready; pod x finds no node");
    }

    #[test]
    fn a_set_without_a_cluster_says_so() {
        let seen =
            Observation { waits_for: Some("waiting for SlurmCluster a".into()), ..Observation::default() };
        let status = fold(&set(None), &seen, at(0));
        assert_eq!(status.phase, phase::PENDING);
        assert_eq!(status.conditions.unwrap()[1].message, "waiting for SlurmCluster a");
    }

    #[test]
    fn folding_the_same_again_changes_nothing() {
        let seen = Observation { wanted: 1, present: 1, ready: 1, ..Observation::default() };
        let first = fold(&set(None), &seen, at(0));
        assert_eq!(fold(&set(Some(first.clone())), &seen, at(9)), first);
    }
}
