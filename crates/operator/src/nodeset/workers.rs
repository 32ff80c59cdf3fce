//! The pods of a set: which there are, and how one is made.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::apply::Owner;
use engine::view::PodView;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Resource, ResourceExt as _};
use render::WorkerTemplate;

use super::plan::Worker;
use super::{TEMPLATE_HASH, ordinal};
use crate::caches::Caches;
use crate::owner::annotation;

/// The pods of a set by ordinal. The owner decides, not labels: those can be changed by anyone.
pub fn of(caches: &Caches, owner: &Owner) -> BTreeMap<u32, Arc<PodView>> {
    let pods = caches.pods.owned_by(owner.uid()).into_iter();
    pods.filter_map(|pod| Some((ordinal(&pod.name_any())?, pod))).collect()
}

/// What matters of a pod for the plan.
pub fn judge(pod: &PodView, hash: &str) -> Worker {
    let statuses = &pod.status.container_statuses;
    let never_ran = statuses.iter().filter(|status| &*status.name == "slurmd").all(|status| {
        status.state.running.is_none()
            && status.state.terminated.is_none()
            && status.last_state.terminated.is_none()
            && status.restart_count == 0
    });
    Worker {
        is_terminating: pod.is_terminating(),
        is_finished: matches!(pod.status.phase.as_deref(), Some("Failed" | "Succeeded")),
        // A pod on a node whose kubelet is silent also has no states: only one without a node surely never ran.
        never_ran: never_ran && (!statuses.is_empty() || pod.spec.node_name.is_none()),
        is_stale: annotation(pod, TEMPLATE_HASH) != Some(hash),
    }
}

/// A new pod with its owner and the hash of its template.
pub fn make(template: &WorkerTemplate<'_>, ordinal: u32, owner: &OwnerReference, hash: &str) -> Pod {
    let mut pod = template.pod(ordinal);
    let meta = pod.meta_mut();
    meta.owner_references = Some(vec![owner.clone()]);
    meta.annotations.get_or_insert_default().insert(TEMPLATE_HASH.into(), hash.into());
    pod
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(spec: Value, status: Value) -> PodView {
        let meta = json!({ "name": "w-0", "annotations": { TEMPLATE_HASH: "h" } });
        serde_json::from_value(json!({ "metadata": meta, "spec": spec, "status": status })).unwrap()
    }

    #[test]
    fn a_worker_never_ran_only_if_that_is_sure() {
        let waiting = json!({ "containerStatuses": [{ "name": "slurmd", "state": { "waiting": {} } }] });
        assert!(judge(&pod(json!({ "nodeName": "n" }), waiting), "h").never_ran);
        assert!(judge(&pod(json!({}), json!({})), "h").never_ran, "it has no node yet");
        assert!(!judge(&pod(json!({ "nodeName": "n" }), json!({})), "h").never_ran, "nobody can tell");
        let crashed = json!({ "containerStatuses": [{ "name": "slurmd", "restartCount": 1 }] });
        assert!(!judge(&pod(json!({ "nodeName": "n" }), crashed), "h").never_ran);
    }

    #[test]
    fn a_worker_of_another_template_is_stale() {
        assert!(!judge(&pod(json!({}), json!({})), "h").is_stale);
        assert!(judge(&pod(json!({}), json!({})), "other").is_stale);
    }
}
