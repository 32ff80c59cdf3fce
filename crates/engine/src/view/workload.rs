//! What controllers read of a StatefulSet or a Deployment.

use std::borrow::Cow;
use std::fmt::{self, Debug};
use std::marker::PhantomData;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::Deserialize;

use super::{ContainerView, light_meta};

/// A StatefulSet or Deployment (`K`) as caches hold it.
#[derive(Deserialize)]
#[serde(bound = "")]
pub struct WorkloadView<K> {
    /// Name, labels, owners and the like.
    #[serde(deserialize_with = "light_meta")]
    pub metadata: ObjectMeta,
    /// What it should be.
    #[serde(default)]
    pub spec: WorkloadSpecView,
    /// How it is.
    #[serde(default)]
    pub status: WorkloadStatusView,
    #[serde(skip)]
    kind: PhantomData<fn() -> K>,
}

/// What a workload should be.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct WorkloadSpecView {
    /// How many pods it should have.
    pub replicas: i32,
    template: TemplateView,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct TemplateView {
    spec: TemplateSpecView,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct TemplateSpecView {
    containers: Vec<ContainerView>,
}

/// How a workload is.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadStatusView {
    /// The generation of the spec that the rest is about.
    pub observed_generation: i64,
    /// Pods that exist.
    pub replicas: i32,
    /// Pods that are ready.
    pub ready_replicas: i32,
    /// Pods that are as the template says.
    pub updated_replicas: i32,
    /// StatefulSet: the revision that new pods get.
    pub update_revision: Option<Box<str>>,
}

impl<K> WorkloadView<K> {
    /// The image of a container of the template.
    pub fn image(&self, container: &str) -> Option<&str> {
        let containers = &self.spec.template.spec.containers;
        containers.iter().find(|known| &*known.name == container)?.image.as_deref()
    }

    /// Whether the status is about the spec as it is now.
    pub fn is_observed(&self) -> bool {
        self.metadata.generation.is_none_or(|generation| self.status.observed_generation >= generation)
    }

    /// Whether as many pods are ready as there should be, and none is left over.
    pub fn is_ready(&self) -> bool {
        let (spec, status) = (&self.spec, &self.status);
        self.is_observed() && status.ready_replicas >= spec.replicas && status.replicas == spec.replicas
    }

    /// Whether all pods are as the template says.
    pub fn is_updated(&self) -> bool {
        self.is_observed() && self.status.updated_replicas >= self.spec.replicas
    }

    /// Whether all pods are as the template says, and ready.
    pub fn is_rolled_out(&self) -> bool {
        self.is_ready() && self.is_updated()
    }
}

impl<K> Clone for WorkloadView<K> {
    fn clone(&self) -> Self {
        Self {
            metadata: self.metadata.clone(),
            spec: self.spec.clone(),
            status: self.status.clone(),
            kind: PhantomData,
        }
    }
}

impl<K> Debug for WorkloadView<K> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("WorkloadView")
            .field("metadata", &self.metadata)
            .field("spec", &self.spec)
            .field("status", &self.status)
            .finish()
    }
}

impl<K: Resource> Resource for WorkloadView<K> {
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

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::StatefulSet;
    use serde_json::{Value, json};

    use super::*;

    fn view(status: Value) -> WorkloadView<StatefulSet> {
        serde_json::from_value(json!({
            "metadata": { "name": "a", "generation": 2 },
            "spec": {
                "replicas": 2,
                "template": { "spec": { "containers": [{ "name": "sshd", "image": "i:1" }] } },
            },
            "status": status,
        }))
        .unwrap()
    }

    #[test]
    fn a_status_about_an_older_spec_says_nothing() {
        let done =
            json!({ "observedGeneration": 2, "replicas": 2, "readyReplicas": 2, "updatedReplicas": 2 });
        assert!(view(done.clone()).is_rolled_out());
        let mut old = done;
        old["observedGeneration"] = 1.into();
        assert!(!view(old).is_ready());
        assert!(!view(json!({})).is_ready());
    }

    #[test]
    fn pods_of_the_old_template_are_ready_but_not_rolled_out() {
        let half =
            view(json!({ "observedGeneration": 2, "replicas": 2, "readyReplicas": 2, "updatedReplicas": 1 }));
        assert!(half.is_ready() && !half.is_updated() && !half.is_rolled_out());
        let starts = view(json!({ "observedGeneration": 2, "replicas": 2, "updatedReplicas": 2 }));
        assert!(starts.is_updated() && !starts.is_rolled_out());
        let surge =
            view(json!({ "observedGeneration": 2, "replicas": 3, "readyReplicas": 3, "updatedReplicas": 2 }));
        assert!(!surge.is_ready(), "one is left over");
    }

    #[test]
    fn the_image_of_a_container_is_known() {
        assert_eq!(view(json!({})).image("sshd"), Some("i:1"));
        assert_eq!(view(json!({})).image("munge"), None);
    }
}
