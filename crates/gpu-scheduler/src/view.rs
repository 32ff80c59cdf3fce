//! What caches hold of an object: its name, its version, and the facts.
//!
//! A pod that is bound and has no device costs less than 1 KiB: half of it is the metadata that every cached object has, the
//! rest its uid, names, node, requests and host ports.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{
    Node as NodeObject, PersistentVolume, PersistentVolumeClaim, Pod as PodObject,
};
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::{Deserialize, Deserializer};

use crate::facts::{Claim, Class, Facts, Node, Pod, Stamp, Volume};

/// Pods as caches hold them.
pub type PodView = View<Pod, PodObject>;
/// Nodes as caches hold them.
pub type NodeView = View<Node, NodeObject>;
/// Claims as caches hold them.
pub type ClaimView = View<Claim, PersistentVolumeClaim>;
/// Volumes as caches hold them.
pub type VolumeView = View<Volume, PersistentVolume>;
/// Classes of volumes as caches hold them.
pub type ClassView = View<Class, StorageClass>;

/// The facts `F` of an object of the kind `K`.
pub struct View<F, K> {
    metadata: ObjectMeta,
    /// What is known of it.
    pub facts: Arc<F>,
    kind: PhantomData<fn() -> K>,
}

impl<F, K> Clone for View<F, K> {
    fn clone(&self) -> Self {
        Self { metadata: self.metadata.clone(), facts: Arc::clone(&self.facts), kind: PhantomData }
    }
}

impl<F: fmt::Debug, K> fmt::Debug for View<F, K> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.facts.fmt(out)
    }
}

impl<'de, F: Facts, K> Deserialize<'de> for View<F, K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (stamp, facts) = F::take(F::Wire::deserialize(deserializer)?);
        let Stamp { namespace, name, uid, version } = stamp;
        let metadata = ObjectMeta {
            namespace: if namespace.is_empty() { None } else { Some(namespace) },
            name: Some(name),
            uid,
            resource_version: version,
            ..ObjectMeta::default()
        };
        Ok(Self { metadata, facts: Arc::new(facts), kind: PhantomData })
    }
}

impl<F, K: Resource<DynamicType = ()>> Resource for View<F, K> {
    type DynamicType = ();
    type Scope = K::Scope;

    fn kind(of: &()) -> Cow<'_, str> {
        K::kind(of)
    }

    fn group(of: &()) -> Cow<'_, str> {
        K::group(of)
    }

    fn version(of: &()) -> Cow<'_, str> {
        K::version(of)
    }

    fn plural(of: &()) -> Cow<'_, str> {
        K::plural(of)
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
    use serde_json::json;

    use super::*;
    use crate::facts::Phase;

    #[test]
    fn a_bound_pod_keeps_little_and_a_pending_one_what_placing_needs() {
        let mut object = json!({
            "metadata": {
                "name": "w-0", "namespace": "ns", "uid": "8932f937-d72c-4106-c12f-20bd9faed9f6", "resourceVersion": "7",
                "annotations": { "gpu-scheduling-map": "0=n:0", "note": "x" }, "labels": { "a": "b" },
            },
            "spec": {
                "schedulerName": "gpu-scheduler",
                "containers": [{ "name": "c", "image": "i", "env": [{ "name": "A", "value": "B" }] }],
                "tolerations": [{ "operator": "Exists" }],
            },
            "status": { "phase": "Pending", "conditions": [
                { "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "m" },
            ] },
        });
        let view: PodView = serde_json::from_value(object.clone()).unwrap();
        let ask = view.facts.ask.as_ref().unwrap();
        assert_eq!((ask.map.as_deref(), &ask.index, ask.tolerations.len()), (Some("0=n:0"), &Ok(0), 1));
        assert_eq!(view.facts.told.as_ref().map(|told| &*told.message), Some("m"));
        assert_eq!(engine::Key::of(&view), engine::Key::new("ns", "w-0"));
        object["spec"]["nodeName"] = "n".into();
        object["status"]["phase"] = "Running".into();
        let view: PodView = serde_json::from_value(object).unwrap();
        assert_eq!(
            (view.facts.ask.is_none(), view.facts.told.is_none(), view.facts.phase),
            (true, true, Phase::Live)
        );
        assert_eq!(view.facts.node.as_deref(), Some("n"));
    }

    /// What the parts of a view take, with what the allocator adds. Strings are counted with 16 bytes on top.
    #[test]
    fn a_view_of_a_bound_pod_fits_in_one_kib() {
        let strings = 4 * (40 + 16);
        let inline = size_of::<PodView>() + size_of::<Pod>() + 2 * size_of::<usize>();
        assert!(inline + strings + 100 <= 1024, "{inline} + {strings}");
    }
}
