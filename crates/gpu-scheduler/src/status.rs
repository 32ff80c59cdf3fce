//! Who has which device, and why pods wait, from one look at the cluster.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::core::{Core, Options};
use crate::facts::Pod;
use crate::view::{NodeView, PodView};

/// A device that a pod has.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Held {
    /// The node.
    pub node: String,
    /// The device.
    pub device: String,
    /// The pod, as `namespace/name`.
    pub owner: String,
    /// Whether the node does not exist any more.
    pub gone: bool,
}

/// A pod that waits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Waits {
    /// The pod, as `namespace/name`.
    pub pod: String,
    /// A word.
    pub reason: String,
    /// A sentence.
    pub message: String,
}

/// What was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Status {
    /// Devices by node.
    pub devices: Vec<Held>,
    /// Pods that wait.
    pub pending: Vec<Waits>,
}

impl Status {
    /// Leaves out all that does not belong to pods of this namespace.
    pub fn keep(&mut self, namespace: &str) {
        let within = |pod: &str| pod.split_once('/').is_some_and(|(of, _)| of == namespace);
        self.devices.retain(|held| within(&held.owner));
        self.pending.retain(|waits| within(&waits.pod));
    }
}

/// Puts together what nodes and pods say.
pub fn look(scheduler: &str, nodes: &[NodeView], pods: &[PodView]) -> Status {
    let mut core = Core::new(Options { scheduler: scheduler.into(), ..Options::default() });
    for node in nodes {
        core.set_node(Arc::clone(&node.facts), Duration::ZERO);
    }
    let mut status = Status::default();
    for pod in pods {
        core.set_pod(Arc::clone(&pod.facts), Duration::ZERO);
        if *pod.facts.scheduler == *scheduler && pod.facts.ask.is_some() && !pod.facts.terminating {
            status.pending.push(waits(&pod.facts));
        }
    }
    let names = |pod: &Arc<Pod>| format!("{}/{}", pod.namespace, pod.name);
    // By device and not by its text: 2 goes before 10.
    let mut held = BTreeSet::new();
    for pod in pods {
        let Some(grant) = core.ledger().grant(&pod.facts.uid) else { continue };
        held.extend(grant.claims.iter().map(|claim| (&grant.node, &claim.device, names(&pod.facts))));
    }
    status.devices.extend(held.into_iter().map(|(node, device, owner)| Held {
        node: node.to_string(),
        device: device.to_string(),
        owner,
        gone: core.nodes().get(node).is_none(),
    }));
    status.pending.sort();
    status
}

fn waits(pod: &Pod) -> Waits {
    let (reason, message) = match (&pod.told, &pod.ask) {
        (Some(told), _) => (told.reason.to_string(), told.message.to_string()),
        (None, Some(ask)) if ask.gated => ("SchedulingGated".into(), "waits for its scheduling gates".into()),
        (None, _) => ("Unknown".into(), "no scheduler has looked at it; does one of that name run?".into()),
    };
    Waits { pod: format!("{}/{}", pod.namespace, pod.name), reason, message }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn owners_and_those_that_wait_are_shown() {
        let pod = |name: &str, spec: serde_json::Value, conditions: serde_json::Value| -> PodView {
            serde_json::from_value(json!({
                "metadata": {
                    "name": name, "namespace": "ns", "uid": name,
                    "annotations": { "gpu-scheduling-map": "0=n:0", "gpu-scheduling-devices": "10,2" },
                },
                "spec": spec,
                "status": { "conditions": conditions },
            }))
            .unwrap()
        };
        let ours = json!({ "schedulerName": "gpu-scheduler" });
        let why =
            json!([{ "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "m" }]);
        let pods = [
            pod("a-0", json!({ "schedulerName": "gpu-scheduler", "nodeName": "n" }), json!([])),
            pod("b-0", ours.clone(), why),
            pod("c-0", ours, json!([])),
            pod("d-0", json!({ "schedulerName": "default-scheduler" }), json!([])),
        ];
        let mut status = look("gpu-scheduler", &[], &pods);
        let held: Vec<String> =
            status.devices.iter().map(|h| format!("{} {} {}", h.node, h.device, h.owner)).collect();
        assert_eq!(held, ["n 2 ns/a-0", "n 10 ns/a-0"]);
        assert!(status.devices[0].gone);
        let waits: Vec<String> = status.pending.iter().map(|w| format!("{} {}", w.pod, w.reason)).collect();
        assert_eq!(waits, ["ns/b-0 Unschedulable", "ns/c-0 Unknown"]);
        status.keep("other");
        assert_eq!(status, Status::default());
    }
}
