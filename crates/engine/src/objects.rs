//! Single calls on single objects, for what apply is not made for: pods that are made and deleted one by one, marks on
//! objects that others manage, and the content of a Secret.

use std::collections::BTreeMap;
use std::fmt::Debug;

use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::{ClusterResourceScope, NamespaceResourceScope};
use kube::{Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::key::Key;

/// The object as it is now; none if it is not there.
pub async fn get<K>(client: &Client, key: &Key) -> Result<Option<K>, kube::Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    Api::<K>::namespaced(client.clone(), &key.namespace).get_opt(&key.name).await
}

/// The object without a namespace as it is now; none if it is not there.
pub async fn get_global<K>(client: &Client, name: &str) -> Result<Option<K>, kube::Error>
where
    K: Resource<DynamicType = (), Scope = ClusterResourceScope> + Clone + Debug + DeserializeOwned,
{
    Api::<K>::all(client.clone()).get_opt(name).await
}

/// Makes an object. One that is there already is an error (409).
pub async fn create<K>(client: &Client, manager: &str, object: &K) -> Result<K, kube::Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Serialize,
{
    let params = PostParams { field_manager: Some(manager.into()), ..PostParams::default() };
    Api::<K>::namespaced(client.clone(), &Key::of(object).namespace).create(&params, object).await
}

/// Deletes exactly the object that was looked at: this uid, in this version. Whatever changed since then is a reason to
/// look again, and an error (409). One that is gone is no error.
pub async fn delete<K>(client: &Client, seen: &K) -> Result<(), kube::Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    let meta = seen.meta();
    let params = DeleteParams {
        preconditions: Some(Preconditions {
            uid: meta.uid.clone(),
            resource_version: meta.resource_version.clone(),
        }),
        ..DeleteParams::default()
    };
    let key = Key::of(seen);
    let api = Api::<K>::namespaced(client.clone(), &key.namespace);
    match api.delete(&key.name, &params).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        other => other.map(|_| ()),
    }
}

/// Sets annotations of the object with the uid that was looked at; returns the version that this gave, which belongs into
/// [`Cache::wrote`](crate::cache::Cache::wrote). None if the object is gone.
pub async fn annotate<K>(
    client: &Client,
    seen: &K,
    annotations: &BTreeMap<String, String>,
) -> Result<Option<String>, kube::Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    // Without a kind: a merge would put it into the object.
    let patch = json!({ "metadata": { "uid": seen.meta().uid, "annotations": annotations } });
    let key = Key::of(seen);
    let api = Api::<K>::namespaced(client.clone(), &key.namespace);
    match api.patch_metadata(&key.name, &PatchParams::default(), &Patch::Merge(&patch)).await {
        Ok(written) => Ok(written.metadata.resource_version),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error),
    }
}

/// Puts new values under keys of a Secret and sets annotations in the same write, for exactly the version that was looked
/// at. Returns the version that this gave.
pub async fn change_secret(
    client: &Client,
    seen: &impl Resource,
    data: &BTreeMap<String, k8s_openapi::ByteString>,
    annotations: &BTreeMap<String, String>,
) -> Result<Option<String>, kube::Error> {
    let meta = seen.meta();
    let patch = json!({
        "metadata": {
            "uid": meta.uid,
            "resourceVersion": meta.resource_version,
            "annotations": annotations,
        },
        "data": data,
    });
    let key = Key::of(seen);
    let api = Api::<Secret>::namespaced(client.clone(), &key.namespace);
    let written = api.patch(&key.name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
    Ok(written.metadata.resource_version)
}
