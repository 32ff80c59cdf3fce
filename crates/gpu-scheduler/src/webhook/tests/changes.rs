//! Changes of objects: what stays, what may go, and what was wrong before.

use super::*;

/// It goes, and its containers still run.
fn going(object: Value) -> Value {
    with(object, "/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z"))
}

fn bound(devices: &str) -> Value {
    annotated(with(pod(), "/spec/nodeName", json!("node2")), "gpu-scheduling-devices", devices)
}

#[test]
fn a_pod_that_is_being_deleted_keeps_its_devices_to_the_end() {
    let before = going(bound("2"));
    let mut free = before.clone();
    free["metadata"]["annotations"].as_object_mut().unwrap().remove("gpu-scheduling-devices");
    assert!(denied(&config(), &free, Some(&before)).contains("gpu-scheduling-devices"));
    let other = annotated(before.clone(), "gpu-scheduling-devices", "3");
    assert!(denied(&config(), &other, Some(&before)).contains("gpu-scheduling-devices"));
    let map = annotated(before.clone(), "gpu-scheduling-map", "1=node2:3");
    assert!(denied(&config(), &map, Some(&before)).contains("gpu-scheduling-map"));
}

#[test]
fn a_pod_that_is_being_deleted_can_always_lose_its_finalizers() {
    let held = |pod| with(pod, "/metadata/finalizers", json!(["example.com/hold"]));
    let wrong = annotated(pod(), "gpu-scheduling-map", "x");
    for pod in [bound("2"), pod(), wrong] {
        assert!(allowed(&config(), &going(pod.clone()), Some(&going(held(pod)))).is_empty());
    }
}

#[test]
fn pods_of_other_schedulers_get_no_assignment_either() {
    let other = with(pod(), "/spec/schedulerName", json!("default-scheduler"));
    let other = with(other, "/spec/nodeName", json!("node2"));
    for key in crate::names::ASSIGNMENT {
        let set = annotated(other.clone(), key, "0");
        assert!(denied(&config(), &set, Some(&other)).contains(key));
        assert!(allowed(&config(), &other, Some(&set)).is_empty(), "what is wrong may go");
    }
}

#[test]
fn what_is_wrong_anew_is_refused_beside_what_was_wrong_before() {
    let bad = annotated(stateful_set(1), "gpu-scheduling-map", "x");
    let worse = with(bad.clone(), "/spec/template/spec/resourceClaims", json!([{ "name": "c" }]));
    let (denial, warnings) = verdict(&config(), &worse, Some(&bad));
    let (_, message) = denial.unwrap();
    assert!(message.starts_with("spec.template.spec.resourceClaims: "), "{message}");
    assert!(warnings.len() == 1 && warnings[0].contains("line 1"), "{warnings:?}");
}

#[test]
fn nobody_is_kept_from_asking_for_fewer_pods() {
    let warnings = allowed(&config(), &stateful_set(4), Some(&stateful_set(5)));
    assert!(warnings[0].contains("no line for 3"), "{warnings:?}");
    assert!(denied(&config(), &stateful_set(6), Some(&stateful_set(5))).contains("no line for 3"));
    assert!(denied(&config(), &stateful_set(4), Some(&stateful_set(3))).contains("no line for 3"));
    let gang = |replicas| {
        let set = annotated(stateful_set(replicas), "gpu-scheduling-gang", "true");
        with(set, "/spec/podManagementPolicy", json!("Parallel"))
    };
    assert!(allowed(&config(), &gang(1), Some(&gang(2)))[0].contains("1 pods run at once"));
    assert!(denied(&config(), &gang(2), Some(&gang(3))).contains("2 pods run at once"));
}
