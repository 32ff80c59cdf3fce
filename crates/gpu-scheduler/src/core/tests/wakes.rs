//! What wakes a pod that waits, and what must not.

use super::*;

#[test]
fn the_second_pod_on_a_device_waits_with_the_reason_and_comes_when_the_first_ends() {
    let mut core = core();
    core.set_pod(pod("a-0", "0=n0:0", json!({})), at(0));
    let first = decisions(&mut core, at(0));
    let first = bound(assignment(&first));
    core.set_pod(Arc::clone(&first), at(0));
    core.set_pod(pod("b-0", "0=n0:0,1", json!({})), at(0));
    assert_eq!(
        decided(&mut core, at(0)),
        [
            "b-0: 0/1 nodes are available: 1 node(s) had device 0 held by pod ns/a-0. The map gives index 0 node n0."
        ]
    );
    core.set_pod(ended(&first), at(30));
    assert_eq!(decided(&mut core, at(30)), ["b-0 -> n0 0,1"]);
}

#[test]
fn the_same_reason_is_no_news() {
    let mut core = core();
    let waits = pod("w-0", "0=n9:0", json!({}));
    core.set_pod(Arc::clone(&waits), at(0));
    let news = |decisions: &[Decision]| match decisions {
        [Decision::Refuse(refusal)] => refusal.news,
        other => panic!("{other:?}"),
    };
    let first = decisions(&mut core, at(0));
    assert!(news(&first));
    let [Decision::Refuse(refusal)] = &*first else { panic!("{first:?}") };
    // Its own condition comes back through the watch, and wakes nobody.
    let mut told = (*waits).clone();
    told.told =
        Some(Box::new(Told { reason: "Unschedulable".into(), message: refusal.message.as_str().into() }));
    core.set_pod(Arc::new(told), at(10));
    assert_eq!(decisions(&mut core, at(10)).len(), 0);
    assert!(!news(&decisions(&mut core, at(400))), "after five minutes it is looked at, and nothing is new");
    core.not_told(&"uid-w-0".into());
    assert!(!news(&decisions(&mut core, at(800))), "its condition says so");
}

#[test]
fn what_could_not_be_told_is_told_again() {
    let mut core = core();
    core.set_pod(pod("w-0", "0=n9:0", json!({})), at(0));
    decisions(&mut core, at(0));
    core.not_told(&"uid-w-0".into());
    assert!(matches!(&*decisions(&mut core, at(400)), [Decision::Refuse(refusal)] if refusal.news));
}

#[test]
fn a_node_that_comes_changes_its_label_or_is_uncordoned_wakes_those_that_name_it() {
    let mut core = core();
    core.set_pod(pod("a-0", "0=n9:0", json!({})), at(0));
    core.set_pod(pod("b-0", "0=fast:0", json!({})), at(0));
    core.set_node(node("n0", json!({ "spec": { "unschedulable": true } })), at(0));
    core.set_pod(pod("c-0", "0=n0:0", json!({})), at(0));
    assert_eq!(decisions(&mut core, at(0)).len(), 3);
    core.set_node(node("n9", json!({})), at(20));
    assert_eq!(decided(&mut core, at(20)), ["a-0 -> n9 0"]);
    core.set_node(node("n1", json!({ "metadata": { "labels": { "gpu-node-name": "fast" } } })), at(20));
    assert_eq!(decided(&mut core, at(20)), ["b-0 -> n1 0"]);
    core.set_node(node("n0", json!({})), at(20));
    assert_eq!(decided(&mut core, at(20)), ["c-0 -> n0 0"]);
}

#[test]
fn a_node_that_only_says_that_it_lives_wakes_nobody() {
    let mut core = core();
    core.set_node(node("n0", json!({ "spec": { "unschedulable": true } })), at(0));
    core.set_pod(pod("c-0", "0=n0:0", json!({})), at(0));
    decisions(&mut core, at(0));
    core.set_node(node("n0", json!({ "spec": { "unschedulable": true } })), at(20));
    assert!(!core.has_work(at(20)));
}

#[test]
fn thousands_that_wait_for_a_missing_node_are_left_alone() {
    let mut core = core();
    for number in 0..10_000 {
        core.set_pod(pod(&format!("w-{number}"), &format!("{number}=gone:0"), json!({})), at(0));
    }
    assert_eq!(decisions(&mut core, at(0)).len(), 10_000);
    core.set_pod(pod("a-0", "0=n0:0", json!({})), at(20));
    core.set_node(node("n1", json!({ "metadata": { "labels": { "x": "y" } } })), at(20));
    assert_eq!(core.counts().active, 1, "only the new pod is looked at");
    assert_eq!(decided(&mut core, at(20)), ["a-0 -> n0 0"]);
}

#[test]
fn a_changed_map_or_an_opened_gate_is_looked_at() {
    let mut core = core();
    core.set_pod(pod("w-0", "0=n9:0", json!({})), at(0));
    decisions(&mut core, at(0));
    core.set_pod(pod("w-0", "0=n0:0", json!({})), at(20));
    assert_eq!(decided(&mut core, at(20)), ["w-0 -> n0 0"]);
    let gated = json!({ "spec": { "schedulingGates": [{ "name": "g" }] } });
    core.set_pod(pod("v-0", "0=n1:0", gated), at(20));
    assert_eq!((decided(&mut core, at(20)).len(), core.gated()), (0, 1));
    core.set_pod(pod("v-0", "0=n1:0", json!({})), at(20));
    assert_eq!((decided(&mut core, at(20)), core.gated()), (vec!["v-0 -> n1 0".to_string()], 0));
}

#[test]
fn pods_of_others_terminating_ones_and_bound_ones_are_not_ours_to_place() {
    let mut core = core();
    core.set_pod(pod("a-0", "0=n0:0", json!({ "spec": { "schedulerName": "default-scheduler" } })), at(0));
    core.set_pod(
        pod("b-0", "0=n0:0", json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } })),
        at(0),
    );
    core.set_pod(pod("c-0", "0=n0:0", json!({ "spec": { "nodeName": "n1" } })), at(0));
    core.set_pod(pod("d-0", "0=n0:0", json!({ "status": { "phase": "Failed" } })), at(0));
    assert!(!core.has_work(at(0)));
}

#[test]
fn a_failed_bind_frees_the_device_and_is_tried_again_after_its_backoff() {
    let mut core = core();
    core.set_pod(pod("a-0", "0=n0:0", json!({})), at(0));
    core.set_pod(
        pod("b-0", "0=n0:0", json!({ "metadata": { "creationTimestamp": "2026-01-01T00:00:01Z" } })),
        at(0),
    );
    let first = decisions(&mut core, at(0));
    assert_eq!(line(&first[0]), "a-0 -> n0 0");
    core.bind_failed(&"uid-a-0".into(), &BindError::Again(Duration::ZERO), at(0));
    // Both are in backoff now; the older goes first again.
    assert_eq!(core.next_time(), Some(at(1)));
    assert_eq!(line(&decisions(&mut core, at(1))[0]), "a-0 -> n0 0");
}

#[test]
fn the_ledger_is_rebuilt_from_bound_pods_and_believes_only_our_own() {
    let mut core = core();
    let bound = |scheduler: &str, devices: &str| {
        json!({
            "metadata": { "annotations": { "gpu-scheduling-devices": devices, "gpu-scheduling-shared": "3=2" } },
            "spec": { "schedulerName": scheduler, "nodeName": "n0" },
            "status": { "phase": "Running" },
        })
    };
    core.set_pod(pod("a-0", "", bound("gpu-scheduler", "0,3")), at(0));
    core.set_pod(pod("b-0", "", bound("default-scheduler", "1")), at(0));
    let owned: Vec<String> = core.ledger().devices("n0").map(|(device, _)| device.to_string()).collect();
    assert_eq!(owned, ["0", "3"]);
    core.set_pod(pod("c-0", "0=n0:3@shared(2)", json!({})), at(0));
    core.set_pod(pod("d-0", "0=n0:0", json!({})), at(0));
    let said = decided(&mut core, at(0));
    assert_eq!(said[0], "c-0 -> n0 3");
    assert!(said[1].contains("held by pod ns/a-0"), "{said:?}");
}

#[test]
fn a_pod_that_somebody_else_bound_elsewhere_leaves_what_was_held_for_it() {
    let mut core = core();
    core.set_pod(pod("a-0", "0=n0:0", json!({})), at(0));
    decisions(&mut core, at(0));
    core.set_pod(pod("a-0", "0=n0:0", json!({ "spec": { "nodeName": "n1" } })), at(0));
    core.bind_failed(&"uid-a-0".into(), &BindError::Again(Duration::ZERO), at(0));
    assert!(core.ledger().is_empty());
    core.set_pod(pod("b-0", "0=n0:0", json!({})), at(0));
    assert_eq!(decided(&mut core, at(0)), ["b-0 -> n0 0"]);
}

#[test]
fn a_node_of_the_same_name_with_another_uid_keeps_the_account_of_its_pods() {
    let mut core = core();
    core.set_pod(pod("a-0", "0=n0:0", json!({})), at(0));
    let placed = decisions(&mut core, at(0));
    core.set_pod(bound(assignment(&placed)), at(0));
    core.remove_node("n0", at(1));
    core.set_node(node("n0", json!({ "metadata": { "uid": "another" } })), at(1));
    core.set_pod(pod("b-0", "0=n0:0", json!({})), at(1));
    assert!(decided(&mut core, at(1))[0].contains("held by pod ns/a-0"));
}

#[test]
fn a_bind_and_the_begin_of_a_deletion_free_nothing_and_wake_nobody() {
    let mut core = core();
    let small = json!({ "status": { "allocatable": { "cpu": "1" } } });
    core.set_node(node("n0", small), at(0));
    core.set_pod(pod("a-0", "0=n0:0", json!({})), at(0));
    let first = decisions(&mut core, at(0));
    let first = bound(assignment(&first));
    core.set_pod(pod("b-0", "0=n0:1", json!({})), at(0));
    assert!(decided(&mut core, at(0))[0].contains("Insufficient cpu"));
    core.set_pod(Arc::clone(&first), at(20));
    assert!(!core.has_work(at(20)), "it was being bound, and is");
    let mut leaving = (*first).clone();
    leaving.terminating = true;
    core.set_pod(Arc::new(leaving.clone()), at(20));
    assert!(!core.has_work(at(20)), "it uses what it used");
    core.set_pod(ended(&leaving), at(20));
    assert_eq!(decided(&mut core, at(20)), ["b-0 -> n0 1"]);
}

#[test]
fn who_says_no_and_what_brings_pods_back_is_counted() {
    let mut core = core();
    core.set_pod(pod("a-0", "0=n0:0", json!({})), at(0));
    core.set_pod(
        pod("b-0", "0=n0:0", json!({ "metadata": { "creationTimestamp": "2026-01-01T00:00:01Z" } })),
        at(0),
    );
    let first = decisions(&mut core, at(0));
    assert_eq!(core.refused().get(DEVICE_CONFLICT), Some(&1));
    core.remove_pod(&"uid-a-0".into(), at(20));
    let incoming = |core: &Core, queue, event| core.incoming().get(&(queue, event)).copied().unwrap_or(0);
    assert_eq!(incoming(&core, "active", "PodAdd"), 2);
    assert_eq!(incoming(&core, "unschedulable", "ScheduleAttemptFailure"), 1);
    assert_eq!(incoming(&core, "active", "AssignedPodDelete"), 1);
    let second = decisions(&mut core, at(20));
    let second = assignment(&second);
    assert_eq!((first.len(), second.attempts, second.since), (2, 2, at(0)));
    core.set_pod(bound(second), at(20));
    assert_eq!(core.refused().get(DEVICE_CONFLICT), Some(&0));
}

#[test]
fn trouble_with_a_bind_is_news_once_and_only_while_the_pod_waits() {
    let mut core = core();
    core.set_pod(pod("a-0", "0=n0:0", json!({})), at(0));
    let first = decisions(&mut core, at(0));
    let uid: Uid = "uid-a-0".into();
    let trouble = core.bind_trouble(&uid, "no".into()).unwrap();
    assert_eq!((trouble.reason, trouble.message.as_str()), ("SchedulerError", "no"));
    assert_eq!(core.bind_trouble(&uid, "no".into()), None);
    assert!(core.bind_trouble(&uid, "never".into()).is_some());
    core.set_pod(bound(assignment(&first)), at(0));
    assert_eq!(core.bind_trouble(&uid, "no".into()), None);
}
