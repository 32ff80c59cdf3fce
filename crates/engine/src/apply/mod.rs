//! Brings objects to their desired state, without a call where there is nothing to do.
//!
//! Server-side apply under one field manager per controller. A hash of what we send is kept in an annotation, and a signal
//! of the object's metadata after our write in memory: as long as both are as they were, there is no call. If only the
//! signal moved, one GET tells whether what we sent is still there.

mod desired;
mod diff;
mod drift;
mod known;
mod wave;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{StreamExt as _, stream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::{
    Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy,
};
use kube::{Client, Resource, ResourceExt as _};
use parking_lot::Mutex;
use serde_json::Value;

use crate::controller::Wake;
use crate::error::{ReconcileError, Retry, category_of, chain, retry_of};
use crate::key::Key;
pub use desired::{DesiredObject, HASH_ANNOTATION, Kind, MANAGED_BY_LABEL, Policy};
pub use diff::Difference;
use drift::Signal;
use known::KnownKinds;
pub use known::KnownObjects;
use wave::is_stateful;
pub use wave::wave;

/// How long a stateful object has to be superfluous before it is deleted.
const SECOND_LOOK: Duration = Duration::from_secs(5);
/// How many calls of one wave are made at once.
const PARALLEL: usize = 8;

/// On whose behalf objects are made.
#[derive(Clone, Debug)]
pub struct Owner {
    reference: OwnerReference,
}

impl Owner {
    /// The owner as its object tells it; none if the object has not been stored yet.
    pub fn of<K: Resource<DynamicType = ()>>(object: &K) -> Option<Self> {
        object.controller_owner_ref(&()).map(|reference| Self { reference })
    }

    /// The uid.
    pub fn uid(&self) -> &str {
        &self.reference.uid
    }
}

/// What became of one object.
#[derive(Debug)]
pub enum Outcome {
    /// It was as desired, and no write was made.
    Unchanged,
    /// It was written.
    Written,
    /// An immutable field stood in the way: it is being deleted, and is made again when it is gone.
    Replacing,
    /// It is superfluous and stateful: if it still is when we look again, it is deleted.
    Superfluous,
    /// It was superfluous and has been deleted.
    Pruned,
    /// It exists and belongs to somebody else.
    Foreign {
        /// To whom.
        holder: String,
    },
    /// The API server refused, or could not be reached.
    Failed(kube::Error),
}

/// The result of one apply: every object with what became of it.
#[derive(Debug, Default)]
pub struct Applied {
    /// In the order of the waves.
    pub outcomes: Vec<(String, Outcome)>,
}

/// Why not everything is as desired.
#[derive(Debug)]
pub struct ApplyError {
    problems: Vec<String>,
    retry: Retry,
    category: &'static str,
}

impl fmt::Display for ApplyError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.problems.join("; "))
    }
}

impl std::error::Error for ApplyError {}

impl ReconcileError for ApplyError {
    fn retry(&self) -> Retry {
        self.retry
    }

    fn category(&self) -> &'static str {
        self.category
    }
}

impl Applied {
    /// Whether an object was written or deleted.
    pub fn changed(&self) -> bool {
        self.outcomes
            .iter()
            .any(|(_, outcome)| matches!(outcome, Outcome::Written | Outcome::Replacing | Outcome::Pruned))
    }

    /// When to look again by ourselves; none if only a change can make it necessary.
    pub fn wake(&self) -> Wake {
        let superfluous = self.outcomes.iter().any(|(_, outcome)| matches!(outcome, Outcome::Superfluous));
        if superfluous { Wake::After(SECOND_LOOK) } else { Wake::OnChange }
    }

    /// An error if something is not as desired; all problems are named.
    pub fn into_result(self) -> Result<(), ApplyError> {
        let mut error = ApplyError { problems: Vec::new(), retry: Retry::OnChange, category: "foreign" };
        for (name, outcome) in &self.outcomes {
            match outcome {
                Outcome::Foreign { holder } => {
                    error
                        .problems
                        .push(format!("{name} belongs to {holder}; rename or delete one of the two"));
                }
                Outcome::Failed(cause) => {
                    error.problems.push(format!("{name}: {}", chain(cause)));
                    // The one that can pass by itself decides.
                    if error.retry == Retry::OnChange {
                        (error.retry, error.category) = (retry_of(cause), category_of(cause));
                    }
                }
                Outcome::Unchanged
                | Outcome::Written
                | Outcome::Replacing
                | Outcome::Superfluous
                | Outcome::Pruned => {}
            }
        }
        if error.problems.is_empty() { Ok(()) } else { Err(error) }
    }
}

/// Applies, prunes and compares on behalf of one controller.
pub struct Applier {
    client: Client,
    manager: &'static str,
    known: KnownKinds,
    /// By kind and key: the owner's uid, and what the metadata was after we last wrote or compared it.
    signals: Mutex<HashMap<(String, Key), (String, Signal)>>,
    /// Stateful objects (by uid) that are superfluous, and since when.
    superfluous: Mutex<HashMap<String, Instant>>,
}

impl Applier {
    /// An applier with its field manager, which also is the value of the managed-by label.
    pub fn new(client: Client, manager: &'static str) -> Self {
        Self {
            client,
            manager,
            known: KnownKinds::default(),
            signals: Mutex::default(),
            superfluous: Mutex::default(),
        }
    }

    /// Adds the cache of a kind. Only kinds with a cache can be applied, and are pruned.
    pub fn with_known(mut self, known: impl KnownObjects + 'static) -> Self {
        self.known.add(Arc::new(known));
        self
    }

    /// Brings all objects of an owner to their desired state, wave by wave, and deletes those that are not desired any
    /// more. A failure does not stop the rest; but nothing is deleted unless all that replaces it is there.
    pub async fn apply(&self, owner: &Owner, objects: Vec<DesiredObject>) -> Applied {
        self.apply_sparing(owner, objects, |_, _| false).await
    }

    /// The same; what `spared` names is not deleted although it is not among the objects.
    pub async fn apply_sparing(
        &self,
        owner: &Owner,
        objects: Vec<DesiredObject>,
        spared: impl Fn(&Kind, &ObjectMeta) -> bool + Send + Sync,
    ) -> Applied {
        let desired: BTreeSet<(String, Key)> = objects.iter().map(slot).collect();
        let mut applied = self.apply_only(owner, objects).await;
        let complete = !applied
            .outcomes
            .iter()
            .any(|(_, outcome)| matches!(outcome, Outcome::Failed(_) | Outcome::Foreign { .. }));
        if complete {
            applied.outcomes.extend(self.prune(owner, &desired, &spared).await);
        }
        applied
    }

    /// The same without deleting anything.
    pub async fn apply_only(&self, owner: &Owner, objects: Vec<DesiredObject>) -> Applied {
        let mut applied = Applied::default();
        let mut waves: BTreeMap<u8, Vec<DesiredObject>> = BTreeMap::new();
        for object in objects {
            waves.entry(wave(&object.kind.kind)).or_default().push(object);
        }
        for objects in waves.into_values() {
            let mut results: Vec<_> =
                stream::iter(objects.into_iter().enumerate())
                    .map(|(index, object)| async move {
                        (index, object.name(), self.apply_one(owner, object).await)
                    })
                    .buffer_unordered(PARALLEL)
                    .collect()
                    .await;
            results.sort_by_key(|(index, ..)| *index);
            applied.outcomes.extend(results.into_iter().map(|(_, name, outcome)| (name, outcome)));
        }
        applied
    }

    /// Forgets what is known about an owner's objects; call it when the owner is gone.
    pub fn forget(&self, owner_uid: &str) {
        self.signals.lock().retain(|_, (owner, _)| owner != owner_uid);
    }

    fn api(&self, kind: &Kind, key: &Key) -> Api<DynamicObject> {
        if key.namespace.is_empty() {
            Api::all_with(self.client.clone(), kind)
        } else {
            Api::namespaced_with(self.client.clone(), &key.namespace, kind)
        }
    }

    async fn apply_one(&self, owner: &Owner, mut object: DesiredObject) -> Outcome {
        let hash = match object.stamp(&owner.reference, self.manager) {
            Ok(hash) => hash,
            Err(error) => return Outcome::Failed(kube::Error::SerdeError(error)),
        };
        let result = match self.known.get(&object.kind).and_then(|known| known.meta(&object.key)) {
            Some(meta) => self.update(owner, &object, &hash, &meta).await,
            None => self.create(owner, &object).await,
        };
        result.unwrap_or_else(Outcome::Failed)
    }

    /// The object is not in the cache. It may still exist: just made, or without our label.
    async fn create(&self, owner: &Owner, object: &DesiredObject) -> Result<Outcome, kube::Error> {
        let written = if object.policy == Policy::CreateOnce {
            let body: DynamicObject = serde_json::from_value(Value::Object(object.body.clone()))
                .map_err(kube::Error::SerdeError)?;
            let params = PostParams { field_manager: Some(self.manager.into()), ..PostParams::default() };
            self.api(&object.kind, &object.key).create(&params, &body).await
        } else {
            // Without force: an object that somebody else made conflicts, unless it is equal.
            self.patch(object, false, None).await
        };
        match written {
            Ok(live) => Ok(self.note_write(owner, object, &live)),
            Err(error) if already_there(&error) => {
                let Some(live) = self.api(&object.kind, &object.key).get_opt(&object.key.name).await? else {
                    return Err(error);
                };
                match holder(live.meta(), owner, self.manager) {
                    Some(holder) => Ok(Outcome::Foreign { holder }),
                    None if object.policy == Policy::CreateOnce => {
                        Ok(self.note_same(owner, object, live.meta()))
                    }
                    None => self.overwrite(owner, object, live.meta()).await,
                }
            }
            Err(error) => Err(error),
        }
    }

    /// The object is in the cache, and hence ours by label; by owner it may not be.
    async fn update(
        &self,
        owner: &Owner,
        object: &DesiredObject,
        hash: &str,
        meta: &ObjectMeta,
    ) -> Result<Outcome, kube::Error> {
        if let Some(holder) = holder(meta, owner, self.manager) {
            return Ok(Outcome::Foreign { holder });
        }
        // On its way out: it is made again when it is gone, of which the cache will tell.
        if meta.deletion_timestamp.is_some() {
            return Ok(Outcome::Replacing);
        }
        if object.policy == Policy::CreateOnce {
            return Ok(Outcome::Unchanged);
        }
        let same_hash = meta
            .annotations
            .as_ref()
            .and_then(|all| all.get(HASH_ANNOTATION))
            .is_some_and(|known| known == hash);
        if same_hash {
            let slot = slot(object);
            if self.signals.lock().get(&slot).is_some_and(|(_, signal)| *signal == Signal::of(meta)) {
                return Ok(Outcome::Unchanged);
            }
            let live = self.api(&object.kind, &object.key).get_opt(&object.key.name).await?;
            if let Some(live) = live
                && let Ok(Value::Object(fields)) = serde_json::to_value(&live)
                && drift::holds(&fields, &object.body)
            {
                return Ok(self.note_same(owner, object, live.meta()));
            }
        }
        self.overwrite(owner, object, meta).await
    }

    /// Sends what we want, over whatever is there.
    async fn overwrite(
        &self,
        owner: &Owner,
        object: &DesiredObject,
        meta: &ObjectMeta,
    ) -> Result<Outcome, kube::Error> {
        // With the uid, so that a successor which we know nothing about is not touched.
        match self.patch(object, true, meta.uid.as_deref()).await {
            // Nothing was written, so nothing comes back: nobody may wait for it.
            Ok(live) if live.resource_version() == meta.resource_version => {
                Ok(self.note_same(owner, object, live.meta()))
            }
            Ok(live) => Ok(self.note_write(owner, object, &live)),
            Err(error) => match object.policy {
                Policy::Recreate { orphan } if is_immutable(&error) => {
                    let policy =
                        if orphan { PropagationPolicy::Orphan } else { PropagationPolicy::Background };
                    self.delete(&object.kind, &object.key, meta, policy).await?;
                    Ok(Outcome::Replacing)
                }
                _ => Err(error),
            },
        }
    }

    async fn patch(
        &self,
        object: &DesiredObject,
        force: bool,
        uid: Option<&str>,
    ) -> Result<DynamicObject, kube::Error> {
        let mut params = PatchParams::apply(self.manager);
        params.force = force;
        let mut body = object.body.clone();
        if let Some(uid) = uid
            && let Some(Value::Object(meta)) = body.get_mut("metadata")
        {
            meta.insert("uid".into(), uid.into());
        }
        self.api(&object.kind, &object.key).patch(&object.key.name, &params, &Patch::Apply(&body)).await
    }

    async fn delete(
        &self,
        kind: &Kind,
        key: &Key,
        meta: &ObjectMeta,
        policy: PropagationPolicy,
    ) -> Result<(), kube::Error> {
        let params = DeleteParams {
            propagation_policy: Some(policy),
            preconditions: Some(Preconditions { uid: meta.uid.clone(), resource_version: None }),
            ..DeleteParams::default()
        };
        self.signals.lock().remove(&(kind.plural.clone(), key.clone()));
        match self.api(kind, key).delete(&key.name, &params).await {
            // Gone, or another object by now: either way what we meant is not there any more.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
            other => other.map(|_| ()),
        }
    }

    fn note_write(&self, owner: &Owner, object: &DesiredObject, live: &DynamicObject) -> Outcome {
        self.note_same(owner, object, live.meta());
        if let (Some(known), Some(version)) = (self.known.get(&object.kind), live.resource_version()) {
            known.wrote(object.key.clone(), &version, owner.uid());
        }
        Outcome::Written
    }

    fn note_same(&self, owner: &Owner, object: &DesiredObject, meta: &ObjectMeta) -> Outcome {
        self.signals.lock().insert(slot(object), (owner.uid().to_string(), Signal::of(meta)));
        Outcome::Unchanged
    }

    /// Deletes what we made for this owner and is not desired any more.
    async fn prune(
        &self,
        owner: &Owner,
        desired: &BTreeSet<(String, Key)>,
        spared: &(impl Fn(&Kind, &ObjectMeta) -> bool + Send + Sync),
    ) -> Vec<(String, Outcome)> {
        let mut outcomes = Vec::new();
        for known in self.known.iter().filter(|known| known.is_ready()) {
            let kind = known.kind();
            for meta in self.prunable(known, owner) {
                let key = key_of(&meta);
                let uid = meta.uid.clone().unwrap_or_default();
                if desired.contains(&(kind.plural.clone(), key.clone())) || spared(&kind, &meta) {
                    self.superfluous.lock().remove(&uid);
                    continue;
                }
                let outcome = if is_stateful(&kind) && self.is_first_look(&uid) {
                    Outcome::Superfluous
                } else {
                    match self.delete(&kind, &key, &meta, PropagationPolicy::Background).await {
                        Ok(()) => Outcome::Pruned,
                        Err(error) => Outcome::Failed(error),
                    }
                };
                outcomes.push((format!("{} {key}", kind.kind), outcome));
            }
        }
        outcomes
    }

    /// What we made for this owner and may delete.
    fn prunable(&self, known: &dyn KnownObjects, owner: &Owner) -> Vec<ObjectMeta> {
        let mut found = known.owned_by(owner.uid());
        found.retain(|meta| {
            let ours = holder(meta, owner, self.manager).is_none()
                && label(meta, MANAGED_BY_LABEL) == Some(self.manager);
            ours && meta.deletion_timestamp.is_none()
        });
        found
    }

    /// Whether an object was superfluous for too short a time yet: one wrong look must not cost a database.
    fn is_first_look(&self, uid: &str) -> bool {
        let mut superfluous = self.superfluous.lock();
        let since = *superfluous.entry(uid.to_string()).or_insert_with(Instant::now);
        let first = since.elapsed() < SECOND_LOOK;
        if !first {
            superfluous.remove(uid);
        }
        first
    }
}

fn key_of(meta: &ObjectMeta) -> Key {
    Key::new(meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default())
}

fn slot(object: &DesiredObject) -> (String, Key) {
    (object.kind.plural.clone(), object.key.clone())
}

fn label<'a>(meta: &'a ObjectMeta, name: &str) -> Option<&'a str> {
    meta.labels.as_ref()?.get(name).map(String::as_str)
}

/// Whom an object belongs to, if not to `owner`. Without any controller it is ours if it has our label: its owner
/// reference was removed, or its owner was deleted and left it behind.
fn holder(meta: &ObjectMeta, owner: &Owner, manager: &str) -> Option<String> {
    let controller =
        meta.owner_references.iter().flatten().find(|reference| reference.controller == Some(true));
    match controller {
        Some(controller) if controller.uid == owner.uid() => None,
        Some(controller) => Some(format!("{} {}", controller.kind, controller.name)),
        None if label(meta, MANAGED_BY_LABEL) == Some(manager) => None,
        None => Some("somebody who made it by hand".into()),
    }
}

/// The answers to a first write that mean: there is an object of this name already.
fn already_there(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => {
            status.code == 409
                || (status.code == 422
                    && status.message.contains("Only one reference can have Controller set to true"))
        }
        _ => false,
    }
}

fn is_immutable(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => {
            status.code == 422
                && (status.message.contains("immutable")
                    || status.message.contains("Forbidden: updates to")
                    || status.message.contains("may not change once set"))
        }
        _ => false,
    }
}
