//! Finalizers: hold an object until we have cleaned up after it.

use std::fmt::Debug;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, Patch, PatchParams};
use kube::core::NamespaceResourceScope;
use kube::{Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Whether the object has this finalizer.
pub fn has(meta: &ObjectMeta, name: &str) -> bool {
    meta.finalizers.iter().flatten().any(|finalizer| finalizer == name)
}

/// Adds the finalizer, if it is missing and the object is not being deleted. Returns whether it was written.
pub async fn add<K>(client: &Client, object: &K, name: &str) -> Result<bool, kube::Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    // The server refuses new finalizers on an object that is being deleted.
    if has(object.meta(), name) || object.meta().deletion_timestamp.is_some() {
        return Ok(false);
    }
    let mut finalizers = object.finalizers().to_vec();
    finalizers.push(name.to_string());
    replace(client, object, finalizers).await
}

/// Removes the finalizer, if it is there. Returns whether it was written.
pub async fn remove<K>(client: &Client, object: &K, name: &str) -> Result<bool, kube::Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    if !has(object.meta(), name) {
        return Ok(false);
    }
    let finalizers = object.finalizers().iter().filter(|finalizer| *finalizer != name).cloned().collect();
    replace(client, object, finalizers).await
}

/// Writes the list, for exactly the version that was observed: somebody else's change is not undone, it conflicts.
async fn replace<K>(client: &Client, object: &K, finalizers: Vec<String>) -> Result<bool, kube::Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    let patch = merge_patch(object.meta(), finalizers);
    let namespace = object.namespace().unwrap_or_default();
    let api = Api::<K>::namespaced(client.clone(), &namespace);
    match api.patch_metadata(&object.name_any(), &PatchParams::default(), &Patch::Merge(&patch)).await {
        Ok(_) => Ok(true),
        // Gone: nothing holds it any more.
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
        Err(error) => Err(error),
    }
}

fn merge_patch(meta: &ObjectMeta, finalizers: Vec<String>) -> Value {
    // Without a kind: a merge would put it into the object.
    json!({
        "metadata": {
            "uid": meta.uid,
            "resourceVersion": meta.resource_version,
            "finalizers": finalizers,
        },
    })
}
