//! Reviews in, decisions out.

mod changes;
mod variables;
mod workloads;

use engine::admission::{Decision, Request};
use serde_json::{Value, json};

use super::*;
use crate::names::SCHEDULER;

const UUID: &str = "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6";
const MAP: &str = "0=node1:0,1\n1=node2:2\n2=node3:0,1,2\n";

fn config() -> Config {
    Config::new(SCHEDULER)
}

/// A pod of a StatefulSet with one container.
fn pod() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "gpu-workload-1",
            "generateName": "gpu-workload-",
            "labels": { "apps.kubernetes.io/pod-index": "1" },
            "annotations": { "gpu-scheduling-map": MAP },
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "gpu-workload", "uid": "u", "controller": true
            }],
        },
        "spec": { "schedulerName": SCHEDULER, "containers": [{ "name": "worker", "image": "i" }] },
    })
}

fn stateful_set(replicas: u32) -> Value {
    let pod = pod();
    json!({
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": { "name": "gpu-workload" },
        "spec": {
            "replicas": replicas,
            "podManagementPolicy": "OrderedReady",
            "template": {
                "metadata": { "annotations": pod["metadata"]["annotations"] },
                "spec": pod["spec"],
            },
        },
    })
}

fn job(completions: u32, parallelism: u32) -> Value {
    let mut job = stateful_set(1);
    job["kind"] = json!("Job");
    job["apiVersion"] = json!("batch/v1");
    job["spec"]["completionMode"] = json!("Indexed");
    job["spec"]["completions"] = json!(completions);
    job["spec"]["parallelism"] = json!(parallelism);
    job
}

fn with(mut object: Value, pointer: &str, value: Value) -> Value {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let parent = object.pointer_mut(parent).unwrap_or_else(|| panic!("{parent}"));
    parent[key.replace("~1", "/")] = value;
    object
}

fn annotated(object: Value, key: &str, value: &str) -> Value {
    let of_template = object["kind"] != "Pod";
    let place = if of_template { "/spec/template/metadata/annotations" } else { "/metadata/annotations" };
    with(object, &format!("{place}/{}", key.replace('/', "~1")), json!(value))
}

fn request(object: &Value, old: Option<&Value>) -> Request {
    let operation = if old.is_some() { "UPDATE" } else { "CREATE" };
    let kind = object["kind"].as_str().unwrap();
    serde_json::from_value(json!({
        "uid": "u", "operation": operation, "userInfo": {}, "namespace": "team-a",
        "kind": { "group": "", "version": "v1", "kind": kind },
        "resource": { "group": "", "version": "v1", "resource": format!("{}s", kind.to_lowercase()) },
        "object": object, "oldObject": old,
    }))
    .unwrap()
}

/// The pod after the webhook.
fn mutated(config: &Config, pod: &Value) -> Value {
    let mut pod = pod.clone();
    if let Some(patch) = patch(config, &pod) {
        json_patch::patch(&mut pod, &patch).unwrap();
    }
    pod
}

fn patch(config: &Config, pod: &Value) -> Option<json_patch::Patch> {
    let decision = mutate(config, &request(pod, None));
    assert_eq!(decision.denial(), None);
    decision.into_patch()
}

fn env<'a>(pod: &'a Value, list: &str, container: usize, name: &str) -> Vec<&'a Value> {
    let all = pod["spec"][list][container]["env"].as_array().into_iter().flatten();
    all.filter(|entry| entry["name"] == name).collect()
}

fn late_bound(name: &str) -> Value {
    json!({ "name": name, "valueFrom": { "fieldRef": {
        "apiVersion": "v1", "fieldPath": "metadata.annotations['gpu-scheduling-devices']",
    } } })
}

/// The message and the code of a denial, and warnings. A new pod gets its variables first, as the API server has it.
fn verdict(config: &Config, object: &Value, old: Option<&Value>) -> (Option<(u16, String)>, Vec<String>) {
    let first = mutate(config, &request(object, old));
    let decision = if old.is_some() || first.denial().is_some() {
        validate(config, &request(object, old))
    } else {
        validate(config, &request(&mutated(config, object), old))
    };
    (decision.denial().map(|(code, message)| (code, message.to_string())), decision.warnings().to_vec())
}

fn allowed(config: &Config, object: &Value, old: Option<&Value>) -> Vec<String> {
    let (denial, warnings) = verdict(config, object, old);
    assert_eq!(denial, None);
    warnings
}

fn denied(config: &Config, object: &Value, old: Option<&Value>) -> String {
    let (denial, _) = verdict(config, object, old);
    let (code, message) = denial.unwrap_or_else(|| panic!("allowed: {object}"));
    assert_eq!(code, 422, "{message}");
    message
}

#[test]
fn every_container_gets_both_variables_and_a_second_time_changes_nothing() {
    let pod = with(
        pod(),
        "/spec/initContainers",
        json!([
            { "name": "init", "env": [] },
            { "name": "sidecar", "restartPolicy": "Always", "env": [{ "name": "A", "value": "$(CUDA_VISIBLE_DEVICES)" }] },
        ]),
    );
    let after = mutated(&config(), &pod);
    for (list, place) in [("initContainers", 0), ("initContainers", 1), ("containers", 0)] {
        assert_eq!(env(&after, list, place, "CUDA_VISIBLE_DEVICES"), [&late_bound("CUDA_VISIBLE_DEVICES")]);
        let order = json!({ "name": "CUDA_DEVICE_ORDER", "value": "PCI_BUS_ID" });
        assert_eq!(env(&after, list, place, "CUDA_DEVICE_ORDER"), [&order]);
        assert!(env(&after, list, place, "NVIDIA_VISIBLE_DEVICES").is_empty());
    }
    let names: Vec<&Value> = after["spec"]["initContainers"][1]["env"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["name"])
        .collect();
    assert_eq!(
        names,
        ["CUDA_DEVICE_ORDER", "CUDA_VISIBLE_DEVICES", "A"],
        "in front, so that A can refer to it"
    );
    assert_eq!(patch(&config(), &after), None);
    // The API server fills in no apiVersion for some clients.
    let bare = with(after, "/spec/containers/0/env/1/valueFrom/fieldRef/apiVersion", Value::Null);
    assert_eq!(patch(&config(), &bare), None);
}

#[test]
fn what_a_user_set_is_overridden_kept_or_denied() {
    let reference = json!({ "fieldRef": { "fieldPath": "metadata.annotations['gpu-scheduling-devices']" } });
    for own in [
        json!([{ "name": "CUDA_VISIBLE_DEVICES", "value": "7" }]),
        json!([{ "name": "CUDA_VISIBLE_DEVICES", "value": "" }]),
        json!([{ "name": "CUDA_VISIBLE_DEVICES", "valueFrom": { "secretKeyRef": { "name": "s", "key": "k" } } }]),
        json!([
            { "name": "X", "value": "1" }, { "name": "CUDA_VISIBLE_DEVICES", "value": "0" },
            { "name": "Y", "value": "2" }, { "name": "CUDA_VISIBLE_DEVICES", "value": "7" },
            { "name": "CUDA_DEVICE_ORDER", "value": "FASTEST_FIRST" }, { "name": "CUDA_VISIBLE_DEVICES", "value": "6" },
        ]),
        json!([
            { "name": "CUDA_VISIBLE_DEVICES", "valueFrom": reference },
            { "name": "CUDA_VISIBLE_DEVICES", "value": "7" },
        ]),
    ] {
        overridden_kept_or_denied(&own);
    }
}

fn overridden_kept_or_denied(own: &Value) {
    let pod = with(pod(), "/spec/containers/0/env", own.clone());
    let after = mutated(&config(), &pod);
    let found = env(&after, "containers", 0, "CUDA_VISIBLE_DEVICES");
    assert_eq!(found.len(), 1, "the last of several would win: {found:?}");
    assert_eq!(
        found[0]["valueFrom"]["fieldRef"]["fieldPath"],
        "metadata.annotations['gpu-scheduling-devices']"
    );
    assert_eq!(env(&after, "containers", 0, "CUDA_DEVICE_ORDER").len(), 1);
    for name in ["X", "Y"] {
        let count = own.as_array().unwrap().iter().filter(|one| one["name"] == name).count();
        assert_eq!(env(&after, "containers", 0, name).len(), count);
    }
    assert_eq!(patch(&config(), &after), None);
    assert!(allowed(&config(), &after, None).is_empty());

    let keep = Config { existing: Existing::Keep, ..config() };
    let kept = mutated(&keep, &pod);
    assert_eq!(
        env(&kept, "containers", 0, "CUDA_VISIBLE_DEVICES"),
        env(&pod, "containers", 0, "CUDA_VISIBLE_DEVICES")
    );
    let warnings = mutate(&keep, &request(&pod, None)).warnings().to_vec();
    assert!(warnings[0].contains("\"worker\" keeps its own CUDA_"), "{warnings:?}");

    let deny = Config { existing: Existing::Deny, ..config() };
    let refused = mutate(&deny, &request(&pod, None));
    let (_, message) = refused.denial().unwrap();
    assert!(
        message.contains("spec.containers[0].env[") && message.contains("CUDA_VISIBLE_DEVICES"),
        "{message}"
    );
    assert!(allowed(&deny, &mutated(&deny, &self::pod()), None).is_empty(), "what we set ourselves passes");
}

#[test]
fn pods_that_are_not_ours_are_left_alone() {
    let other = with(pod(), "/spec/schedulerName", json!("default-scheduler"));
    assert_eq!(mutate(&config(), &request(&other, None)), Decision::allow());
    assert!(allowed(&config(), &other, None).is_empty());
    let mapless = with(pod(), "/metadata/annotations", json!({}));
    assert_eq!(mutate(&config(), &request(&mapless, None)), Decision::allow());
    let named = Config::new("mine");
    assert_eq!(mutate(&named, &request(&pod(), None)), Decision::allow());
    assert_eq!(mutate(&config(), &request(&stateful_set(1), None)), Decision::allow());
}

#[test]
fn compat_mode_writes_what_the_map_says() {
    let compat = Config { mode: Mode::Compat, ..config() };
    let after = mutated(&compat, &pod());
    let literal = |value: &str| json!({ "name": "CUDA_VISIBLE_DEVICES", "value": value });
    assert_eq!(env(&after, "containers", 0, "CUDA_VISIBLE_DEVICES"), [&literal("2")]);
    assert_eq!(patch(&compat, &after), None);
    let odd = annotated(pod(), "gpu-scheduling-map", "rubbish\n1=b:0, 1 ,x\n");
    assert_eq!(env(&mutated(&compat, &odd), "containers", 0, "CUDA_VISIBLE_DEVICES"), [&literal("0, 1 ,x")]);
    // Where the index is not known yet, the scheduler's word is as good.
    let nameless = with(with(pod(), "/metadata/labels", json!({})), "/metadata/name", Value::Null);
    let found = mutated(&compat, &nameless);
    assert_eq!(env(&found, "containers", 0, "CUDA_VISIBLE_DEVICES"), [&late_bound("CUDA_VISIBLE_DEVICES")]);
    let deny = Config { existing: Existing::Deny, ..compat.clone() };
    assert!(allowed(&deny, &mutated(&deny, &pod()), None).is_empty());
    let warnings = allowed(&compat, &odd, None);
    assert!(warnings.iter().any(|warning| warning.contains("line 1")), "{warnings:?}");
}

#[test]
fn the_runtime_mode_lets_the_runtime_mount_and_hides_nothing_by_numbers_that_change() {
    let runtime = Config { devices: DeviceMode::Runtime, ..config() };
    let own = json!([{ "name": "CUDA_VISIBLE_DEVICES", "value": "2" }]);
    let after = mutated(&runtime, &with(pod(), "/spec/containers/0/env", own));
    assert_eq!(
        env(&after, "containers", 0, "NVIDIA_VISIBLE_DEVICES"),
        [&late_bound("NVIDIA_VISIBLE_DEVICES")]
    );
    assert!(env(&after, "containers", 0, "CUDA_VISIBLE_DEVICES").is_empty());
    assert_eq!(patch(&runtime, &after), None);
    let by_uuid = annotated(pod(), "gpu-scheduling-map", &format!("1=node2:{UUID}"));
    let after = mutated(&runtime, &by_uuid);
    for name in ["CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"] {
        assert_eq!(env(&after, "containers", 0, name), [&late_bound(name)]);
    }
}

#[test]
fn a_bad_map_is_refused_with_line_and_column_on_pods_and_templates() {
    for (map, place) in [
        ("0=a:0\nx=b:1\n1=c:2", "line 2, column 1"),
        ("0=a\n1=b:1", "line 1"),
        ("0=a:0\n0=b:1", "line 2"),
        ("0=:1", "line 1"),
        ("1=a:0;2=b:1", "column 6"),
        ("1=a:0,0", "line 1"),
        (" \n", "line 1"),
        ("0=a:0\n1=a:0", "line 2"),
    ] {
        refused_with_line_and_column(map, place);
    }
}

fn refused_with_line_and_column(map: &str, place: &str) {
    let bad = annotated(pod(), "gpu-scheduling-map", map);
    let refused = mutate(&config(), &request(&bad, None));
    assert!(
        refused.denial().is_some_and(|(code, message)| code == 422 && message.contains(place)),
        "{refused:?}"
    );
    for object in [pod(), stateful_set(1), job(1, 1)] {
        let message = denied(&config(), &annotated(object, "gpu-scheduling-map", map), None);
        assert!(message.contains("metadata.annotations[gpu-scheduling-map]: line"), "{message}");
        assert!(message.contains(place), "{message}");
    }
    let mut cron = json!({ "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {} });
    cron["spec"]["jobTemplate"]["spec"] = annotated(job(1, 1), "gpu-scheduling-map", map)["spec"].clone();
    let message = denied(&config(), &cron, None);
    assert!(message.starts_with("spec.jobTemplate.spec.template.metadata.annotations["), "{message}");
}

#[test]
fn a_pod_of_ours_needs_a_map_with_a_line_for_its_index() {
    assert!(allowed(&config(), &pod(), None).is_empty());
    let mapless = with(pod(), "/metadata/annotations", json!({}));
    assert!(denied(&config(), &mapless, None).contains("gpu-scheduling-map]: is missing"));
    let other = annotated(pod(), "gpu-scheduling-index", "7");
    assert!(denied(&config(), &other, None).contains("no line for index 7"));
    let bad = annotated(pod(), "gpu-scheduling-index", "-1");
    assert!(denied(&config(), &bad, None).starts_with("metadata.annotations[gpu-scheduling-index]: "));
    let gang = annotated(pod(), "gpu-scheduling-gang", "yes");
    assert!(denied(&config(), &gang, None).contains("gpu-scheduling-gang"));
    let replica = with(
        with(pod(), "/metadata/labels", json!({})),
        "/metadata/ownerReferences/0/kind",
        json!("ReplicaSet"),
    );
    assert!(denied(&config(), &replica, None).contains("the pod has no index"));
    let compat = Config { mode: Mode::Compat, ..config() };
    assert!(allowed(&compat, &replica, None)[0].contains("the pod has no index"));
}

#[test]
fn nobody_but_the_scheduler_writes_the_assignment() {
    for key in crate::names::ASSIGNMENT {
        let set = annotated(pod(), key, "0");
        assert!(denied(&config(), &set, None).contains(key));
        assert!(denied(&config(), &annotated(stateful_set(1), key, "0"), None).contains(key));
        assert!(denied(&config(), &set, Some(&pod())).contains(key));
        assert!(denied(&config(), &pod(), Some(&set)).contains(key), "not taken away either");
        let other = |pod: Value| with(pod, "/spec/schedulerName", json!("default-scheduler"));
        assert!(denied(&config(), &other(set.clone()), None).contains(key));
        assert!(allowed(&config(), &other(pod()), Some(&other(set))).is_empty(), "what is wrong may go");
    }
}

#[test]
fn what_a_bound_pod_was_bound_by_is_frozen() {
    let bound = with(pod(), "/spec/nodeName", json!("node2"));
    for (key, value) in
        [("gpu-scheduling-map", "1=node2:3"), ("gpu-scheduling-index", "0"), ("gpu-scheduling-gang", "true")]
    {
        let message = denied(&config(), &annotated(bound.clone(), key, value), Some(&bound));
        assert!(message.contains(key) && message.contains("delete the pod"), "{message}");
        assert!(allowed(&config(), &annotated(pod(), key, value), Some(&pod())).is_empty(), "{key}");
    }
    let message = denied(&config(), &annotated(pod(), "gpu-scheduling-map", "x"), Some(&pod()));
    assert!(message.contains("line 1"), "{message}");
    // Labels of a bound pod, whatever its map says meanwhile.
    let odd = annotated(bound.clone(), "gpu-scheduling-map", "x");
    assert!(allowed(&config(), &with(odd.clone(), "/metadata/labels", json!({})), Some(&odd)).is_empty());
    let message = denied(&config(), &bound, None);
    assert!(message.starts_with("spec.nodeName: "), "{message}");
    let mirror = annotated(bound, "kubernetes.io/config.mirror", "x");
    assert!(allowed(&config(), &mirror, None).is_empty());
}

#[test]
fn what_was_wrong_before_stays_possible() {
    let bad = annotated(stateful_set(1), "gpu-scheduling-map", "x");
    let scaled = with(bad.clone(), "/spec/replicas", json!(0));
    let warnings = allowed(&config(), &scaled, Some(&bad));
    assert!(warnings[0].contains("line 1"), "{warnings:?}");
    let going = with(bad, "/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z"));
    assert!(allowed(&config(), &going, Some(&stateful_set(1))).is_empty());
}

#[test]
fn constraints_that_are_not_supported_are_refused_and_wishes_are_told() {
    let term = json!([{ "topologyKey": "kubernetes.io/hostname", "labelSelector": {} }]);
    for (field, value, path) in [
        (
            "affinity",
            json!({ "podAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": term } }),
            "podAffinity",
        ),
        (
            "affinity",
            json!({ "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": term } }),
            "podAntiAffinity",
        ),
        (
            "topologySpreadConstraints",
            json!([{ "whenUnsatisfiable": "DoNotSchedule" }]),
            "topologySpreadConstraints[0]",
        ),
        ("resourceClaims", json!([{ "name": "c" }]), "resourceClaims"),
        ("schedulingGroup", json!({ "podGroupName": "g" }), "schedulingGroup"),
    ] {
        let object = with(pod(), &format!("/spec/{field}"), value.clone());
        let message = denied(&config(), &object, None);
        assert!(message.contains(path), "{message}");
        let known = crate::facts::unsupported(&serde_json::from_value(object["spec"].clone()).unwrap());
        assert_eq!(known.len(), 1, "where the webhook is off, the scheduler says the same of {field}");
        let set = with(stateful_set(1), &format!("/spec/template/spec/{field}"), value);
        assert!(denied(&config(), &set, None).starts_with("spec.template.spec."));
    }
    for (field, value) in [
        ("affinity", json!({ "nodeAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [{}] } })),
        ("topologySpreadConstraints", json!([{ "whenUnsatisfiable": "ScheduleAnyway" }])),
    ] {
        let warnings = allowed(&config(), &with(pod(), &format!("/spec/{field}"), value), None);
        assert!(warnings[0].contains("has no effect"), "{warnings:?}");
    }
    let required = json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [] } } });
    assert!(allowed(&config(), &with(pod(), "/spec/affinity", required), None).is_empty());
}

#[test]
fn pods_that_also_ask_a_device_plugin_pass_only_where_it_gives_all() {
    for (map, resource, count, passes) in [
        ("1=n:0", "nvidia.com/gpu", 1, true),
        ("1=n:0,1", "nvidia.com/gpu", 8, true),
        ("1=n:1", "nvidia.com/gpu", 1, false),
        (&format!("1=n:{UUID}"), "nvidia.com/gpu", 8, false),
        ("1=n:0", "nvidia.com/mig-1g.5gb", 1, false),
        ("1=n:3", "nvidia.com/gpu", 0, true),
        ("1=n:3", "example.com/gpu", 1, true),
    ] {
        passes_where_the_plugin_gives_all(map, resource, count, passes);
    }
}

fn passes_where_the_plugin_gives_all(map: &str, resource: &str, count: u32, passes: bool) {
    let limits = json!({ "limits": { resource: count.to_string() } });
    let pod = with(annotated(pod(), "gpu-scheduling-map", map), "/spec/containers/0/resources", limits);
    if passes {
        assert!(allowed(&config(), &pod, None).is_empty());
        let runtime = Config { devices: DeviceMode::Runtime, ..config() };
        let both = count > 0 && resource.starts_with("nvidia");
        assert_eq!(verdict(&runtime, &pod, None).0.is_some(), both, "two would choose cards");
    } else {
        assert!(denied(&config(), &pod, None).contains("spec.containers[0].resources: asks for nvidia.com/"));
    }
}

#[test]
fn rules_decide_who_may_name_what() {
    let rules = "rules: [{namespaces: [team-a], nodes: [node1, node2]}]";
    let ruled = Config { rules: Rules::parse(rules).unwrap(), ..config() };
    let (denial, _) = verdict(&ruled, &pod(), None);
    let (code, message) = denial.unwrap();
    assert_eq!(code, 403);
    assert!(message.contains("index 2") && message.contains("\"node3\""), "{message}");
    assert!(allowed(&ruled, &annotated(pod(), "gpu-scheduling-map", "1=node2:0"), None).is_empty());
    assert!(verdict(&ruled, &stateful_set(1), None).0.is_some_and(|(code, _)| code == 403));
    let fine = annotated(pod(), "gpu-scheduling-map", "1=node2:0");
    assert!(verdict(&ruled, &pod(), Some(&fine)).0.is_some(), "nor by a change before it is bound");
}

#[test]
fn every_pod_of_a_workload_needs_its_line() {
    assert!(allowed(&config(), &stateful_set(3), None).is_empty());
    let message = denied(&config(), &stateful_set(4), None);
    assert!(message.starts_with("spec.replicas: ") && message.contains("no line for 3"), "{message}");
    let shifted = with(stateful_set(2), "/spec/ordinals", json!({ "start": 2 }));
    assert!(denied(&config(), &shifted, None).contains("no line for 3"));
    let compat = Config { mode: Mode::Compat, ..config() };
    assert!(allowed(&compat, &stateful_set(4), None)[0].contains("no line for 3"));
    assert!(denied(&config(), &stateful_set(u32::MAX), None).contains("no line for 3"));

    assert!(allowed(&config(), &job(3, 1), None).is_empty());
    assert!(denied(&config(), &job(4, 1), None).starts_with("spec.completions: "));
    let plain = with(job(3, 1), "/spec/completionMode", json!("NonIndexed"));
    assert!(denied(&config(), &plain, None).starts_with("spec.completionMode: "));
    assert!(allowed(&config(), &annotated(plain, "gpu-scheduling-index", "0"), None).is_empty());

    let deployment = with(stateful_set(1), "/kind", json!("Deployment"));
    assert!(denied(&config(), &deployment, None).contains("pods of a Deployment have no index"));
    let indexed = annotated(deployment, "gpu-scheduling-index", "0");
    let warnings = allowed(&config(), &indexed, None);
    assert!(warnings[0].contains("Recreate"), "{warnings:?}");
    let recreate = with(indexed.clone(), "/spec/strategy", json!({ "type": "Recreate" }));
    assert!(allowed(&config(), &recreate, None).is_empty());
    let two = with(recreate, "/spec/replicas", json!(2));
    assert!(allowed(&config(), &two, None)[0].contains("all 2 pods have the index 0"));
    assert!(denied(&config(), &annotated(indexed, "gpu-scheduling-index", "9"), None).contains("index 9"));
}

#[test]
fn all_problems_are_told_at_once() {
    let bad = annotated(pod(), "gpu-scheduling-map", "x");
    let bad =
        with(annotated(bad, "gpu-scheduling-devices", "0"), "/spec/resourceClaims", json!([{ "name": "c" }]));
    let message = denied(&config(), &bad, None);
    assert!(message.starts_with("3 problems:\n- "), "{message}");
}
