//! What a rig puts into a fresh cluster: DNS and a default StorageClass.

use anyhow::{Context, Result};
use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};

use crate::addresses;

/// The user by which CoreDNS reads the API.
pub const DNS_USER: &str = "system:coredns";
/// Name of the default StorageClass.
pub const STORAGE_CLASS: &str = "standard";
/// Name of the rig's provisioner.
pub const PROVISIONER: &str = "rig/host-directory";
/// Namespace of the cluster's own objects.
const SYSTEM: &str = "kube-system";

/// Puts the objects into the cluster.
pub async fn apply(client: &Client) -> Result<()> {
    for object in objects() {
        let object: DynamicObject = serde_json::from_value(object).context("not a Kubernetes object")?;
        let types = object.types.clone().context("an object without a kind")?;
        let resource = ApiResource::from_gvk(&GroupVersionKind::try_from(&types)?);
        let api: Api<DynamicObject> = match object.metadata.namespace.as_deref() {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
            None => Api::all_with(client.clone(), &resource),
        };
        let name = object.metadata.name.clone().context("an object without a name")?;
        api.patch(&name, &PatchParams::apply("rig").force(), &Patch::Apply(&object))
            .await
            .with_context(|| format!("cannot make the {} {name}", types.kind))?;
    }
    Ok(())
}

fn objects() -> Vec<Value> {
    let dns_ports = |target: bool| -> Vec<Value> {
        [("dns", "UDP"), ("dns-tcp", "TCP")]
            .map(|(name, protocol)| {
                let mut port = json!({"name": name, "protocol": protocol, "port": 53});
                if target {
                    port["targetPort"] = json!(53);
                }
                port
            })
            .into()
    };
    vec![
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": DNS_USER},
            "rules": [
                {"apiGroups": [""], "resources": ["endpoints", "services", "pods", "namespaces"], "verbs": ["list", "watch"]},
                {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
            ],
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": DNS_USER},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": DNS_USER},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": DNS_USER}],
        }),
        // CoreDNS is a process beside the control plane, so its Service has no selector.
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "kube-dns", "namespace": SYSTEM, "labels": {"k8s-app": "kube-dns"}},
            "spec": {"clusterIP": addresses::DNS_SERVICE.to_string(), "ports": dns_ports(true)},
        }),
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": "kube-dns", "namespace": SYSTEM, "labels": {"kubernetes.io/service-name": "kube-dns"}},
            "addressType": "IPv4",
            "ports": dns_ports(false),
            "endpoints": [{"addresses": [addresses::CONTROL_PLANE.to_string()], "conditions": {"ready": true}}],
        }),
        json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
            "metadata": {
                "name": STORAGE_CLASS,
                "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
            },
            "provisioner": PROVISIONER,
            "reclaimPolicy": "Delete",
            "volumeBindingMode": "Immediate",
        }),
    ]
}
