//! Which parts of a finished schema are types of Kubernetes, for those who walk one.
//!
//! A CRD has no names of types any more. A type of Kubernetes is known by its properties: they carry no descriptions (see
//! [`schema`](super::schema)), and their names tell which type it is.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use schemars::JsonSchema;
use serde_json::Value;

use super::schema::schema_of;
use crate::common::VolumeSource;

/// A type of Kubernetes that some kind embeds.
#[derive(Debug)]
pub struct CoreType {
    /// Its name, such as `Affinity`.
    pub name: &'static str,
    /// `core` or `meta`: where Kubernetes keeps it.
    pub group: &'static str,
    properties: BTreeSet<String>,
}

impl CoreType {
    fn of<T: JsonSchema>(name: &'static str, group: &'static str) -> Self {
        let schema = schema_of::<T>();
        let properties = schema.get("properties").and_then(Value::as_object);
        let properties = properties.map(|all| all.keys().cloned().collect()).unwrap_or_default();
        Self { name, group, properties }
    }
}

static TYPES: LazyLock<Vec<CoreType>> = LazyLock::new(|| {
    vec![
        CoreType::of::<core::Affinity>("Affinity", "core"),
        CoreType::of::<core::Container>("Container", "core"),
        CoreType::of::<core::EnvVar>("EnvVar", "core"),
        CoreType::of::<core::LocalObjectReference>("LocalObjectReference", "core"),
        CoreType::of::<core::PersistentVolumeClaimSpec>("PersistentVolumeClaimSpec", "core"),
        CoreType::of::<core::PersistentVolumeClaimStatus>("PersistentVolumeClaimStatus", "core"),
        CoreType::of::<core::PodTemplateSpec>("PodTemplateSpec", "core"),
        CoreType::of::<core::Probe>("Probe", "core"),
        CoreType::of::<core::ResourceRequirements>("ResourceRequirements", "core"),
        CoreType::of::<core::Toleration>("Toleration", "core"),
        CoreType::of::<core::Volume>("Volume", "core"),
        CoreType::of::<core::VolumeMount>("VolumeMount", "core"),
        CoreType::of::<VolumeSource>("VolumeSource", "core"),
        CoreType::of::<meta::Condition>("Condition", "meta"),
        CoreType::of::<meta::LabelSelector>("LabelSelector", "meta"),
        CoreType::of::<meta::ObjectMeta>("ObjectMeta", "meta"),
    ]
});

/// The type of Kubernetes that an object's schema is of. None means that the type is ours, or no object.
pub fn core_type(schema: &JSONSchemaProps) -> Option<&'static CoreType> {
    let properties = schema.properties.as_ref()?;
    if properties.values().any(|property| property.description.is_some()) {
        return None;
    }
    let same = |one: &&CoreType| {
        one.properties.len() == properties.len()
            && properties.keys().all(|name| one.properties.contains(name))
    };
    TYPES.iter().find(same)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
        JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
    };

    use super::*;

    /// Every object is either one of Kubernetes that has a name here, or ours with each property explained.
    fn walk(path: &str, schema: &JSONSchemaProps) {
        if core_type(schema).is_some() {
            return;
        }
        for (name, property) in schema.properties.iter().flatten() {
            let path = format!("{path}.{name}");
            let text = property.description.as_deref().unwrap_or_default();
            assert!(
                text.ends_with('.'),
                "{path} has no description; or its type is missing in TYPES: {text:?}"
            );
            walk(&path, property);
        }
        if let Some(JSONSchemaPropsOrArray::Schema(items)) = &schema.items {
            walk(&format!("{path}[]"), items);
        }
        if let Some(JSONSchemaPropsOrBool::Schema(values)) = &schema.additional_properties {
            walk(&format!("{path}.*"), values);
        }
    }

    #[test]
    fn every_object_is_a_known_type_of_kubernetes_or_explained() {
        for crd in crate::crds() {
            let schema = crd.spec.versions[0].schema.clone().and_then(|schema| schema.open_api_v3_schema);
            for (name, top) in schema.and_then(|schema| schema.properties).into_iter().flatten() {
                walk(&format!("{}.{name}", crd.spec.names.kind), &top);
            }
        }
    }

    #[test]
    fn no_two_types_have_the_same_properties() {
        for (index, one) in TYPES.iter().enumerate() {
            assert!(!one.properties.is_empty(), "{}", one.name);
            for other in &TYPES[..index] {
                assert_ne!(one.properties, other.properties, "{} and {}", one.name, other.name);
            }
        }
    }
}
