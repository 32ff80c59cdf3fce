//! Lists from the API server, for commands that people run. Controllers look into their caches instead.

use std::fmt::Debug;

use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube::api::ListParams;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

use crate::key::Key;

/// The objects of a namespace, or of all, that have these labels (`a=b,c=d`; empty: every object), sorted by their key.
pub async fn list<K>(client: &Client, namespace: Option<&str>, labels: &str) -> Result<Vec<K>, kube::Error>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let api: Api<K> = match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    let mut found = api.list(&ListParams::default().labels(labels)).await?.items;
    found.sort_by_key(|object| Key::of(object));
    Ok(found)
}

/// The objects without a namespace that have these labels, sorted by name.
pub async fn list_global<K>(client: &Client, labels: &str) -> Result<Vec<K>, kube::Error>
where
    K: Resource<Scope = ClusterResourceScope, DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let mut found = Api::<K>::all(client.clone()).list(&ListParams::default().labels(labels)).await?.items;
    found.sort_by_key(|object| Key::of(object));
    Ok(found)
}
