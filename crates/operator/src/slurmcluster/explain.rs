//! Why a part is not ready, in words that tell what is missing. No I/O.

use engine::Key;
use engine::view::{ClaimView, ContainerStatusView, PodView};
use kube::ResourceExt as _;
use slurm::agent::{AgentState, ClusterMismatch};

use crate::caches::Caches;
use crate::references::References;

/// Something that keeps a part from working.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// A sentence for people.
    pub message: String,
    /// Whether somebody has to bring something: a claim, a Secret, an image. Otherwise it may just take time.
    pub is_missing: bool,
}

impl Trouble {
    /// Somebody has to bring something.
    pub fn missing(message: impl Into<String>) -> Self {
        Self { message: message.into(), is_missing: true }
    }

    /// It may just take time.
    pub fn waits(message: impl Into<String>) -> Self {
        Self { message: message.into(), is_missing: false }
    }
}

/// What pods need and is not there.
pub fn missing_references(caches: &Caches, namespace: &str, references: &References) -> Vec<Trouble> {
    let mut troubles = Vec::new();
    for name in &references.secrets {
        if caches.secrets.get(&Key::new(namespace, name)).is_none() {
            troubles.push(Trouble::missing(format!("waiting for Secret {name}: it does not exist")));
        }
    }
    for name in &references.config_maps {
        if caches.config_maps.get(&Key::new(namespace, name)).is_none() {
            troubles.push(Trouble::missing(format!("waiting for ConfigMap {name}: it does not exist")));
        }
    }
    for name in &references.claims {
        match caches.claims.get(&Key::new(namespace, name)) {
            None => troubles.push(Trouble::missing(format!("waiting for PVC {name}: it does not exist"))),
            Some(claim) => troubles.extend(unbound(&claim)),
        }
    }
    for name in &references.own_claims {
        // One that is not there yet is made together with its pod.
        troubles.extend(caches.claims.get(&Key::new(namespace, name)).and_then(|claim| unbound(&claim)));
    }
    troubles
}

fn unbound(claim: &ClaimView) -> Option<Trouble> {
    if claim.is_bound() {
        return None;
    }
    let name = claim.name_any();
    let phase = claim.status.phase.as_deref().unwrap_or("Pending");
    let why = match claim.spec.storage_class_name.as_deref() {
        None => "no StorageClass is named and none is the default; name one, or make one the default".into(),
        Some("") => "it names no StorageClass, and no PersistentVolume that exists fits it".into(),
        Some(class) => format!(
            "StorageClass {class} has made no volume yet; does it exist, does its provisioner run, or does it wait for a pod?"
        ),
    };
    Some(Trouble::missing(format!("waiting for PVC {name}: it is {phase}, {why}")))
}

/// Words of a kubelet that mean that somebody has to do something.
const STUCK: &[&str] = &[
    "ImagePullBackOff",
    "ErrImagePull",
    "InvalidImageName",
    "ErrImageNeverPull",
    "ImageInspectError",
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
];

/// Why a pod is not ready, as its status tells it; none if it tells nothing.
pub fn pod_trouble(pod: &PodView) -> Option<Trouble> {
    let name = pod.name_any();
    if pod.is_terminating() {
        return Some(Trouble::waits(format!("pod {name} is being stopped")));
    }
    if let Some(scheduled) = pod.condition("PodScheduled")
        && &*scheduled.status == "False"
    {
        let why = scheduled.message.as_deref().unwrap_or("no reason is given");
        return Some(Trouble::missing(format!("pod {name} finds no node: {why}")));
    }
    let statuses = pod.status.init_container_statuses.iter().chain(&pod.status.container_statuses);
    if let Some(trouble) = statuses.clone().find_map(|status| container_trouble(&name, status)) {
        return Some(trouble);
    }
    match pod.status.phase.as_deref() {
        Some("Failed") => {
            let why = pod.status.reason.as_deref().unwrap_or("no reason is given");
            Some(Trouble::missing(format!("pod {name} has failed: {why}")))
        }
        _ => None,
    }
}

fn container_trouble(pod: &str, status: &ContainerStatusView) -> Option<Trouble> {
    let waiting = status.state.waiting.as_ref()?;
    let reason = waiting.reason.as_deref().unwrap_or_default();
    let container = &status.name;
    if STUCK.contains(&reason) {
        let message = waiting.message.as_deref().unwrap_or(reason);
        let image = status.image.as_deref().filter(|_| reason.contains("Image"));
        let what = image.map_or_else(String::new, |image| format!(" (image {image})"));
        return Some(Trouble::missing(format!(
            "container {container} of pod {pod}{what}: {reason}: {message}"
        )));
    }
    if reason == "CrashLoopBackOff" {
        let last = status.last_state.terminated.as_ref();
        let how = match last {
            Some(last) => format!(
                "it ended with exit code {}{}",
                last.exit_code,
                last.message.as_deref().map(|text| format!(": {}", text.trim())).unwrap_or_default()
            ),
            None => "it ended".into(),
        };
        return Some(Trouble::missing(format!(
            "container {container} of pod {pod} crashes again and again: {how}; see its log"
        )));
    }
    None
}

/// What the agent of a pod that is not ready says.
pub fn agent_trouble(pod: &PodView, state: &AgentState) -> Option<Trouble> {
    let name = pod.name_any();
    let daemon = &state.daemon;
    if let Some(mismatch) = &state.cluster_mismatch {
        let namespace = pod.namespace().unwrap_or_default();
        let ClusterMismatch { file, words } = mismatch;
        return Some(Trouble::missing(format!(
            "{daemon} of pod {name} does not start: its saved state and the database of slurmdbd are not of one cluster; was \
             the database lost or replaced? Bring the old one back; or, to keep jobs and nodes and begin with new accounting: \
             kubectl exec --namespace {namespace} {name} -- rm {file}; Slurm says: {words}"
        )));
    }
    match (&state.waiting_for, &state.last_error) {
        (Some(waits), Some(error)) => {
            Some(Trouble::waits(format!("{daemon} of pod {name} waits for {waits}; last error: {error}")))
        }
        (Some(waits), None) => Some(Trouble::waits(format!("{daemon} of pod {name} waits for {waits}"))),
        (None, Some(error)) => Some(Trouble::waits(format!("{daemon} of pod {name}: {error}"))),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(status: Value) -> PodView {
        serde_json::from_value(json!({ "metadata": { "name": "c-controller-0" }, "status": status })).unwrap()
    }

    fn claim(spec: Value, phase: &str) -> ClaimView {
        serde_json::from_value(
            json!({ "metadata": { "name": "jail-pvc" }, "spec": spec, "status": { "phase": phase } }),
        )
        .unwrap()
    }

    #[test]
    fn a_pending_claim_tells_what_its_user_can_do() {
        let message = |spec: Value| unbound(&claim(spec, "Pending")).unwrap().message;
        let none = message(json!({}));
        assert!(
            none.starts_with("waiting for PVC jail-pvc: it is Pending, no StorageClass is named"),
            "{none}"
        );
        assert!(message(json!({ "storageClassName": "" })).contains("no PersistentVolume"));
        assert!(
            message(json!({ "storageClassName": "fast" })).contains("StorageClass fast has made no volume")
        );
        assert_eq!(unbound(&claim(json!({}), "Bound")), None);
    }

    #[test]
    fn an_image_that_cannot_be_pulled_is_named() {
        let status = json!({ "initContainerStatuses": [{
            "name": "munge",
            "image": "registry/munge:9",
            "state": { "waiting": { "reason": "ImagePullBackOff", "message": "Back-off pulling image" } },
        }] });
        let trouble = pod_trouble(&pod(status)).unwrap();
        assert!(trouble.is_missing);
        assert_eq!(
            trouble.message,
            "container munge of pod c-controller-0 (image registry/munge:9): ImagePullBackOff: Back-off pulling image"
        );
    }

    #[test]
    fn a_pod_without_a_node_and_one_that_crashes_say_why() {
        let status = json!({ "conditions": [{
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes are available",
        }] });
        let message = pod_trouble(&pod(status)).unwrap().message;
        assert_eq!(message, "pod c-controller-0 finds no node: 0/2 nodes are available");
        let status = json!({ "containerStatuses": [{
            "name": "slurmctld",
            "state": { "waiting": { "reason": "CrashLoopBackOff" } },
            "lastState": { "terminated": { "exitCode": 1, "message": "no key\n" } },
        }] });
        let message = pod_trouble(&pod(status)).unwrap().message;
        assert!(
            message.contains("crashes again and again: it ended with exit code 1: no key; see"),
            "{message}"
        );
    }

    #[test]
    fn a_pod_that_just_starts_is_no_trouble() {
        let status = json!({ "phase": "Pending", "containerStatuses": [
            { "name": "slurmctld", "state": { "waiting": { "reason": "ContainerCreating" } } },
        ] });
        assert_eq!(pod_trouble(&pod(status)), None);
    }

    #[test]
    fn the_agents_words_are_passed_on() {
        let state = AgentState {
            daemon: "slurmdbd".into(),
            last_error: Some("Access denied for user 'slurm'".into()),
            ..AgentState::default()
        };
        let trouble = agent_trouble(&pod(json!({})), &state).unwrap();
        assert_eq!(trouble.message, "slurmdbd of pod c-controller-0: Access denied for user 'slurm'");
        assert_eq!(agent_trouble(&pod(json!({})), &AgentState::default()), None);
    }

    #[test]
    fn a_lost_database_is_told_with_the_ways_out() {
        let state = AgentState {
            daemon: "slurmctld".into(),
            last_error: Some("slurmctld does not start".into()),
            cluster_mismatch: Some(ClusterMismatch {
                file: "/var/spool/slurmctld/clustername".into(),
                words: "fatal: CLUSTER ID MISMATCH.".into(),
            }),
            ..AgentState::default()
        };
        let trouble = agent_trouble(&pod(json!({})), &state).unwrap();
        assert!(trouble.is_missing, "somebody has to decide");
        let message = trouble.message;
        assert!(message.contains("c-controller-0 -- rm /var/spool/slurmctld/clustername;"), "{message}");
        assert!(message.ends_with("Slurm says: fatal: CLUSTER ID MISMATCH."), "{message}");
    }
}
