//! All members of a gang are placed, or none.

use super::*;

const MAP: &str = "0=n0:0\n1=n0:1\n2=n1:0";

fn member(index: usize, changes: Value) -> Arc<Pod> {
    let mut with = json!({ "metadata": { "annotations": { "gpu-scheduling-gang": "true" } } });
    merge(&mut with, &changes);
    pod(&format!("w-{index}"), MAP, with)
}

#[test]
fn nobody_goes_before_all_are_there() {
    let mut core = core();
    core.set_pod(member(0, json!({})), at(0));
    core.set_pod(member(1, json!({})), at(0));
    let said = decided(&mut core, at(0));
    assert_eq!(said.len(), 2);
    assert!(said[0].contains("no pod has index 1, 2 of the map") || said[0].contains("index 2"), "{said:?}");
    core.set_pod(member(2, json!({})), at(20));
    assert_eq!(decided(&mut core, at(20)), ["w-0 -> n0 0", "w-1 -> n0 1", "w-2 -> n1 0"]);
}

#[test]
fn one_that_does_not_fit_keeps_all_and_leaves_nothing_held() {
    let mut core = core();
    core.set_node(node("n1", json!({ "spec": { "unschedulable": true } })), at(0));
    for index in 0..3 {
        core.set_pod(member(index, json!({})), at(0));
    }
    let said = decided(&mut core, at(0)).join("\n");
    assert!(said.contains("w-0: the gang waits for pod ns/w-2"), "{said}");
    assert!(!said.contains("->"), "{said}");
    assert!(core.ledger().is_empty() && core.usage.is_empty());
    assert!(!core.has_work(at(30)), "taking back wakes nobody");
    core.set_node(node("n1", json!({})), at(30));
    assert_eq!(decided(&mut core, at(30)).len(), 3);
    assert_eq!(core.ledger().len(), 3);
}

#[test]
fn a_gated_member_is_not_there_yet() {
    let mut core = core();
    core.set_pod(member(0, json!({})), at(0));
    core.set_pod(member(1, json!({})), at(0));
    core.set_pod(member(2, json!({ "spec": { "schedulingGates": [{ "name": "g" }] } })), at(0));
    assert!(!decided(&mut core, at(0)).join("\n").contains("->"));
    core.set_pod(member(2, json!({})), at(20));
    assert_eq!(decided(&mut core, at(20)).len(), 3);
}

#[test]
fn after_a_partial_failure_the_rest_follows_alone() {
    let mut core = core();
    for index in 0..3 {
        core.set_pod(member(index, json!({})), at(0));
    }
    let all = decisions(&mut core, at(0));
    for decision in &all[..2] {
        let Decision::Bind(assignment) = decision else { panic!("{decision:?}") };
        core.set_pod(bound(assignment), at(0));
    }
    core.bind_failed(&"uid-w-2".into(), &BindError::Again(Duration::ZERO), at(0));
    assert_eq!(decided(&mut core, at(1)), ["w-2 -> n1 0"]);
}

#[test]
fn a_restart_in_the_middle_of_a_gang_finishes_it() {
    let mut core = core();
    let bound = json!({
        "metadata": { "annotations": { "gpu-scheduling-devices": "0" } },
        "spec": { "nodeName": "n0" },
    });
    core.set_pod(member(0, bound), at(0));
    core.set_pod(member(1, json!({})), at(0));
    core.set_pod(member(2, json!({})), at(0));
    assert_eq!(decided(&mut core, at(0)), ["w-1 -> n0 1", "w-2 -> n1 0"]);
}

#[test]
fn two_gangs_of_one_map_and_different_owners_are_two() {
    let owner = |uid: &str| json!({ "metadata": { "ownerReferences": [{ "kind": "StatefulSet", "uid": uid, "controller": true }] } });
    let mut core = core();
    core.set_pod(member(0, owner("a")), at(0));
    core.set_pod(member(1, owner("b")), at(0));
    core.set_pod(member(2, owner("b")), at(0));
    let said = decided(&mut core, at(0)).join("\n");
    assert!(!said.contains("->") && said.contains("podManagementPolicy: Parallel"), "{said}");
}
