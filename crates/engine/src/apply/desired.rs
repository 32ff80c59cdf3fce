//! Objects as they should be.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource;
use kube::core::ApiResource;
use serde::Serialize;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use crate::key::Key;

/// Holds the hash of what we sent; our own way to see that nothing is to be done.
pub const HASH_ANNOTATION: &str = "slurm.nebius.ai/desired-hash";
/// Who made an object; by it, prune knows what is ours.
pub const MANAGED_BY_LABEL: &str = "app.kubernetes.io/managed-by";

/// How an object is brought about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Kept as desired by server-side apply.
    Apply,
    /// Made if it is missing and never touched again: secrets that were generated.
    CreateOnce,
    /// As `Apply`; where the API server refuses a change of an immutable field, the object is deleted and made again.
    Recreate {
        /// Whether what it owns stays when it is deleted (the pods of a StatefulSet).
        orphan: bool,
    },
}

/// A kind, as URLs and messages name it.
pub type Kind = ApiResource;

/// One object as it should be.
#[derive(Clone, Debug)]
pub struct DesiredObject {
    pub(super) kind: Kind,
    pub(super) key: Key,
    pub(super) body: Map<String, Value>,
    pub(super) policy: Policy,
}

impl DesiredObject {
    /// From a typed object, to be applied.
    pub fn new<K>(object: &K) -> Result<Self, serde_json::Error>
    where
        K: Resource<DynamicType = ()> + Serialize,
    {
        Self::dynamic(Kind::erase::<K>(&()), Key::of(object), serde_json::to_value(object)?)
    }

    /// From JSON of any kind, to be applied.
    pub fn dynamic(kind: Kind, key: Key, mut body: Value) -> Result<Self, serde_json::Error> {
        remove_nulls(&mut body);
        let Value::Object(mut body) = body else {
            return Err(serde::de::Error::custom("a Kubernetes object must be a JSON object"));
        };
        body.remove("status");
        body.insert("apiVersion".into(), kind.api_version.clone().into());
        body.insert("kind".into(), kind.kind.clone().into());
        Ok(Self { kind, key, body, policy: Policy::Apply })
    }

    /// The same with another policy.
    pub fn with_policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Which object this is, for messages: `ConfigMap slurm/c-configs`.
    pub fn name(&self) -> String {
        format!("{} {}", self.kind.kind, self.key)
    }

    /// Adds owner, label and hash; returns the hash.
    pub(super) fn stamp(
        &mut self,
        owner: &OwnerReference,
        manager: &str,
    ) -> Result<String, serde_json::Error> {
        let owner = serde_json::to_value(owner)?;
        within(&mut self.body, "metadata", |meta| {
            meta.insert("ownerReferences".into(), Value::Array(vec![owner]));
            within(meta, "labels", |labels| {
                labels.insert(MANAGED_BY_LABEL.into(), manager.into());
            });
        });
        // serde_json sorts keys: equal objects give equal text.
        let hash: String = Sha256::digest(serde_json::to_vec(&self.body)?)
            .iter()
            .take(16)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        within(&mut self.body, "metadata", |meta| {
            within(meta, "annotations", |annotations| {
                annotations.insert(HASH_ANNOTATION.into(), hash.clone().into());
            });
        });
        Ok(hash)
    }
}

/// Changes the object under `name`, made if need be.
fn within(map: &mut Map<String, Value>, name: &str, change: impl FnOnce(&mut Map<String, Value>)) {
    let mut inner = match map.remove(name) {
        Some(Value::Object(inner)) => inner,
        _ => Map::new(),
    };
    change(&mut inner);
    map.insert(name.into(), inner.into());
}

/// Nulls would be taken for "remove this field", which another manager may own.
fn remove_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(remove_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_nulls),
        _ => {}
    }
}
