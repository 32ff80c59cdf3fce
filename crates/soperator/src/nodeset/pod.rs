//! The pods of a set.

use std::collections::BTreeMap;

use engine::ask;
use engine::client::Client;
use engine::view::PodView;
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::set::Set;
use crate::cli::Error;
use crate::place::untold;

/// The labels that hold the revision of a pod.
const REVISION: [&str; 2] = ["controller.kubernetes.io/hash", "controller-revision-hash"];

/// A worker's pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Pod {
    pub(super) name: String,
    /// The number at the end of its name.
    pub(super) ordinal: Option<u32>,
    /// The Slurm node that it is.
    pub(super) slurm_node: String,
    /// The Kubernetes node that it runs on.
    pub(super) kube_node: Option<String>,
    pub(super) phase: String,
    pub(super) is_ready: bool,
    pub(super) is_terminating: bool,
    pub(super) revision: Option<String>,
}

impl From<&PodView> for Pod {
    fn from(pod: &PodView) -> Self {
        let name = pod.metadata.name.clone().unwrap_or_default();
        Self {
            ordinal: name.rsplit_once('-').and_then(|(_, digits)| digits.parse().ok()),
            slurm_node: pod.spec.hostname.as_deref().unwrap_or(&name).to_owned(),
            kube_node: pod.spec.node_name.as_deref().map(Into::into),
            phase: pod.status.phase.as_deref().unwrap_or_default().to_owned(),
            is_ready: pod.is_ready(),
            is_terminating: pod.is_terminating(),
            revision: revision(&pod.metadata),
            name,
        }
    }
}

/// The pods of the set by ordinal. The owner decides, not labels: those can be changed by anyone.
pub(super) async fn of(client: &Client, set: &Set) -> Result<Vec<Pod>, Error> {
    let all: Vec<PodView> = ask::list(client, Some(&set.namespace), "").await.map_err(untold)?;
    let mut pods: Vec<Pod> =
        all.iter().filter(|pod| is_owned(&pod.metadata, &set.uid)).map(Pod::from).collect();
    pods.sort_by(|one, two| (one.ordinal, &one.name).cmp(&(two.ordinal, &two.name)));
    Ok(pods)
}

/// The label of the revision that pods are made from now: what the status says, or else the newest that the set owns. None
/// if nobody tells.
pub(super) async fn newest_revision(client: &Client, set: &Set) -> Option<String> {
    if set.hash.is_some() {
        return set.hash.clone();
    }
    let all: Vec<ControllerRevision> = ask::list(client, Some(&set.namespace), "").await.ok()?;
    let own = all.iter().filter(|revision| is_owned(&revision.metadata, &set.uid));
    own.max_by_key(|revision| revision.revision).and_then(|newest| revision(&newest.metadata))
}

fn is_owned(meta: &ObjectMeta, uid: &str) -> bool {
    let mut owners = meta.owner_references.iter().flatten();
    !uid.is_empty() && owners.any(|owner| owner.controller == Some(true) && owner.uid == uid)
}

fn revision(meta: &ObjectMeta) -> Option<String> {
    let none = BTreeMap::new();
    let labels = meta.labels.as_ref().unwrap_or(&none);
    REVISION.iter().find_map(|key| labels.get(*key)).cloned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_slurm_node_is_the_host_name_and_the_ordinal_ends_the_name() {
        let view: PodView = serde_json::from_value(json!({
            "metadata": {"name": "c-worker-007", "labels": {"controller-revision-hash": "x"}},
            "spec": {"hostname": "worker-007", "nodeName": "machine"},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        }))
        .unwrap();
        let pod = Pod::from(&view);
        assert_eq!((pod.slurm_node.as_str(), pod.ordinal), ("worker-007", Some(7)));
        assert_eq!((pod.revision.as_deref(), pod.is_ready), (Some("x"), true));
    }

    #[test]
    fn the_owners_uid_decides_whose_a_pod_is() {
        let owned = |controller: bool, uid: &str| -> ObjectMeta {
            let owner = json!({"apiVersion": "a/v1", "kind": "NodeSet", "name": "n", "uid": uid, "controller": controller});
            serde_json::from_value(json!({"ownerReferences": [owner]})).unwrap()
        };
        assert!(is_owned(&owned(true, "1"), "1"));
        assert!(!is_owned(&owned(false, "1"), "1"), "not its controller");
        assert!(!is_owned(&owned(true, "2"), "1"), "a set of the same name that is gone");
        assert!(!is_owned(&ObjectMeta::default(), "1"));
    }
}
