//! From the view of a pod to what the planner wants to know of it. No I/O.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::view::{ContainerStatusView, NodeView, PodView};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Resource;
use nodeset::{Agent, CONDITION_PREFIX, Cordon, KubeNode, Marks, Owner, Pod, PodPhase, UnixTime};

use super::Keys;
use crate::owner::{annotation, label};
use crate::worker_pods::is_forced;

/// A pod with what was found out about it besides.
#[derive(Clone, Debug)]
pub(super) struct SeenPod {
    pub(super) view: Arc<PodView>,
    /// Its Kubernetes node, if that exists.
    pub(super) node: Option<Arc<NodeView>>,
    /// What its agent said.
    pub(super) agent: Agent,
    /// Whether the set's selector matches.
    pub(super) selected: bool,
    /// Whether it has all labels of its identity.
    pub(super) identity_kept: bool,
}

impl SeenPod {
    /// The pod as the planner wants it. `told` are the types of conditions of its node that matter.
    pub(super) fn fact<'a>(&'a self, uid: &str, keys: &Keys, main: Option<&str>, told: &[String]) -> Pod<'a> {
        let view = &*self.view;
        let meta = &view.metadata;
        Pod {
            name: name(view),
            uid: meta.uid.as_deref().unwrap_or_default(),
            resource_version: meta.resource_version.as_deref().unwrap_or_default(),
            owner: owner(view, uid),
            selected: self.selected,
            identity_kept: self.identity_kept,
            revision: label(view, keys.hash),
            slurm_node: slurm_node(view),
            kube_node: self.kube_node(keys, told),
            phase: phase(view),
            started: started(view, main),
            ready: ready(view),
            created: unix(meta.creation_timestamp.as_ref()),
            terminating: view.is_terminating(),
            cordon: cordon(view, keys),
            deletion_cost: keys.deletion_cost.map_or(0, |key| cost(annotation(view, key))),
            forced: is_forced(view),
            restarting: is_restarting(view, keys),
            marks: marks(view, keys),
            agent: self.agent,
        }
    }

    fn kube_node<'a>(&'a self, keys: &Keys, told: &[String]) -> Option<KubeNode<'a>> {
        let name = self.view.spec.node_name.as_deref()?;
        let node = self.node.as_deref();
        Some(KubeNode {
            name,
            gone: node.is_none(),
            cordoned: node.is_some_and(|node| node.spec.unschedulable),
            cordon_reason: node
                .and_then(|node| keys.cordon_reasons.iter().find_map(|key| annotation(node, key))),
            conditions: node.map(|node| conditions(node, told)).unwrap_or_default(),
        })
    }
}

/// Reason and message of the conditions of these types that are True.
fn conditions<'a>(node: &'a NodeView, types: &[String]) -> Vec<(&'a str, &'a str)> {
    let found = types.iter().filter_map(|type_| node.condition(type_));
    let holding = found.filter(|condition| &*condition.status == "True");
    holding
        .map(|condition| {
            (
                condition.reason.as_deref().unwrap_or_default(),
                condition.message.as_deref().unwrap_or_default(),
            )
        })
        .collect()
}

/// The name of an object.
pub(super) fn name(object: &impl Resource) -> &str {
    object.meta().name.as_deref().unwrap_or_default()
}

/// The Slurm node that a pod is: its host name.
pub(super) fn slurm_node(pod: &PodView) -> &str {
    pod.spec.hostname.as_deref().unwrap_or_else(|| name(pod))
}

/// Who controls an object.
pub(super) fn owner(object: &impl Resource, uid: &str) -> Owner {
    let mut owners = object.meta().owner_references.iter().flatten();
    match owners.find(|owner| owner.controller == Some(true)) {
        None => Owner::Nobody,
        Some(owner) if owner.uid == uid => Owner::Set,
        Some(_) => Owner::Other,
    }
}

/// A time as the planner has it.
pub(super) fn unix(time: Option<&Time>) -> UnixTime {
    time.map(|time| of_timestamp(time.0)).unwrap_or_default()
}

/// The same.
pub(super) fn of_timestamp(time: Timestamp) -> UnixTime {
    UnixTime(u64::try_from(time.as_second()).unwrap_or_default())
}

fn phase(pod: &PodView) -> PodPhase {
    match pod.status.phase.as_deref() {
        None | Some("" | "Pending") => PodPhase::Pending,
        Some("Running") => PodPhase::Running,
        Some("Succeeded") => PodPhase::Succeeded,
        Some("Failed") => PodPhase::Failed,
        Some(_) => PodPhase::Unknown,
    }
}

/// When its slurmd started. A kubelet that has the pod and has said nothing may have started it all the same.
fn started(pod: &PodView, main: Option<&str>) -> Option<UnixTime> {
    let created = unix(pod.metadata.creation_timestamp.as_ref());
    let statuses = &pod.status.container_statuses;
    let mut told = statuses.iter().filter(|status| main.is_none_or(|main| *status.name == *main)).peekable();
    if told.peek().is_none() {
        return pod.spec.node_name.is_some().then_some(created);
    }
    told.filter_map(start_of).map(|started| started.map_or(created, |time| unix(Some(time)))).max()
}

/// None: it never started. Some(None): it did, and nobody wrote down when.
fn start_of(status: &ContainerStatusView) -> Option<Option<&Time>> {
    let (now, before) = (&status.state, &status.last_state);
    if let Some(running) = &now.running {
        return Some(running.started_at.as_ref());
    }
    if let Some(ended) = now.terminated.as_ref().or(before.terminated.as_ref()) {
        return Some(ended.started_at.as_ref());
    }
    (status.restart_count > 0 || status.started == Some(true)).then_some(None)
}

fn ready(pod: &PodView) -> Option<UnixTime> {
    let ready = pod.condition("Ready").filter(|condition| &*condition.status == "True")?;
    Some(unix(ready.last_transition_time.as_ref()))
}

fn cordon(pod: &PodView, keys: &Keys) -> Cordon {
    match &keys.cordon {
        Some(keys) if annotation(pod, keys.cordoned) == Some("true") => {
            if annotation(pod, keys.ours).is_some() { Cordon::Ours } else { Cordon::User }
        }
        _ => Cordon::None,
    }
}

/// Numbers with a plus or zeros in front are none, as elsewhere in Kubernetes.
fn cost(text: Option<&str>) -> i32 {
    text.and_then(|text| text.parse::<i32>().ok().filter(|cost| cost.to_string() == text)).unwrap_or_default()
}

/// The containers that ran when images were changed, by name.
pub(super) fn containers_before(pod: &PodView, keys: &Keys) -> BTreeMap<String, String> {
    annotation(pod, keys.in_place).and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

fn is_restarting(pod: &PodView, keys: &Keys) -> bool {
    containers_before(pod, keys).iter().any(|(name, before)| {
        let status = pod.status.container_statuses.iter().find(|status| *status.name == **name);
        status.and_then(|status| status.container_id.as_deref()).is_none_or(|now| now == before)
    })
}

fn marks<'a>(pod: &'a PodView, keys: &Keys) -> Marks<'a> {
    let conditions = pod.status.conditions.iter();
    let ours = conditions
        .filter(|condition| condition.type_.starts_with(CONDITION_PREFIX) && &*condition.status == "True");
    Marks {
        protected: label(pod, keys.protect) == Some("true"),
        deadline: annotation(pod, keys.deadline)
            .and_then(|text| text.parse::<Timestamp>().ok())
            .map(of_timestamp),
        conditions: ours
            .map(|condition| (&*condition.type_, condition.message.as_deref().unwrap_or_default()))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const KEYS: Keys = Keys {
        hash: "hash",
        protect: "protect",
        deadline: "deadline",
        in_place: "in-place",
        cordon: Some(super::super::CordonKeys { cordoned: "cordon", ours: "cordon-by" }),
        deletion_cost: Some("cost"),
        cordon_reasons: &["why"],
        budget_suffix: "-workers",
    };

    fn view(meta: Value, spec: Value, status: Value) -> PodView {
        serde_json::from_value(json!({ "metadata": meta, "spec": spec, "status": status })).unwrap()
    }

    fn statuses(status: Value) -> PodView {
        let meta = json!({ "name": "w-0", "creationTimestamp": "2026-01-01T00:00:00Z" });
        view(meta, json!({ "nodeName": "n" }), json!({ "containerStatuses": [status] }))
    }

    #[test]
    fn a_worker_never_started_only_if_that_is_sure() {
        let main = Some("slurmd");
        let waiting = statuses(json!({ "name": "slurmd", "state": { "waiting": {} } }));
        assert_eq!(started(&waiting, main), None);
        assert_eq!(started(&view(json!({}), json!({}), json!({})), main), None, "it has no node yet");
        let silent = view(json!({}), json!({ "nodeName": "n" }), json!({}));
        assert!(started(&silent, main).is_some(), "nobody can tell");
        let other = statuses(json!({ "name": "munge", "state": { "running": {} } }));
        assert!(started(&other, main).is_some(), "nothing is told of slurmd");
        let crashed = statuses(json!({ "name": "slurmd", "restartCount": 1 }));
        assert!(started(&crashed, main).is_some());
    }

    #[test]
    fn the_start_is_that_of_the_container_that_runs_or_ran_last() {
        let at = "2026-01-02T00:00:00Z";
        let time = of_timestamp(at.parse().unwrap());
        for state in [
            json!({ "name": "slurmd", "state": { "running": { "startedAt": at } },
                    "lastState": { "terminated": { "startedAt": "2026-01-01T12:00:00Z" } } }),
            json!({ "name": "slurmd", "state": { "terminated": { "startedAt": at } } }),
            json!({ "name": "slurmd", "state": { "waiting": {} }, "lastState": { "terminated": { "startedAt": at } } }),
        ] {
            assert_eq!(started(&statuses(state.clone()), None), Some(time), "{state}");
        }
    }

    #[test]
    fn a_pod_restarts_until_every_changed_container_is_another_one() {
        let pod = |id: Value| {
            let meta = json!({ "name": "w-0", "annotations": { "in-place": r#"{"slurmd":"old"}"# } });
            let status = json!({ "containerStatuses": [{ "name": "slurmd", "containerID": id }] });
            view(meta, json!({}), status)
        };
        assert!(is_restarting(&pod(json!("old")), &KEYS));
        assert!(is_restarting(&pod(Value::Null), &KEYS), "between two containers");
        assert!(!is_restarting(&pod(json!("new")), &KEYS));
        assert!(!is_restarting(&view(json!({}), json!({}), json!({})), &KEYS));
    }

    #[test]
    fn of_a_nodes_conditions_those_matter_that_are_true_and_that_the_user_named() {
        let node: NodeView = serde_json::from_value(json!({
            "metadata": { "name": "n" },
            "status": { "conditions": [
                { "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is ready" },
                { "type": "GpuUnhealthy", "status": "True", "reason": "Xid", "message": "GPU 3 is lost" },
                { "type": "DiskPressure", "status": "False", "reason": "Enough", "message": "disk is fine" },
            ] },
        }))
        .unwrap();
        let types = ["GpuUnhealthy", "DiskPressure", "Missing"].map(String::from);
        assert_eq!(conditions(&node, &types), [("Xid", "GPU 3 is lost")]);
        assert!(conditions(&node, &[]).is_empty());
    }

    #[test]
    fn only_plain_numbers_are_costs() {
        assert_eq!(
            [Some("-3"), Some("7"), Some("+7"), Some("07"), Some("x"), None].map(cost),
            [-3, 7, 0, 0, 0, 0]
        );
    }

    #[test]
    fn who_cordoned_a_pod_is_told_apart() {
        let pod = |annotations: Value| view(json!({ "annotations": annotations }), json!({}), json!({}));
        assert_eq!(cordon(&pod(json!({ "cordon": "true" })), &KEYS), Cordon::User);
        assert_eq!(cordon(&pod(json!({ "cordon": "true", "cordon-by": "x" })), &KEYS), Cordon::Ours);
        assert_eq!(cordon(&pod(json!({ "cordon": "yes", "cordon-by": "x" })), &KEYS), Cordon::None);
    }
}
