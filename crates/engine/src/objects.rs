//! Single calls on single objects, for what apply is not made for: pods that are made and deleted one by one, marks on
//! objects that others manage, and the content of a Secret.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Instant;

use http::Request;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::{ClusterResourceScope, NamespaceResourceScope, PartialObjectMeta};
use kube::{Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::client::SendBefore;
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

/// Makes an object of which nobody reads the answer, such as an event. One that is there already is an error (409).
pub async fn post<K>(client: &Client, namespace: &str, object: &impl Serialize) -> Result<(), kube::Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    let url = K::url_path(&(), Some(namespace));
    let body = serde_json::to_vec(object).map_err(kube::Error::SerdeError)?;
    let request = kube::core::Request::new(url).create(&PostParams::default(), body);
    client.request::<serde::de::IgnoredAny>(request.map_err(kube::Error::BuildRequest)?).await.map(drop)
}

/// Deletes exactly the object that was looked at: this uid, in this version. Whatever changed since then is a reason to
/// look again, and an error (409). One that is gone is no error. Returns the version that this gave, if the object is still
/// there for a while; it belongs into [`Cache::wrote`](crate::cache::Cache::wrote).
pub async fn delete<K>(client: &Client, seen: &K) -> Result<Option<String>, kube::Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    deleted::<K>(client, delete_request(seen)?).await
}

/// The same for what may be deleted only now: it is tried once, and not at all after this time, which is the error
/// [`is_too_late`](crate::error::is_too_late).
pub async fn delete_before<K>(client: &Client, seen: &K, time: Instant) -> Result<Option<String>, kube::Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    let mut request = delete_request(seen)?;
    request.extensions_mut().insert(SendBefore(time));
    deleted::<K>(client, request).await
}

fn delete_request<K>(seen: &K) -> Result<Request<Vec<u8>>, kube::Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
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
    let request = kube::core::Request::new(K::url_path(&(), Some(&key.namespace)));
    request.delete(&key.name, &params).map_err(kube::Error::BuildRequest)
}

async fn deleted<K>(client: &Client, request: Request<Vec<u8>>) -> Result<Option<String>, kube::Error>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    match client.request_status::<K>(request).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error),
        Ok(left) => Ok(left.left().filter(stays).and_then(|object| object.meta().resource_version.clone())),
    }
}

/// Whether an object whose deletion began is there for a while.
fn stays(object: &impl Resource) -> bool {
    let meta = object.meta();
    meta.deletion_grace_period_seconds.is_some_and(|seconds| seconds > 0)
        || meta.finalizers.as_ref().is_some_and(|finalizers| !finalizers.is_empty())
}

/// Changes an object by a strategic merge patch, in which lists are merged by their keys: what others wrote there stays. The
/// patch should hold the uid of the object that was looked at. Returns the version that this gave, which belongs into
/// [`Cache::wrote`](crate::cache::Cache::wrote); none if the object is gone.
pub async fn patch<K>(client: &Client, key: &Key, patch: &Value) -> Result<Option<String>, kube::Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug,
{
    let api = Api::<PartialObjectMeta<K>>::namespaced(client.clone(), &key.namespace);
    version(api.patch(&key.name, &PatchParams::default(), &Patch::Strategic(patch)).await)
}

/// The same for what may be changed only now: it is tried once, and not at all after this time, which is the error
/// [`is_too_late`](crate::error::is_too_late).
pub async fn patch_before<K>(
    client: &Client,
    key: &Key,
    patch: &Value,
    time: Instant,
) -> Result<Option<String>, kube::Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug,
{
    let request = kube::core::Request::new(K::url_path(&(), Some(&key.namespace)));
    let request = request.patch(&key.name, &PatchParams::default(), &Patch::Strategic(patch));
    let mut request = request.map_err(kube::Error::BuildRequest)?;
    request.extensions_mut().insert(SendBefore(time));
    version(client.request::<PartialObjectMeta<K>>(request).await)
}

/// The same for the status of an object. Labels and annotations are taken too.
pub async fn patch_status<K>(client: &Client, key: &Key, patch: &Value) -> Result<Option<String>, kube::Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug,
{
    let api = Api::<PartialObjectMeta<K>>::namespaced(client.clone(), &key.namespace);
    version(api.patch_status(&key.name, &PatchParams::default(), &Patch::Strategic(patch)).await)
}

fn version<K: Resource>(written: Result<K, kube::Error>) -> Result<Option<String>, kube::Error> {
    match written {
        Ok(written) => Ok(written.meta().resource_version.clone()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error),
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

/// Changes the spec of the object with the uid that was looked at by a merge patch. One that is gone is an error (404), and
/// so is another one with its name (409).
pub async fn change_spec<K>(
    client: &Client,
    manager: &str,
    seen: &K,
    change: &Value,
) -> Result<(), kube::Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    let patch = json!({ "metadata": { "uid": seen.meta().uid }, "spec": change });
    let params = PatchParams { field_manager: Some(manager.into()), ..PatchParams::default() };
    let key = Key::of(seen);
    let api = Api::<K>::namespaced(client.clone(), &key.namespace);
    api.patch(&key.name, &params, &Patch::Merge(&patch)).await.map(drop)
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

/// All objects of a namespace with these labels, read from the server now. For what no cache holds.
pub async fn list<K>(client: &Client, namespace: &str, labels: &str) -> Result<Vec<K>, kube::Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    let params = ListParams::default().labels(labels);
    Ok(Api::<K>::namespaced(client.clone(), namespace).list(&params).await?.items)
}
