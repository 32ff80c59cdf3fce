//! Writes a status only where it differs.

use std::fmt::Debug;

use kube::api::{Api, Patch, PatchParams};
use kube::core::{NamespaceResourceScope, PartialObjectMeta};
use kube::{Client, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Writes `status` to `object`, which shows `current`, if it differs; returns the version that a write gave, which belongs
/// into [`Cache::wrote`](crate::cache::Cache::wrote): a late watch would have it written again and again.
///
/// Server-side apply removes the fields that we set before and do not set now. It is sent for the uid that was observed: a
/// successor of the same name is not given the status of its predecessor.
pub async fn write<K, S>(
    client: &Client,
    manager: &str,
    object: &K,
    current: Option<&S>,
    status: &S,
) -> Result<Option<String>, kube::Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    S: Serialize,
{
    let as_json = |status: &S| serde_json::to_value(status).map_err(kube::Error::SerdeError);
    let status = as_json(status)?;
    if status == current.map_or(Ok(Value::Null), as_json)? {
        return Ok(None);
    }
    let body = json!({
        "apiVersion": K::api_version(&()),
        "kind": K::kind(&()),
        "metadata": { "name": object.name_any(), "uid": object.uid() },
        "status": status,
    });
    let namespace = object.namespace().unwrap_or_default();
    // Of the answer only the version matters.
    let written = Api::<PartialObjectMeta<K>>::namespaced(client.clone(), &namespace)
        .patch_status(&object.name_any(), &PatchParams::apply(manager).force(), &Patch::Apply(&body))
        .await?;
    Ok(written.resource_version())
}
