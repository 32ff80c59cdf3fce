//! Binds pods to nodes.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, PostParams};
use serde_json::json;

use crate::key::Key;

/// Binds the pod with this uid to a node, and sets annotations of it in the same write. The server checks neither whether the
/// node exists nor whether the pod fits there.
///
/// Another pod of that name, and one that is bound, gated or being deleted, is an error (409); one that is gone is one too
/// (404).
pub async fn bind(
    client: &Client,
    pod: &Key,
    uid: &str,
    node: &str,
    annotations: &BTreeMap<&str, &str>,
) -> Result<(), kube::Error> {
    let binding = json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": { "name": pod.name, "namespace": pod.namespace, "uid": uid, "annotations": annotations },
        "target": { "apiVersion": "v1", "kind": "Node", "name": node },
    });
    let api = Api::<Pod>::namespaced(client.clone(), &pod.namespace);
    // The server answers with a Status, whatever its documentation says.
    let _: serde::de::IgnoredAny =
        api.create_subresource("binding", &pod.name, &PostParams::default(), &binding).await?;
    Ok(())
}
