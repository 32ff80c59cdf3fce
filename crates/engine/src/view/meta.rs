//! Metadata without what nobody reads.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::{self, Debug};
use std::marker::PhantomData;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use kube::Resource;
use serde::{Deserialize, Deserializer};

/// A copy of the whole object, which `kubectl apply` keeps in an annotation.
pub(super) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LightMeta {
    #[serde(default)]
    annotations: Option<BTreeMap<String, String>>,
    creation_timestamp: Option<Time>,
    deletion_grace_period_seconds: Option<i64>,
    deletion_timestamp: Option<Time>,
    finalizers: Option<Vec<String>>,
    generation: Option<i64>,
    labels: Option<BTreeMap<String, String>>,
    name: Option<String>,
    namespace: Option<String>,
    owner_references: Option<Vec<OwnerReference>>,
    resource_version: Option<String>,
    uid: Option<String>,
}

/// Decodes metadata without managed fields and without kubectl's copy of the object.
pub fn light_meta<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    let mut light = LightMeta::deserialize(deserializer)?;
    if let Some(annotations) = &mut light.annotations {
        annotations.remove(LAST_APPLIED);
    }
    Ok(ObjectMeta {
        annotations: light.annotations,
        creation_timestamp: light.creation_timestamp,
        deletion_grace_period_seconds: light.deletion_grace_period_seconds,
        deletion_timestamp: light.deletion_timestamp,
        finalizers: light.finalizers,
        generation: light.generation,
        labels: light.labels,
        name: light.name,
        namespace: light.namespace,
        owner_references: light.owner_references,
        resource_version: light.resource_version,
        uid: light.uid,
        ..ObjectMeta::default()
    })
}

/// The metadata of any kind; asked for as metadata only, so that the rest does not even cross the wire.
#[derive(Deserialize)]
#[serde(bound = "")]
pub struct MetaView<K> {
    /// The metadata.
    #[serde(deserialize_with = "light_meta")]
    pub metadata: ObjectMeta,
    #[serde(skip)]
    kind: PhantomData<fn() -> K>,
}

impl<K> Clone for MetaView<K> {
    fn clone(&self) -> Self {
        Self { metadata: self.metadata.clone(), kind: PhantomData }
    }
}

impl<K> Debug for MetaView<K> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("MetaView").field("metadata", &self.metadata).finish()
    }
}

impl<K: Resource> Resource for MetaView<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(of: &Self::DynamicType) -> Cow<'_, str> {
        K::kind(of)
    }

    fn group(of: &Self::DynamicType) -> Cow<'_, str> {
        K::group(of)
    }

    fn version(of: &Self::DynamicType) -> Cow<'_, str> {
        K::version(of)
    }

    fn plural(of: &Self::DynamicType) -> Cow<'_, str> {
        K::plural(of)
    }

    fn metadata_api() -> bool {
        true
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    #[test]
    fn bulky_metadata_is_left_out() {
        let view: MetaView<ConfigMap> = serde_json::from_value(serde_json::json!({
            "metadata": {
                "name": "a",
                "annotations": { LAST_APPLIED: "{}", "kept": "yes" },
                "managedFields": [{ "manager": "m" }],
            },
            "data": { "ignored": "x" },
        }))
        .unwrap();
        assert_eq!(view.metadata.managed_fields, None);
        assert_eq!(view.metadata.annotations.unwrap().into_keys().collect::<Vec<_>>(), ["kept"]);
    }
}
