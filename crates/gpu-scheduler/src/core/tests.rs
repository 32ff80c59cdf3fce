mod gangs;
mod places;
mod random;
mod wakes;

use serde_json::{Value, json};

use super::*;

/// A pod of ours with this map, index and uid; changes on top.
fn pod_json(name: &str, map: &str, changes: Value) -> Value {
    let mut pod = json!({
        "metadata": {
            "name": name, "namespace": "ns", "uid": format!("uid-{name}"),
            "annotations": { "gpu-scheduling-map": map },
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {
            "schedulerName": "gpu-scheduler",
            "containers": [{ "name": "c", "resources": { "requests": { "cpu": "1" } } }],
        },
        "status": { "phase": "Pending" },
    });
    merge(&mut pod, &changes);
    pod
}

fn merge(into: &mut Value, changes: &Value) {
    match (into, changes) {
        (Value::Object(into), Value::Object(changes)) => {
            for (key, value) in changes {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (into, changes) => *into = changes.clone(),
    }
}

fn pod(name: &str, map: &str, changes: Value) -> Arc<Pod> {
    Arc::new(serde_json::from_value(pod_json(name, map, changes)).unwrap())
}

fn node(name: &str, changes: Value) -> Arc<Node> {
    let mut node = json!({
        "metadata": { "name": name, "uid": format!("uid-{name}"), "labels": {} },
        "status": {
            "allocatable": { "cpu": "8", "memory": "16Gi", "pods": "10" },
            "conditions": [{ "type": "Ready", "status": "True" }],
        },
    });
    merge(&mut node, &changes);
    Arc::new(serde_json::from_value(node).unwrap())
}

fn at(seconds: u64) -> Time {
    Duration::from_secs(seconds)
}

/// A core with nodes `n0` and `n1`.
fn core() -> Core {
    core_with(Options::default())
}

fn core_with(options: Options) -> Core {
    let mut core = Core::new(options);
    for name in ["n0", "n1"] {
        core.set_node(node(name, json!({})), at(0));
    }
    core
}

fn decisions(core: &mut Core, now: Time) -> Vec<Decision> {
    let mut out = Vec::new();
    while core.decide(now, &mut out) {}
    out
}

/// What was decided, one line each: `name -> node devices`, or `name: why`.
fn decided(core: &mut Core, now: Time) -> Vec<String> {
    decisions(core, now).iter().map(line).collect()
}

fn line(decision: &Decision) -> String {
    match decision {
        Decision::Bind(a) => format!("{} -> {} {}", a.pod.name, a.node, a.devices),
        Decision::Refuse(refusal) => format!("{}: {}", refusal.pod.name, refusal.message),
        Decision::Select { pod, node, claims } => format!("{} asks for {claims:?} on {node}", pod.name),
    }
}

/// The pod as the watch shows it after a bind.
fn bound(assignment: &Assignment) -> Arc<Pod> {
    let mut pod = (*assignment.pod).clone();
    pod.node = Some(assignment.node.clone());
    pod.devices = Some(assignment.devices.as_str().into());
    pod.shared = assignment.shared.as_deref().map(Into::into);
    pod.uses = pod.claims().into();
    (pod.ask, pod.told) = (None, None);
    Arc::new(pod)
}

fn ended(pod: &Pod) -> Arc<Pod> {
    let mut pod = pod.clone();
    pod.phase = Phase::Ended;
    (pod.ask, pod.requests, pod.ports, pod.devices, pod.member) =
        (None, Default::default(), Default::default(), None, None);
    pod.uses = Box::default();
    Arc::new(pod)
}

fn assignment(decisions: &[Decision]) -> &Assignment {
    match decisions {
        [Decision::Bind(assignment)] => assignment,
        other => panic!("{other:?}"),
    }
}
