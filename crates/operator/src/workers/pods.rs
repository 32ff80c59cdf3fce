//! Pods: made, adopted, repaired, changed and deleted.

use std::collections::BTreeMap;
use std::time::Instant;

use engine::Key;
use engine::error::is_too_late;
use engine::view::PodView;
use k8s_openapi::api::core::v1::Pod;
use kube::{Resource as _, ResourceExt as _};
use nodeset::{ImageChanges, PodRef};
use serde_json::{Value, json};

use super::execute::{Execution, Step, is_conflict};
use super::{WorkerSet, ownership};
use crate::error::Error;

impl<S: WorkerSet> Execution<'_, S> {
    fn pod_key(&self, name: &str) -> Key {
        Key::new(&self.key.namespace, name)
    }

    pub(super) async fn create_pod(
        &self,
        name: &str,
        ordinal: u32,
        node: &str,
        revision: &str,
        protected: bool,
    ) -> Result<Step, Error> {
        let keys = self.set.keys();
        let older = if revision == self.plan.status.hash {
            None
        } else {
            match self.revision_data(revision) {
                Some(data) => Some(data),
                None => return Ok(Step::Again),
            }
        };
        let Some(mut pod) = self.set.pod(ordinal, node, older.as_ref()) else { return Ok(Step::Again) };
        let meta = pod.meta_mut();
        meta.name = Some(name.into());
        meta.namespace = Some(self.key.namespace.to_string());
        meta.owner_references = Some(vec![self.owner.clone()]);
        let labels = meta.labels.get_or_insert_default();
        labels.extend(self.set.identity(name, ordinal));
        labels.insert(keys.hash.into(), revision.into());
        if protected {
            labels.insert(keys.protect.into(), "true".into());
        }
        let key = self.pod_key(name);
        match engine::objects::create(&self.context.client, crate::MANAGER, &pod).await {
            Ok(made) => {
                let version = made.resource_version().unwrap_or_default();
                self.set.pods().wrote(key, &version, self.uid);
                Ok(Step::Done)
            }
            // It is there already: the cache is behind, or does not hold pods such as that one.
            Err(error) if is_conflict(&error) => {
                let found: Option<PodView> = engine::objects::get(&self.context.client, &key)
                    .await
                    .map_err(|error| Error::call(format!("pod {name} could not be read"), error))?;
                if let Some(found) = found
                    && self.set.pods().get(&key).is_none()
                {
                    self.memory.found(found);
                }
                Ok(Step::Again)
            }
            Err(error) => Err(Error::call(format!("pod {name} could not be made"), error)),
        }
    }

    pub(super) async fn adopt_pod(&self, pod: &PodRef) -> Result<Step, Error> {
        let mut patch = ownership::adopt(&pod.uid, &self.owner);
        patch["metadata"]["labels"] = json!(self.identity_of(&pod.name));
        self.patch_pod(pod, &patch, "adopted").await
    }

    pub(super) async fn release_pod(&self, pod: &PodRef) -> Result<Step, Error> {
        self.patch_pod(pod, &ownership::release(&pod.uid, self.uid), "released").await
    }

    pub(super) async fn repair_pod(&self, pod: &PodRef) -> Result<Step, Error> {
        let patch = json!({ "metadata": { "uid": pod.uid, "labels": self.identity_of(&pod.name) } });
        self.patch_pod(pod, &patch, "repaired").await
    }

    fn identity_of(&self, name: &str) -> BTreeMap<String, String> {
        let ordinal = self.set.set().ordinal_of(name);
        ordinal.map(|ordinal| self.set.identity(name, ordinal)).unwrap_or_default()
    }

    async fn patch_pod(&self, pod: &PodRef, patch: &Value, what: &str) -> Result<Step, Error> {
        let written =
            engine::objects::patch::<Pod>(&self.context.client, &self.pod_key(&pod.name), patch).await;
        self.pod_patched(pod, written, what)
    }

    fn pod_patched(
        &self,
        pod: &PodRef,
        written: Result<Option<String>, kube::Error>,
        what: &str,
    ) -> Result<Step, Error> {
        let name = &pod.name;
        self.memory.forget_pod(name);
        self.patched(
            written,
            || format!("pod {name} could not be {what}"),
            |version| self.set.pods().wrote(self.pod_key(name), version, self.uid),
        )
    }

    /// Changes images of exactly the pod that was looked at, before this time, and notes which containers ran.
    pub(super) async fn patch_images(
        &self,
        pod: &PodRef,
        images: &ImageChanges,
        revision: &str,
        before: Instant,
    ) -> Result<Step, Error> {
        let keys = self.set.keys();
        let Some(seen) = self.seen.pod(&pod.name) else { return Ok(Step::Again) };
        let statuses = seen.view.status.container_statuses.iter();
        let ran: BTreeMap<&str, &str> = statuses
            .filter(|status| images.contains_key(&*status.name))
            .filter_map(|status| Some((&*status.name, status.container_id.as_deref()?)))
            .collect();
        let containers: Vec<Value> =
            images.iter().map(|(name, image)| json!({ "name": name, "image": image })).collect();
        let patch = json!({
            "metadata": {
                "uid": pod.uid,
                "resourceVersion": pod.resource_version,
                "labels": { keys.hash: revision },
                "annotations": { keys.in_place: json!(ran).to_string() },
            },
            "spec": { "containers": containers },
        });
        let key = self.pod_key(&pod.name);
        let written = engine::objects::patch_before::<Pod>(&self.context.client, &key, &patch, before).await;
        self.pod_patched(pod, written, "given new images")
    }

    /// Deletes exactly the pod that was looked at, before this time. Whatever fails is not repeated without another look at Slurm.
    pub(super) async fn delete_pod(&self, pod: &PodRef, before: Instant) -> Result<Step, Error> {
        let seen = self.seen.pod(&pod.name).filter(|seen| {
            seen.view.uid().as_deref() == Some(&pod.uid)
                && seen.view.resource_version().as_deref() == Some(&pod.resource_version)
        });
        let Some(seen) = seen else { return Ok(Step::Again) };
        match engine::objects::delete_before(&self.context.client, &*seen.view, before).await {
            Ok(version) => {
                self.memory.deleted(&pod.name);
                if let Some(version) = version {
                    self.set.pods().wrote(self.pod_key(&pod.name), &version, self.uid);
                }
                Ok(Step::Done)
            }
            Err(error) if is_conflict(&error) || is_too_late(&error) => Ok(Step::Again),
            Err(error) => Err(Error::call(format!("pod {} could not be deleted", pod.name), error)),
        }
    }
}
