//! What is known of pods by what makes them.

use super::*;

#[test]
fn a_gang_must_be_able_to_stand_together() {
    let gang = |object| annotated(object, "gpu-scheduling-gang", "true");
    let message = denied(&config(), &gang(stateful_set(3)), None);
    assert!(message.starts_with("spec.podManagementPolicy: "), "{message}");
    let parallel =
        |replicas| with(gang(stateful_set(replicas)), "/spec/podManagementPolicy", json!("Parallel"));
    assert!(allowed(&config(), &parallel(3), None).is_empty());
    assert!(denied(&config(), &parallel(2), None).starts_with("spec.replicas: "));
    assert!(allowed(&config(), &gang(job(3, 3)), None).is_empty());
    assert!(denied(&config(), &gang(job(3, 2)), None).starts_with("spec.parallelism: "));
    let alike = annotated(gang(stateful_set(1)), "gpu-scheduling-index", "0");
    assert!(denied(&config(), &alike, None).contains("no gang"));
}

#[test]
fn a_gang_of_a_job_has_no_more_members_than_completions() {
    let gang = |object| annotated(object, "gpu-scheduling-gang", "true");
    let message = denied(&config(), &gang(job(2, 5)), None);
    assert!(message.starts_with("spec.parallelism: 2 pods run at once"), "{message}");
}

#[test]
fn a_gang_that_is_not_to_run_waits_for_nobody() {
    let stopped = annotated(stateful_set(0), "gpu-scheduling-gang", "true");
    let stopped = with(stopped, "/spec/podManagementPolicy", json!("Parallel"));
    assert!(allowed(&config(), &stopped, None).is_empty());
}

#[test]
fn pods_of_a_job_that_are_all_alike_are_told() {
    let plain = with(job(2, 2), "/spec/completionMode", json!("NonIndexed"));
    let alike = annotated(plain, "gpu-scheduling-index", "0");
    let warnings = allowed(&config(), &alike, None);
    assert!(warnings[0].contains("all 2 pods have the index 0"), "{warnings:?}");
}

#[test]
fn pod_groups_of_all_versions_are_refused() {
    for field in ["schedulingGroup", "workloadRef"] {
        let object = with(pod(), &format!("/spec/{field}"), json!({ "name": "g" }));
        let message = denied(&config(), &object, None);
        assert!(message.starts_with(&format!("spec.{field}: ")), "{message}");
    }
}

#[test]
fn the_owner_that_controls_a_pod_tells_its_index() {
    let owner = |kind: &str, controller: bool| json!({ "apiVersion": "v1", "kind": kind, "name": "o", "uid": kind, "controller": controller });
    let owned = |owners: Value| {
        let named = with(pod(), "/metadata/labels", json!({}));
        with(named, "/metadata/ownerReferences", owners)
    };
    let set = owned(json!([owner("ConfigMap", false), owner("StatefulSet", true)]));
    assert!(allowed(&config(), &set, None).is_empty());
    let replica = owned(json!([owner("StatefulSet", false), owner("ReplicaSet", true)]));
    assert!(denied(&config(), &replica, None).contains("the pod has no index"));
}

#[test]
fn what_is_not_allowed_comes_before_what_is_not_valid() {
    let rules = Rules::parse("strict: true").unwrap();
    let object = with(pod(), "/spec/resourceClaims", json!([{ "name": "c" }]));
    let (denial, _) = verdict(&Config { rules, ..config() }, &object, None);
    let (code, message) = denial.unwrap();
    assert_eq!(code, 403, "{message}");
    let (forbidden, invalid) = (message.find("authorization.rules"), message.find("resourceClaims"));
    assert!(forbidden.is_some() && forbidden < invalid, "{message}");
}
