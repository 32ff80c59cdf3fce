//! The status of a Slinky NodeSet, from the planner's.

use api::slinky::{NodeSet, NodeSetStatus};
use jiff::Timestamp;
use nodeset::condition;

use super::selector::PodSelector;

/// The types of conditions that are ours; others stay as they are.
const OURS: &[&str] = &[
    condition::PODS_READY,
    condition::SLURM_ANSWERS,
    condition::UPDATED,
    condition::VALID,
    condition::WAITING_FOR_JOBS,
];

/// The status after a plan. `trouble` says why pods are not ready, as far as that is known.
pub fn fold(
    set: &NodeSet,
    selector: &PodSelector,
    seen: &nodeset::Status,
    trouble: Option<&str>,
    now: Timestamp,
) -> NodeSetStatus {
    let before = set.status.clone().unwrap_or_default();
    let count = |number: u32| Some(i32::try_from(number).unwrap_or(i32::MAX));
    let generation = set.metadata.generation;
    let mut conditions = before.conditions.unwrap_or_default();
    conditions.retain(|known| {
        !OURS.contains(&known.type_.as_str()) || seen.conditions.iter().any(|new| new.type_ == known.type_)
    });
    for new in &seen.conditions {
        let mut message = new.message.clone();
        if new.type_ == condition::PODS_READY
            && !new.holds
            && let Some(trouble) = trouble
        {
            message = format!("{message}; {trouble}");
        }
        engine::condition::set(&mut conditions, new.type_, new.holds, new.reason, &message, generation, now);
    }
    // While Slurm tells nothing, what it told last stays.
    let slurm = |new: fn(&nodeset::SlurmCounts) -> u32, before: Option<i32>| {
        seen.slurm.as_ref().map_or(before, |counts| count(new(counts)))
    };
    NodeSetStatus {
        replicas: count(seen.replicas),
        updated_replicas: count(seen.updated),
        ready_replicas: count(seen.ready),
        available_replicas: count(seen.available),
        unavailable_replicas: count(seen.unavailable),
        slurm_idle: slurm(|counts| counts.idle, before.slurm_idle),
        slurm_allocated: slurm(|counts| counts.allocated, before.slurm_allocated),
        slurm_down: slurm(|counts| counts.down, before.slurm_down),
        slurm_drain: slurm(|counts| counts.drain, before.slurm_drain),
        observed_generation: generation,
        node_set_hash: seen.hash.clone(),
        collision_count: count(seen.collisions),
        conditions: (!conditions.is_empty()).then_some(conditions),
        selector: selector.text(),
    }
}

#[cfg(test)]
mod tests {
    use nodeset::{Condition, SlurmCounts, Status};
    use serde_json::{Value, json};

    use super::super::tests::set;
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn seen() -> Status {
        Status {
            replicas: 4,
            updated: 3,
            ready: 2,
            available: 1,
            unavailable: 3,
            slurm: Some(SlurmCounts { idle: 1, allocated: 2, down: 1, drain: 3, registered: 4 }),
            hash: "abc".into(),
            collisions: 1,
            conditions: vec![Condition {
                type_: condition::UPDATED,
                holds: false,
                reason: "Updating",
                message: "1 workers have an old revision".into(),
            }],
            ..Status::default()
        }
    }

    fn folded(set: &NodeSet, seen: &Status, now: Timestamp) -> NodeSetStatus {
        fold(set, &PodSelector::of(set), seen, None, now)
    }

    #[test]
    fn every_field_has_its_value() {
        let mut set = set(json!({}));
        set.metadata.generation = Some(7);
        let mut status = serde_json::to_value(folded(&set, &seen(), at(0))).unwrap();
        let conditions = status["conditions"].take();
        assert_eq!(
            status,
            json!({
                "replicas": 4, "updatedReplicas": 3, "readyReplicas": 2, "availableReplicas": 1, "unavailableReplicas": 3,
                "slurmIdle": 1, "slurmAllocated": 2, "slurmDown": 1, "slurmDrain": 3,
                "observedGeneration": 7, "nodeSetHash": "abc", "collisionCount": 1,
                "conditions": null, "selector": "app=slurmd",
            })
        );
        assert_eq!((&conditions[0]["type"], &conditions[0]["status"]), (&json!("Updated"), &json!("False")));
        assert_eq!(conditions[1], Value::Null);
    }

    #[test]
    fn counts_of_slurm_stay_while_it_tells_nothing() {
        let mut set = set(json!({}));
        set.status = Some(folded(&set, &seen(), at(0)));
        let silent = folded(&set, &Status { slurm: None, ..seen() }, at(1));
        assert_eq!((silent.slurm_idle, silent.slurm_drain), (Some(1), Some(3)));
        let gone = folded(&set, &Status { slurm: Some(SlurmCounts::default()), ..seen() }, at(1));
        assert_eq!((gone.slurm_idle, gone.slurm_drain), (Some(0), Some(0)));
    }

    #[test]
    fn folding_the_same_again_changes_nothing() {
        let mut set = set(json!({}));
        let first = folded(&set, &seen(), at(0));
        set.status = Some(first.clone());
        assert_eq!(folded(&set, &seen(), at(9)), first);
    }

    #[test]
    fn conditions_of_others_stay_and_ours_that_are_over_go() {
        let mut set = set(json!({}));
        let mut status = folded(&set, &seen(), at(0));
        let conditions = status.conditions.as_mut().unwrap();
        let others = engine_condition("example.com/Checked");
        conditions.push(others.clone());
        set.status = Some(status);
        let after = folded(&set, &Status { conditions: vec![], ..seen() }, at(1));
        assert_eq!(after.conditions, Some(vec![others]));
    }

    #[test]
    fn why_pods_are_not_ready_is_told_while_they_are_not() {
        let set = set(json!({}));
        let told = |holds: bool| {
            let ready = Condition { type_: condition::PODS_READY, holds, reason: "R", message: "m".into() };
            let seen = Status { conditions: vec![ready], ..Status::default() };
            let status = fold(&set, &PodSelector::of(&set), &seen, Some("no such image"), at(0));
            status.conditions.unwrap().remove(0).message
        };
        assert_eq!((told(false).as_str(), told(true).as_str()), ("m; no such image", "m"));
    }

    fn engine_condition(type_: &str) -> k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition {
        let mut conditions = Vec::new();
        engine::condition::set(&mut conditions, type_, true, "Checked", "", None, at(0));
        conditions.remove(0)
    }
}
