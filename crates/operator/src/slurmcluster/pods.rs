//! What the operator does to pods of a cluster that exist: marks that make kubelets look at once, and the replacement of
//! login pods that nobody uses.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::Key;
use engine::view::{PodView, WorkloadView};
use k8s_openapi::api::apps::v1::StatefulSet;
use kube::ResourceExt as _;
use render::{Component, labels};

use super::live::Live;
use crate::context::Context;
use crate::error::Error;
use crate::owner::{annotation, label};

/// Annotation of pods: changes with every rotation of a Secret that they mount.
pub const SECRETS_MARK: &str = "slurm.nebius.ai/secrets-rotated";

/// Marks pods with the hash of the configuration and the last rotation of Secrets: kubelets bring mounts up to date when
/// they see a change of a pod, and otherwise within a minute or two. Returns whether something was written.
pub async fn mark(
    context: &Context,
    owner: &str,
    live: &Live,
    config: Option<&str>,
    rotation: Option<&str>,
) -> Result<bool, Error> {
    let mut written = false;
    for pod in live.pods.iter().filter(|pod| !pod.is_terminating()) {
        let missing = missing_marks(pod, config, rotation);
        if missing.is_empty() {
            continue;
        }
        let key = Key::of(&**pod);
        let version = engine::objects::annotate(&context.client, &**pod, &missing)
            .await
            .map_err(|error| Error::call(format!("pod {key} could not be marked"), error))?;
        if let Some(version) = version {
            context.caches.pods.wrote(key, &version, owner);
            written = true;
        }
    }
    Ok(written)
}

fn missing_marks(pod: &PodView, config: Option<&str>, rotation: Option<&str>) -> BTreeMap<String, String> {
    // Others have no configuration from a mount: slurmd fetches it from slurmctld.
    let mounts_config = [Component::Controller, Component::Rest, Component::Login]
        .iter()
        .any(|component| label(pod, labels::COMPONENT) == Some(component.as_str()));
    let config = config.filter(|_| mounts_config);
    [(labels::CONFIG_HASH, config), (SECRETS_MARK, rotation)]
        .into_iter()
        .filter_map(|(name, wanted)| Some((name, wanted?)))
        .filter(|(name, wanted)| annotation(pod, name) != Some(wanted))
        .map(|(name, wanted)| (name.into(), wanted.into()))
        .collect()
}

/// Login pods that are not as their StatefulSet has them, which does not replace them by itself. Empty also while one of
/// them is away: they go one by one.
pub fn stale_logins(live: &Live) -> Vec<Arc<PodView>> {
    let Some(set) = &live.login else { return Vec::new() };
    let pods: Vec<Arc<PodView>> = live.pods_of(Component::Login).into_iter().map(Arc::clone).collect();
    stale(set, &pods)
}

fn stale(set: &WorkloadView<StatefulSet>, pods: &[Arc<PodView>]) -> Vec<Arc<PodView>> {
    let Some(revision) = set.status.update_revision.as_deref().filter(|_| set.is_observed()) else {
        return Vec::new();
    };
    let is_stale = |pod: &PodView| label(pod, REVISION).is_some_and(|known| known != revision);
    let away = |pod: &PodView| pod.is_terminating() || (!is_stale(pod) && !pod.is_ready());
    if pods.iter().any(|pod| away(pod)) {
        return Vec::new();
    }
    pods.iter().filter(|pod| is_stale(pod)).map(Arc::clone).collect()
}

/// The revision of a StatefulSet's pod.
const REVISION: &str = "controller-revision-hash";

/// Whether nobody can be logged in to a pod because its sshd never ran.
pub fn never_ran(pod: &PodView) -> bool {
    pod.status.container_statuses.iter().all(|status| {
        status.state.running.is_none()
            && status.state.terminated.is_none()
            && status.last_state.terminated.is_none()
            && status.restart_count == 0
    })
}

/// Deletes a login pod; its StatefulSet makes the next one.
pub async fn replace_login(context: &Context, pod: &PodView) -> Result<(), Error> {
    tracing::info!(pod = pod.name_any(), "a login pod without sessions is replaced");
    engine::objects::delete(&context.client, pod)
        .await
        .map_err(|error| Error::call(format!("pod {} could not be replaced", pod.name_any()), error))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(component: Component, revision: &str, ready: bool, annotations: Value) -> Arc<PodView> {
        let ready = if ready { "True" } else { "False" };
        Arc::new(
            serde_json::from_value(json!({
                "metadata": {
                    "name": "p",
                    "labels": { labels::COMPONENT: component.as_str(), REVISION: revision },
                    "annotations": annotations,
                },
                "status": { "conditions": [{ "type": "Ready", "status": ready }] },
            }))
            .unwrap(),
        )
    }

    #[test]
    fn only_pods_that_mount_the_configuration_are_marked_with_it() {
        let marks = |component| missing_marks(&pod(component, "", true, json!({})), Some("h"), None).len();
        assert_eq!(
            (marks(Component::Controller), marks(Component::Login), marks(Component::Rest)),
            (1, 1, 1)
        );
        assert_eq!((marks(Component::NodeSet), marks(Component::Accounting)), (0, 0));
        let marked = pod(Component::Login, "", true, json!({ labels::CONFIG_HASH: "h" }));
        assert!(missing_marks(&marked, Some("h"), None).is_empty());
        assert_eq!(missing_marks(&marked, Some("other"), Some("r")).len(), 2);
    }

    #[test]
    fn stale_login_pods_go_one_by_one() {
        let set: WorkloadView<StatefulSet> =
            serde_json::from_value(json!({ "metadata": {}, "status": { "updateRevision": "new" } })).unwrap();
        let login = |revision, ready| pod(Component::Login, revision, ready, json!({}));
        assert_eq!(stale(&set, &[login("old", true), login("new", true)]).len(), 1);
        assert_eq!(stale(&set, &[login("old", true), login("new", false)]).len(), 0, "one is away already");
        assert_eq!(stale(&set, &[login("old", false)]).len(), 1, "a broken one need not be ready first");
        assert_eq!(stale(&set, &[login("new", true)]).len(), 0);
    }

    #[test]
    fn a_pod_whose_container_ran_once_may_have_sessions() {
        let with = |status: Value| -> PodView {
            serde_json::from_value(json!({ "metadata": {}, "status": { "containerStatuses": [status] } }))
                .unwrap()
        };
        assert!(never_ran(&with(
            json!({ "name": "sshd", "state": { "waiting": { "reason": "ErrImagePull" } } })
        )));
        assert!(!never_ran(&with(json!({ "name": "sshd", "state": { "running": {} } }))));
        assert!(!never_ran(&with(json!({ "name": "sshd", "restartCount": 1 }))));
    }
}
