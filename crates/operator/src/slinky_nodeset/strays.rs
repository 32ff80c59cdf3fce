//! Pods that a set may adopt, and that the cache does not hold because they lack the label by which pods are watched.
//!
//! They are looked for when the process sees a set for the first time, and whenever the set changes; a watch of all pods would
//! cost more than the few that are ever found. One that has the name of a pod that is to be made is found by that, too.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::slinky::NodeSet;
use engine::Key;
use engine::view::PodView;
use kube::{Client, ResourceExt as _};
use parking_lot::Mutex;

use super::keys;
use super::selector::PodSelector;

/// One look serves all sets of a namespace that are seen for the first time so soon after it: after a start these are all sets.
const LOOK_SERVES: Duration = Duration::from_secs(1);

/// Remembers which sets have been looked through.
#[derive(Debug, Default)]
pub struct Strays {
    /// Uid and generation of the set for which nothing was left to find.
    done: Mutex<HashMap<Key, (String, i64)>>,
    /// The last looks, by namespace.
    looks: tokio::sync::Mutex<HashMap<String, (Instant, Vec<Arc<PodView>>)>>,
}

impl Strays {
    /// Looks for pods of a set, if that has not been done yet.
    pub async fn find(
        &self,
        client: &Client,
        set: &NodeSet,
        selector: &PodSelector,
    ) -> Result<Vec<Arc<PodView>>, kube::Error> {
        let key = Key::of(set);
        let version = (set.uid().unwrap_or_default(), set.metadata.generation.unwrap_or_default());
        let nothing_to_do =
            selector.verdict() != nodeset::Selector::Usable || set.metadata.deletion_timestamp.is_some();
        if nothing_to_do || self.done.lock().get(&key) == Some(&version) {
            return Ok(Vec::new());
        }
        let is_new = !self.done.lock().contains_key(&key);
        let mut found = self.look(client, &key.namespace, is_new).await?;
        found.retain(|pod| selector.selects(pod.metadata.labels.as_ref()) && may_be_ours(set, pod));
        if found.is_empty() {
            // Only then: as long as one is left, the next look must know it.
            self.done.lock().insert(key, version);
        }
        Ok(found)
    }

    /// The pods of a namespace that the cache does not hold. The look before this one may serve.
    async fn look(
        &self,
        client: &Client,
        namespace: &str,
        may_serve: bool,
    ) -> Result<Vec<Arc<PodView>>, kube::Error> {
        let mut looks = self.looks.lock().await;
        looks.retain(|_, (time, _)| time.elapsed() < LOOK_SERVES);
        if let Some((_, pods)) = looks.get(namespace).filter(|_| may_serve) {
            return Ok(pods.clone());
        }
        let time = Instant::now();
        let pods: Vec<PodView> =
            engine::objects::list(client, namespace, &format!("!{}", keys::POD_NAME)).await?;
        let pods: Vec<Arc<PodView>> = pods.into_iter().map(Arc::new).collect();
        looks.insert(namespace.into(), (time, pods.clone()));
        drop(looks);
        Ok(pods)
    }

    /// The set is gone.
    pub fn forget(&self, key: &Key) {
        self.done.lock().remove(key);
    }
}

/// Whether a pod is the set's, or is nobody's and has a name of the set.
fn may_be_ours(set: &NodeSet, pod: &PodView) -> bool {
    let named = set_of(&pod.name_any()).is_some_and(|name| name == set.name_any());
    let controller = pod.owner_references().iter().find(|owner| owner.controller == Some(true));
    match controller {
        Some(owner) => Some(&owner.uid) == set.metadata.uid.as_ref(),
        None => named && !pod.is_terminating(),
    }
}

/// The name of the set that a pod of this name would belong to.
pub fn set_of(pod: &str) -> Option<&str> {
    let (set, ordinal) = pod.rsplit_once('-')?;
    let is_number = !ordinal.is_empty() && ordinal.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then_some(set)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::tests::set;
    use super::*;

    fn pod(name: &str, owners: Value) -> PodView {
        serde_json::from_value(json!({ "metadata": { "name": name, "ownerReferences": owners } })).unwrap()
    }

    #[test]
    fn a_pod_belongs_to_the_set_of_its_name() {
        assert_eq!(set_of("gpu-12"), Some("gpu"));
        assert_eq!(set_of("gpu-0-1"), Some("gpu-0"));
        for none in ["gpu", "gpu-", "gpu-x", "gpu-1x"] {
            assert_eq!(set_of(none), None, "{none}");
        }
    }

    #[test]
    fn only_pods_of_nobody_and_of_the_set_itself_are_found() {
        let set = set(json!({}));
        let owner = |uid: &str| json!([{ "apiVersion": "a/v1", "kind": "K", "name": "n", "uid": uid, "controller": true }]);
        assert!(may_be_ours(&set, &pod("w-0", Value::Null)));
        assert!(may_be_ours(&set, &pod("w-0", owner("set-uid"))));
        assert!(!may_be_ours(&set, &pod("w-0", owner("other"))));
        assert!(!may_be_ours(&set, &pod("w-0-1", Value::Null)), "it is of the set w-0");
        let mut going = pod("w-0", Value::Null);
        going.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        assert!(!may_be_ours(&set, &going));
    }
}
