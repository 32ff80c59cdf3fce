//! ControllerRevisions: made, adopted, renumbered and thrown away.

use engine::Key;
use engine::view::RevisionView;
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use kube::ResourceExt as _;
use nodeset::Owner;
use serde_json::{Value, json};

use super::execute::{Execution, Step, is_conflict};
use super::{Wanted, WorkerSet, facts, ownership};
use crate::error::Error;

impl<S: WorkerSet> Execution<'_, S> {
    /// The data of the revision with this label.
    pub(super) fn revision_data(&self, label: &str) -> Option<Value> {
        let hash = self.set.keys().hash;
        let of_it =
            |view: &RevisionView| crate::owner::label(view, hash).unwrap_or(facts::name(view)) == label;
        let newest = self
            .seen
            .revisions
            .iter()
            .map(|(view, _)| view)
            .filter(|view| of_it(view))
            .max_by_key(|view| view.revision);
        newest.map(|view| view.data())
    }

    pub(super) async fn create_revision(&self, name: &str, hash: &str, number: i64) -> Result<Step, Error> {
        let Wanted { data, mut labels, annotations } = self.set.wanted();
        labels.insert(self.set.keys().hash.into(), hash.into());
        let key = Key::new(&self.key.namespace, name);
        let revision = ControllerRevision {
            metadata: ObjectMeta {
                name: Some(name.into()),
                namespace: Some(key.namespace.to_string()),
                labels: Some(labels),
                annotations: Some(annotations).filter(|annotations| !annotations.is_empty()),
                owner_references: Some(vec![self.owner.clone()]),
                ..ObjectMeta::default()
            },
            revision: number,
            data: Some(RawExtension(data.clone())),
        };
        let client = &self.context.client;
        match engine::objects::create(client, crate::MANAGER, &revision).await {
            Ok(made) => {
                let version = made.resource_version().unwrap_or_default();
                self.set.revision_cache().wrote(key, &version, self.uid);
                Ok(Step::Done)
            }
            Err(error) if is_conflict(&error) => {
                let taken: Option<RevisionView> = engine::objects::get(client, &key)
                    .await
                    .map_err(|error| Error::call(format!("revision {name} could not be read"), error))?;
                let same = taken.is_some_and(|taken| {
                    facts::owner(&taken, self.uid) == Owner::Set
                        && self.set.content(&taken.data()) == self.set.content(&data)
                });
                if !same {
                    self.memory.collided(self.plan.status.collisions);
                }
                Ok(if same { Step::Done } else { Step::Replan })
            }
            Err(error) => Err(Error::call(format!("revision {name} could not be made"), error)),
        }
    }

    pub(super) async fn adopt_revision(&self, name: &str, uid: &str) -> Result<Step, Error> {
        self.patch_revision(name, &ownership::adopt(uid, &self.owner), "adopted").await
    }

    pub(super) async fn renumber_revision(&self, name: &str, uid: &str, number: i64) -> Result<Step, Error> {
        let patch = json!({ "metadata": { "uid": uid }, "revision": number });
        self.patch_revision(name, &patch, "renumbered").await
    }

    async fn patch_revision(&self, name: &str, patch: &Value, what: &str) -> Result<Step, Error> {
        let key = Key::new(&self.key.namespace, name);
        self.patched(
            engine::objects::patch::<ControllerRevision>(&self.context.client, &key, patch).await,
            || format!("revision {name} could not be {what}"),
            |version| self.set.revision_cache().wrote(key.clone(), version, self.uid),
        )
    }

    pub(super) async fn delete_revision(&self, name: &str, uid: &str) -> Result<Step, Error> {
        let seen = self.seen.revisions.iter().map(|(view, _)| view);
        let Some(view) = seen.into_iter().find(|view| view.uid().as_deref() == Some(uid)) else {
            return Ok(Step::Again);
        };
        match engine::objects::delete(&self.context.client, &**view).await {
            Ok(_) => Ok(Step::Done),
            Err(error) if is_conflict(&error) => Ok(Step::Again),
            Err(error) => Err(Error::call(format!("revision {name} could not be deleted"), error)),
        }
    }
}
