//! Where pods go, and why they go nowhere.

use super::*;

/// What is said of a pod `w-0` with this map and these changes.
fn said(core: &mut Core, map: &str, changes: Value) -> String {
    core.set_pod(pod("w-0", map, changes), at(0));
    decided(core, at(0)).join("; ")
}

#[track_caller]
fn refused(core: &mut Core, map: &str, changes: Value, why: &str) {
    let said = said(core, map, changes);
    assert!(said.starts_with("w-0: ") && said.contains(why), "{said}");
}

#[test]
fn a_pod_goes_where_its_line_says_with_exactly_these_devices() {
    assert_eq!(said(&mut core(), "0=n1:0,3\n1=n0:2", json!({})), "w-0 -> n1 0,3");
    assert_eq!(said(&mut core(), "0=n1:none", json!({})), "w-0 -> n1 ");
}

#[test]
fn a_node_can_be_called_by_its_label_and_its_name_goes_first() {
    let mut core = core();
    core.set_node(node("n2", json!({ "metadata": { "labels": { "gpu-node-name": "fast" } } })), at(0));
    core.set_node(node("n3", json!({ "metadata": { "labels": { "gpu-node-name": "n1" } } })), at(0));
    assert_eq!(said(&mut core, "0=fast:0", json!({})), "w-0 -> n2 0");
    let mut core = self::core();
    core.set_node(node("n3", json!({ "metadata": { "labels": { "gpu-node-name": "n1" } } })), at(0));
    assert_eq!(said(&mut core, "0=n1:0", json!({})), "w-0 -> n1 0");
}

#[test]
fn two_nodes_of_one_label_are_told_by_name() {
    let mut core = core();
    for name in ["n2", "n3"] {
        core.set_node(node(name, json!({ "metadata": { "labels": { "gpu-node-name": "fast" } } })), at(0));
    }
    refused(&mut core, "0=fast:0", json!({}), "is the label gpu-node-name of n2, n3; name one of them");
}

#[test]
fn mistakes_of_the_map_and_index_are_told_with_what_to_do() {
    refused(&mut core(), "0=n0:0\nx=n1:1", json!({}), "annotation gpu-scheduling-map: line 2, column 1");
    refused(&mut core(), "1=n0:0", json!({}), "no line for index 0; it has 1");
    refused(&mut core(), "0=n9:0", json!({}), "no node has the name n9, or the label gpu-node-name=n9");
    let none = json!({ "metadata": { "annotations": { "gpu-scheduling-map": null } } });
    refused(&mut core(), "", none, "annotation gpu-scheduling-map is missing");
    refused(&mut core(), " ", json!({}), "the map has no entry");
    let deployment = json!({ "metadata": { "ownerReferences": [{ "kind": "ReplicaSet", "uid": "u", "controller": true }] } });
    refused(&mut core(), "0=n0:0", deployment, "set the annotation gpu-scheduling-index");
    let explicit = json!({ "metadata": { "annotations": { "gpu-scheduling-index": "zero" } } });
    refused(&mut core(), "0=n0:0", explicit, "gpu-scheduling-index is \"zero\"");
}

#[test]
fn what_is_not_supported_is_never_ignored() {
    let anti = json!({ "spec": { "affinity": { "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [{}] } } } });
    refused(&mut core(), "0=n0:0", anti, "does not support spec.affinity.podAntiAffinity");
    let claims = json!({ "spec": { "resourceClaims": [{ "name": "gpu" }] } });
    refused(&mut core(), "0=n0:0", claims, "spec.resourceClaims");
    let spread =
        json!({ "spec": { "topologySpreadConstraints": [{ "whenUnsatisfiable": "DoNotSchedule" }] } });
    refused(&mut core(), "0=n0:0", spread, "spec.topologySpreadConstraints");
    let wish =
        json!({ "spec": { "topologySpreadConstraints": [{ "whenUnsatisfiable": "ScheduleAnyway" }] } });
    assert_eq!(said(&mut core(), "0=n0:0", wish), "w-0 -> n0 0");
}

#[test]
fn a_node_that_is_not_ready_cordoned_or_tainted_is_not_used() {
    let mut core = core();
    let broken = json!({
        "spec": { "unschedulable": true, "taints": [
            { "key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule" },
            { "key": "gpu", "value": "yes", "effect": "NoSchedule" },
            { "key": "soft", "effect": "PreferNoSchedule" },
        ] },
        "status": { "conditions": [{ "type": "Ready", "status": "Unknown" }] },
    });
    core.set_node(node("n0", broken), at(0));
    refused(
        &mut core,
        "0=n0:0",
        json!({}),
        "0/1 nodes are available: 1 node(s) were not ready, 1 node(s) were unschedulable, 1 node(s) had untolerated taint \
         {gpu: yes}. The map gives index 0 node n0.",
    );
}

#[test]
fn tolerations_are_compared_as_kubernetes_compares_them() {
    let taint = |value: &str, effect: &str| json!({ "spec": { "taints": [{ "key": "gpu", "value": value, "effect": effect }] } });
    for (toleration, value, effect, placed) in [
        (json!({ "key": "gpu", "operator": "Exists" }), "x", "NoSchedule", true),
        (json!({ "operator": "Exists" }), "x", "NoExecute", true),
        (json!({ "key": "gpu", "value": "x" }), "x", "NoSchedule", true),
        (json!({ "key": "gpu", "operator": "Equal", "value": "y" }), "x", "NoSchedule", false),
        (json!({ "key": "gpu", "operator": "Exists", "effect": "NoExecute" }), "x", "NoSchedule", false),
        (json!({ "key": "cpu", "operator": "Exists" }), "x", "NoSchedule", false),
        (json!({ "key": "gpu", "operator": "Lt", "value": "10" }), "9", "NoSchedule", true),
        (json!({ "key": "gpu", "operator": "Lt", "value": "10" }), "10", "NoSchedule", false),
        (json!({ "key": "gpu", "operator": "Gt", "value": "10" }), "11", "NoSchedule", true),
        (json!({ "key": "gpu", "operator": "Gt", "value": "10" }), "x", "NoSchedule", false),
        (json!({ "key": "gpu", "operator": "New", "value": "x" }), "x", "NoSchedule", false),
    ] {
        let mut core = core();
        core.set_node(node("n0", taint(value, effect)), at(0));
        let said = said(&mut core, "0=n0:0", json!({ "spec": { "tolerations": [toleration] } }));
        assert_eq!(said == "w-0 -> n0 0", placed, "{toleration}: {said}");
    }
}

#[test]
fn selectors_and_required_affinity_must_match_the_node() {
    let labels = json!({ "metadata": { "labels": { "zone": "a", "gpus": "8" } } });
    let term = |expression: Value| {
        json!({ "spec": { "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{ "matchExpressions": [expression] }],
        } } } } })
    };
    let field = json!({ "spec": { "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [
            { "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["n0"] }] },
            {},
        ],
    } } } } });
    let nothing = json!({ "spec": { "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{}],
    } } } } });
    for (changes, placed) in [
        (json!({ "spec": { "nodeSelector": { "zone": "a" } } }), true),
        (json!({ "spec": { "nodeSelector": { "zone": "b" } } }), false),
        (term(json!({ "key": "zone", "operator": "In", "values": ["b", "a"] })), true),
        (term(json!({ "key": "zone", "operator": "NotIn", "values": ["a"] })), false),
        (term(json!({ "key": "rack", "operator": "NotIn", "values": ["a"] })), true),
        (term(json!({ "key": "zone", "operator": "Exists" })), true),
        (term(json!({ "key": "zone", "operator": "DoesNotExist" })), false),
        (term(json!({ "key": "gpus", "operator": "Gt", "values": ["7"] })), true),
        (term(json!({ "key": "gpus", "operator": "Lt", "values": ["8"] })), false),
        (term(json!({ "key": "zone", "operator": "Like", "values": ["a"] })), false),
        (field, true),
        (nothing, false),
    ] {
        let mut core = core();
        core.set_node(node("n0", labels.clone()), at(0));
        let said = said(&mut core, "0=n0:0", changes.clone());
        assert_eq!(said == "w-0 -> n0 0", placed, "{changes}: {said}");
        assert!(placed || said.contains("didn't match Pod's node affinity/selector"), "{said}");
    }
}

#[test]
fn resources_are_counted_with_init_containers_sidecars_and_overhead() {
    let container = |cpu: &str| json!({ "name": "c", "resources": { "requests": { "cpu": cpu } } });
    let sidecar = |cpu: &str| json!({ "name": "s", "restartPolicy": "Always", "resources": { "requests": { "cpu": cpu } } });
    // The node has 8.
    for (spec, placed) in [
        (json!({ "containers": [container("8")] }), true),
        (json!({ "containers": [container("8001m")] }), false),
        (json!({ "containers": [container("4"), container("4500m")] }), false),
        (json!({ "containers": [container("6")], "initContainers": [container("8")] }), true),
        (json!({ "containers": [container("6")], "initContainers": [sidecar("3")] }), false),
        (json!({ "containers": [container("6")], "initContainers": [sidecar("2"), container("6")] }), true),
        (json!({ "containers": [container("6")], "initContainers": [sidecar("2"), container("7")] }), false),
        (json!({ "containers": [container("6")], "initContainers": [container("7"), sidecar("2")] }), true),
        (json!({ "containers": [container("8")], "overhead": { "cpu": "1m" } }), false),
        (json!({ "containers": [container("9")], "resources": { "requests": { "cpu": "8" } } }), true),
        (json!({ "containers": [container("1")], "resources": { "requests": { "cpu": "9" } } }), false),
    ] {
        let said = said(&mut core(), "0=n0:0", json!({ "spec": spec }));
        assert_eq!(said == "w-0 -> n0 0", placed, "{spec}: {said}");
        assert!(placed || said.contains("1 Insufficient cpu"), "{said}");
    }
}

#[test]
fn every_resource_and_the_number_of_pods_is_looked_at() {
    for (name, amount, why) in [
        ("memory", "17Gi", "1 Insufficient memory"),
        ("ephemeral-storage", "1Gi", "1 Insufficient ephemeral-storage"),
        ("example.com/fpga", "1", "1 Insufficient example.com/fpga"),
        ("hugepages-2Mi", "2Mi", "1 Insufficient hugepages-2Mi"),
    ] {
        let mut request = json!({ "requests": {} });
        request["requests"][name] = amount.into();
        let changes = json!({ "spec": { "containers": [{ "name": "c", "resources": request }] } });
        refused(&mut core(), "0=n0:0", changes, why);
    }
    let mut core = core();
    core.set_node(node("n0", json!({ "status": { "allocatable": { "pods": "0" } } })), at(0));
    refused(&mut core, "0=n0:0", json!({}), "1 Too many pods");
}

#[test]
fn pods_of_every_scheduler_count_until_they_end() {
    let mut core = core();
    let big = json!({
        "spec": { "schedulerName": "default-scheduler", "nodeName": "n0",
                  "containers": [{ "name": "c", "resources": { "requests": { "cpu": "7500m" } } }] },
        "status": { "phase": "Running" },
    });
    let other = pod("other-0", "", big);
    core.set_pod(Arc::clone(&other), at(0));
    refused(&mut core, "0=n0:0", json!({}), "1 Insufficient cpu");
    core.set_pod(ended(&other), at(5));
    assert_eq!(decided(&mut core, at(5)), ["w-0 -> n0 0"]);
}

#[test]
fn host_ports_are_taken_once() {
    let port = |port: u16, ip: &str| json!({ "spec": { "containers": [{ "name": "c", "ports": [{ "hostPort": port, "hostIP": ip, "protocol": "TCP" }] }] } });
    for (first, second, placed) in [
        (port(80, ""), port(80, ""), false),
        (port(80, "10.0.0.1"), port(80, "10.0.0.2"), true),
        (port(80, "10.0.0.1"), port(80, "0.0.0.0"), false),
        (port(80, ""), port(81, ""), true),
    ] {
        let mut core = core();
        core.set_pod(pod("w-1", "1=n0:1", first), at(0));
        assert_eq!(decided(&mut core, at(0)), ["w-1 -> n0 1"]);
        let said = said(&mut core, "0=n0:0", second);
        assert_eq!(said == "w-0 -> n0 0", placed, "{said}");
        assert!(placed || said.contains("free ports"), "{said}");
    }
}

#[test]
fn volumes_must_be_usable_on_the_node() {
    let changes =
        json!({ "spec": { "volumes": [{ "name": "v", "persistentVolumeClaim": { "claimName": "data" } }] } });
    let mut core = core();
    refused(&mut core, "0=n0:0", changes.clone(), "persistentvolumeclaim \"data\" not found");
    let claim = Claim { volume: Some("pv".into()), ..Claim::default() };
    core.set_claim("ns", "data", Some(Arc::new(claim)), at(10));
    assert!(decided(&mut core, at(10))[0].contains("persistentvolume \"pv\" not found"));
    let volume = |name: &str| {
        let affinity = json!({ "spec": { "nodeAffinity": { "required": { "nodeSelectorTerms": [
            { "matchExpressions": [{ "key": "kubernetes.io/hostname", "operator": "In", "values": [name] }] },
        ] } } } });
        Some(Arc::new(serde_json::from_value::<Volume>(affinity).unwrap()))
    };
    core.set_node(
        node("n0", json!({ "metadata": { "labels": { "kubernetes.io/hostname": "n0" } } })),
        at(20),
    );
    core.set_volume("pv", volume("n1"), at(20));
    assert!(decided(&mut core, at(20))[0].contains("didn't match PersistentVolume's node affinity"));
    core.set_volume("pv", volume("n0"), at(40));
    assert_eq!(decided(&mut core, at(40)), ["w-0 -> n0 0"]);
}

#[test]
fn a_claim_that_waits_for_its_consumer_is_told_the_node_and_only_when_all_else_fits() {
    let changes = json!({ "spec": { "volumes": [{ "name": "scratch", "ephemeral": {} }] } });
    let claim = |selected: Option<&str>, volume: Option<&str>| {
        let claim = Claim {
            class: Some("local".into()),
            selected_node: selected.map(Into::into),
            volume: volume.map(Into::into),
            terminating: false,
            one_pod: false,
        };
        Some(Arc::new(claim))
    };
    let mut core = core();
    core.set_class("local", Some(Class { waits: true, provisions: true }), at(0));
    core.set_claim("ns", "w-0-scratch", claim(None, None), at(0));
    core.set_node(node("n0", json!({ "spec": { "unschedulable": true } })), at(0));
    refused(&mut core, "0=n0:0", changes, "unschedulable");
    core.set_node(node("n0", json!({})), at(10));
    let asked = decided(&mut core, at(10));
    assert_eq!(asked[0], "w-0 asks for [\"w-0-scratch\"] on n0");
    assert!(asked[1].contains("waiting for a volume"), "{asked:?}");
    core.set_claim("ns", "w-0-scratch", claim(Some("n0"), None), at(20));
    assert_eq!(decided(&mut core, at(20)).len(), 1, "not asked twice");
    core.set_volume("pv", Some(Arc::default()), at(30));
    core.set_claim("ns", "w-0-scratch", claim(Some("n0"), Some("pv")), at(30));
    assert_eq!(decided(&mut core, at(30)), ["w-0 -> n0 0"]);
}

#[test]
fn a_claim_that_nobody_will_ever_bind_is_told_as_such() {
    let changes =
        json!({ "spec": { "volumes": [{ "name": "v", "persistentVolumeClaim": { "claimName": "data" } }] } });
    for (class, why) in [
        (Some(Class { waits: true, provisions: false }), "nobody makes volumes of its class"),
        (Some(Class { waits: false, provisions: true }), "unbound immediate"),
        (None, "unbound immediate"),
    ] {
        let mut core = core();
        core.set_class("c", class, at(0));
        core.set_claim(
            "ns",
            "data",
            Some(Arc::new(Claim { class: Some("c".into()), ..Claim::default() })),
            at(0),
        );
        refused(&mut core, "0=n0:0", changes.clone(), why);
    }
}

#[test]
fn a_device_plugin_beside_maps_is_refused_in_strict_mode_and_counted_else() {
    let plugin = json!({ "status": { "allocatable": { "nvidia.com/gpu": "4" } } });
    let mut strict = core_with(Options { strict: true, ..Options::default() });
    strict.set_node(node("n0", plugin.clone()), at(0));
    refused(&mut strict, "0=n0:0", json!({}), "which strict mode does not allow");
    assert_eq!(
        said(&mut core_with(Options { strict: true, ..Options::default() }), "0=n0:0", json!({})),
        "w-0 -> n0 0"
    );

    let other = |gpus: &str| {
        json!({
            "spec": { "schedulerName": "default-scheduler", "nodeName": "n0",
                      "containers": [{ "name": "c", "resources": { "requests": { "nvidia.com/gpu": gpus } } }] },
            "status": { "phase": "Running" },
        })
    };
    let mut core = core();
    core.set_node(node("n0", plugin), at(0));
    core.set_pod(pod("other-0", "", other("3")), at(0));
    refused(&mut core, "0=n0:0,1", json!({}), "pods of other schedulers have 3 of 4, and maps would have 2");
    core.set_pod(pod("w-1", "1=n0:0", json!({})), at(0));
    let placed = decisions(&mut core, at(0));
    assert!(assignment(&placed).warning.as_deref().unwrap().contains("same card"));
    let asks = json!({ "spec": { "containers": [{ "name": "c", "resources": { "requests": { "nvidia.com/gpu": "1" } } }] } });
    core.set_pod(pod("w-2", "2=n0:1", asks), at(0));
    assert!(decided(&mut core, at(0))[0].contains("a device plugin would choose"));
}

#[test]
fn the_taints_of_a_node_that_is_not_ready_decide() {
    let not_ready = "node.kubernetes.io/not-ready";
    let unreachable = "node.kubernetes.io/unreachable";
    for (taint, tolerated, placed) in [
        (Some(unreachable), not_ready, false),
        (Some(unreachable), unreachable, true),
        (Some(not_ready), not_ready, true),
        (Some(not_ready), unreachable, false),
        // The taint has not come yet.
        (None, not_ready, true),
        (None, unreachable, false),
    ] {
        let mut core = core();
        let taints: Vec<Value> =
            taint.iter().map(|key| json!({ "key": key, "effect": "NoSchedule" })).collect();
        let broken = json!({
            "spec": { "taints": taints },
            "status": { "conditions": [{ "type": "Ready", "status": "Unknown" }] },
        });
        core.set_node(node("n0", broken), at(0));
        let tolerations = json!([{ "key": tolerated, "operator": "Exists", "effect": "NoSchedule" }]);
        let said = said(&mut core, "0=n0:0", json!({ "spec": { "tolerations": tolerations } }));
        assert_eq!(said == "w-0 -> n0 0", placed, "{taint:?} {tolerated}: {said}");
        assert!(placed || said.contains("were not ready"), "{said}");
    }
}

#[test]
fn a_claim_for_one_pod_only_has_one_user_at_a_time() {
    for (mode, alone) in [("ReadWriteOncePod", true), ("ReadWriteOnce", false)] {
        let mut core = core();
        let claim = json!({
            "metadata": { "name": "data", "annotations": { "pv.kubernetes.io/bind-completed": "yes" } },
            "spec": { "accessModes": [mode], "volumeName": "v" },
        });
        core.set_claim("ns", "data", Some(Arc::new(serde_json::from_value(claim).unwrap())), at(0));
        core.set_volume("v", Some(Arc::default()), at(0));
        let uses = |scheduler: &str, node: &str| {
            json!({ "spec": {
                "schedulerName": scheduler, "nodeName": node,
                "volumes": [{ "name": "v", "persistentVolumeClaim": { "claimName": "data" } }],
            } })
        };
        core.set_pod(pod("other-0", "", uses("default-scheduler", "n1")), at(0));
        core.set_pod(pod("a-0", "0=n0:0", uses("gpu-scheduler", "")), at(0));
        let mut first = decisions(&mut core, at(0));
        if alone {
            let why =
                "persistentvolumeclaim \"data\" is for one pod (ReadWriteOncePod), and another one uses it";
            assert!(line(&first[0]).contains(why), "{first:?}");
            core.remove_pod(&"uid-other-0".into(), at(20));
            first = decisions(&mut core, at(20));
        }
        // Being bound, it has the claim; bound, it keeps it.
        let given = bound(assignment(&first));
        core.set_pod(pod("b-0", "0=n0:1", uses("gpu-scheduler", "")), at(40));
        assert_eq!(decided(&mut core, at(40))[0].contains("ReadWriteOncePod"), alone);
        if alone {
            core.set_pod(Arc::clone(&given), at(60));
            assert!(!core.has_work(at(60)));
            core.set_pod(ended(&given), at(60));
            assert_eq!(decided(&mut core, at(60)), ["b-0 -> n0 1"]);
        }
    }
}

#[test]
fn gpus_of_a_plugin_are_seen_whatever_their_resource_is_called_and_whatever_annotation_a_pod_carries() {
    for resource in ["nvidia.com/gpu.shared", "nvidia.com/mig-1g.5gb", "nvidia.com/gpu"] {
        let mut core = core_with(Options { strict: true, ..Options::default() });
        core.set_node(node("n0", json!({ "status": { "allocatable": { resource: "4" } } })), at(0));
        refused(&mut core, "0=n0:0", json!({}), &format!("served {resource} by a device plugin"));
    }
    let mut core = core();
    core.set_node(node("n0", json!({ "status": { "allocatable": { "nvidia.com/gpu": "4" } } })), at(0));
    let other = json!({
        "metadata": { "annotations": { "gpu-scheduling-devices": "0" } },
        "spec": { "schedulerName": "default-scheduler", "nodeName": "n0",
                  "containers": [{ "name": "c", "resources": { "requests": { "nvidia.com/gpu": "4" } } }] },
        "status": { "phase": "Running" },
    });
    core.set_pod(pod("other-0", "", other), at(0));
    refused(&mut core, "0=n0:0", json!({}), "pods of other schedulers have 4 of 4");
}
