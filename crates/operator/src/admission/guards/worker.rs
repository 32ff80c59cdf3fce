//! A worker's pod, as somebody wants to delete it.

use std::net::IpAddr;

use engine::Key;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::Resource as _;
use nodeset::Api;
use render::labels;
use slurm::agent::PROGRAM_IN_IMAGE;

use crate::owner::label;
use crate::worker_pods;

/// A worker that runs, and what is needed to find out whether jobs are on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worker {
    /// Its pod.
    pub pod: Key,
    /// The API of its set.
    pub api: Api,
    /// Its set; none if nobody controls the pod.
    pub set: Option<Key>,
    /// Its cluster, where the pod itself tells.
    pub cluster: Option<Key>,
    /// The Slurm node that it is.
    pub node: String,
    /// The Kubernetes node that it is on.
    pub kube_node: Option<String>,
    /// Where its agent answers; none if it has none of ours.
    pub agent: Option<IpAddr>,
}

/// Why a pod may go whatever Slurm says. The matchConditions of the webhook say the same, so that nobody waits for us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// It is no worker of ours.
    NoWorker,
    /// Its deletion has begun.
    Terminates,
    /// No container of it ever started.
    NeverStarted,
    /// All its containers have ended.
    Ended,
    /// The user gave up the care for its jobs.
    Forced,
}

/// Reads a pod.
pub fn read(pod: &Pod) -> Result<Worker, Pass> {
    let api = match label(pod, worker_pods::WORKER) {
        Some(worker_pods::NEBIUS) => Api::Nebius,
        Some(worker_pods::SLINKY) => Api::Slinky,
        _ => return Err(Pass::NoWorker),
    };
    let key = Key::of(pod);
    let status = pod.status.as_ref();
    if pod.metadata.deletion_timestamp.is_some() {
        return Err(Pass::Terminates);
    }
    if matches!(status.and_then(|status| status.phase.as_deref()), Some("Succeeded" | "Failed")) {
        return Err(Pass::Ended);
    }
    if !status.iter().flat_map(|status| status.container_statuses.iter().flatten()).any(has_started) {
        return Err(Pass::NeverStarted);
    }
    if worker_pods::is_forced(pod) {
        return Err(Pass::Forced);
    }
    let spec = pod.spec.as_ref();
    let cluster = label(pod, labels::INSTANCE).filter(|_| api == Api::Nebius);
    Ok(Worker {
        api,
        set: set_of(pod, api),
        cluster: cluster.map(|name| Key::new(&key.namespace, name)),
        node: spec.and_then(|spec| spec.hostname.clone()).unwrap_or_else(|| key.name.to_string()),
        kube_node: spec.and_then(|spec| spec.node_name.clone()),
        agent: status.and_then(|status| status.pod_ip.as_deref()?.parse().ok()).filter(|_| has_agent(pod)),
        pod: key,
    })
}

fn has_started(container: &ContainerStatus) -> bool {
    let state = container.state.as_ref();
    container.restart_count > 0
        || state.is_some_and(|state| state.running.is_some() || state.terminated.is_some())
        || container.last_state.as_ref().is_some_and(|state| state.terminated.is_some())
}

/// The set that controls the pod.
fn set_of(pod: &Pod, api: Api) -> Option<Key> {
    let group = match api {
        Api::Nebius => api::nebius::GROUP,
        Api::Slinky => api::slinky::GROUP,
    };
    let owner = pod.metadata.owner_references.iter().flatten().find(|owner| {
        owner.kind == "NodeSet"
            && owner.controller == Some(true)
            && owner.api_version.split_once('/').is_some_and(|(of, _)| of == group)
    })?;
    Some(Key::new(pod.meta().namespace.as_deref()?, &owner.name))
}

/// Whether our agent runs in the pod: an init container brings it.
fn has_agent(pod: &Pod) -> bool {
    let containers = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
    let mut commands = containers.filter_map(|container| container.command.as_ref()?.first());
    commands.any(|program| program == PROGRAM_IN_IMAGE)
}

#[cfg(test)]
pub mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A worker of `slurm.nebius.ai` that runs.
    pub fn pod() -> Value {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "namespace": "n", "name": "c-worker-1",
                "labels": { "slurm.nebius.ai/worker": "true", "app.kubernetes.io/instance": "c" },
                "ownerReferences": [{
                    "apiVersion": "slurm.nebius.ai/v1alpha1", "kind": "NodeSet", "name": "c-worker", "uid": "u",
                    "controller": true,
                }],
            },
            "spec": {
                "hostname": "worker-1", "nodeName": "k-1",
                "initContainers": [{ "name": "agent", "command": ["/usr/bin/slurm-agent", "install", "/x"] }],
                "containers": [{ "name": "slurmd" }],
            },
            "status": {
                "phase": "Running", "podIP": "10.1.2.3",
                "containerStatuses": [{
                    "name": "slurmd", "image": "i", "imageID": "", "ready": true, "restartCount": 0,
                    "state": { "running": {} },
                }],
            },
        })
    }

    fn read_changed(change: impl FnOnce(&mut Value)) -> Result<Worker, Pass> {
        let mut value = pod();
        change(&mut value);
        read(&serde_json::from_value(value).unwrap())
    }

    #[test]
    fn a_worker_that_runs_tells_where_to_ask() {
        let worker = read_changed(|_| {}).unwrap();
        assert_eq!(worker.node, "worker-1");
        assert_eq!(worker.cluster, Some(Key::new("n", "c")));
        assert_eq!(worker.set, Some(Key::new("n", "c-worker")));
        assert_eq!(worker.kube_node.as_deref(), Some("k-1"));
        assert_eq!(worker.agent, Some([10, 1, 2, 3].into()));
    }

    #[test]
    fn a_worker_of_slinky_is_named_like_its_pod_and_has_no_agent() {
        let worker = read_changed(|pod| {
            pod["metadata"]["labels"]["slurm.nebius.ai/worker"] = "slinky".into();
            pod["metadata"]["ownerReferences"][0]["apiVersion"] = "slinky.slurm.net/v1alpha1".into();
            pod["spec"]["hostname"] = Value::Null;
            pod["spec"]["initContainers"] = Value::Null;
        })
        .unwrap();
        assert_eq!((worker.api, worker.node.as_str()), (Api::Slinky, "c-worker-1"));
        assert_eq!(worker.set, Some(Key::new("n", "c-worker")));
        assert_eq!((worker.cluster, worker.agent), (None, None), "only its set knows the cluster");
    }

    #[test]
    fn an_owner_of_another_kind_is_no_set() {
        for version in ["apps/v1", "slinky.slurm.net/v1alpha1", "slurm.nebius.ai.example.com/v1"] {
            let worker = read_changed(|pod| {
                pod["metadata"]["ownerReferences"][0]["apiVersion"] = version.into();
            });
            assert_eq!(worker.unwrap().set, None, "{version}");
        }
    }

    #[test]
    fn pods_in_which_nothing_runs_pass() {
        let waits = json!([{
            "name": "slurmd", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
            "state": { "waiting": { "reason": "ImagePullBackOff" } },
        }]);
        assert_eq!(
            read_changed(|pod| pod["status"]["containerStatuses"] = waits.clone()),
            Err(Pass::NeverStarted)
        );
        assert_eq!(read_changed(|pod| pod["status"] = Value::Null), Err(Pass::NeverStarted));
        for phase in ["Succeeded", "Failed"] {
            assert_eq!(read_changed(|pod| pod["status"]["phase"] = phase.into()), Err(Pass::Ended));
        }
        let time = "2026-01-01T00:00:00Z";
        let going = read_changed(|pod| pod["metadata"]["deletionTimestamp"] = time.into());
        assert_eq!(going, Err(Pass::Terminates));
        let other = read_changed(|pod| pod["metadata"]["labels"] = Value::Null);
        assert_eq!(other, Err(Pass::NoWorker));
        let forced = read_changed(|pod| {
            pod["metadata"]["annotations"] = json!({ "slinky.slurm.net/force-delete": "true" });
        });
        assert_eq!(forced, Err(Pass::Forced));
    }

    #[test]
    fn a_container_that_was_started_again_has_started() {
        let mut again = pod()["status"]["containerStatuses"].clone();
        again[0]["state"] = json!({ "waiting": { "reason": "CrashLoopBackOff" } });
        again[0]["lastState"] = json!({ "terminated": { "exitCode": 1 } });
        again[0]["restartCount"] = 1.into();
        assert!(read_changed(|pod| pod["status"]["containerStatuses"] = again).is_ok());
    }
}
