//! What Kubernetes says about its own types, and the schemas of k8s-openapi do not: how lists merge, which objects are
//! replaced as a whole, and the defaults that list keys need.
//!
//! `tests/core_types.rs` compares these tables with the OpenAPI document of a real API server.

use serde_json::{Map, Value, json};

/// Whether the name of a definition is one of a type of Kubernetes.
pub fn is_core(name: &str) -> bool {
    name.starts_with("io.k8s.")
}

/// Lists whose items are told apart by the value of keys. All other lists are replaced as a whole (`atomic`, which a CRD
/// need not say), but for those in [`SETS`].
pub const MAPS: &[(&str, &str, &[&str])] = &[
    ("io.k8s.api.core.v1.Container", "env", &["name"]),
    ("io.k8s.api.core.v1.Container", "ports", &["containerPort", "protocol"]),
    ("io.k8s.api.core.v1.Container", "volumeDevices", &["devicePath"]),
    ("io.k8s.api.core.v1.Container", "volumeMounts", &["mountPath"]),
    ("io.k8s.api.core.v1.EphemeralContainer", "env", &["name"]),
    ("io.k8s.api.core.v1.EphemeralContainer", "ports", &["containerPort", "protocol"]),
    ("io.k8s.api.core.v1.EphemeralContainer", "volumeDevices", &["devicePath"]),
    ("io.k8s.api.core.v1.EphemeralContainer", "volumeMounts", &["mountPath"]),
    ("io.k8s.api.core.v1.PersistentVolumeClaimStatus", "conditions", &["type"]),
    ("io.k8s.api.core.v1.PodSpec", "containers", &["name"]),
    ("io.k8s.api.core.v1.PodSpec", "ephemeralContainers", &["name"]),
    ("io.k8s.api.core.v1.PodSpec", "hostAliases", &["ip"]),
    ("io.k8s.api.core.v1.PodSpec", "imagePullSecrets", &["name"]),
    ("io.k8s.api.core.v1.PodSpec", "initContainers", &["name"]),
    ("io.k8s.api.core.v1.PodSpec", "resourceClaims", &["name"]),
    ("io.k8s.api.core.v1.PodSpec", "schedulingGates", &["name"]),
    ("io.k8s.api.core.v1.PodSpec", "topologySpreadConstraints", &["topologyKey", "whenUnsatisfiable"]),
    ("io.k8s.api.core.v1.PodSpec", "volumes", &["name"]),
    ("io.k8s.api.core.v1.ResourceRequirements", "claims", &["name"]),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", "ownerReferences", &["uid"]),
];

/// Lists of different values.
pub const SETS: &[(&str, &str)] = &[
    ("io.k8s.api.core.v1.ContainerRestartRuleOnExitCodes", "values"),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", "finalizers"),
];

/// Types that are replaced as a whole.
pub const ATOMIC_TYPES: &[&str] = &[
    "io.k8s.api.core.v1.ConfigMapKeySelector",
    "io.k8s.api.core.v1.FileKeySelector",
    "io.k8s.api.core.v1.LocalObjectReference",
    "io.k8s.api.core.v1.NodeSelector",
    "io.k8s.api.core.v1.NodeSelectorTerm",
    "io.k8s.api.core.v1.ObjectFieldSelector",
    "io.k8s.api.core.v1.ResourceFieldSelector",
    "io.k8s.api.core.v1.SecretKeySelector",
    "io.k8s.api.core.v1.TypedLocalObjectReference",
    "io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector",
    "io.k8s.apimachinery.pkg.apis.meta.v1.OwnerReference",
];

/// Maps that are replaced as a whole, or explicitly are not.
pub const MAP_TYPES: &[(&str, &str, &str)] = &[
    ("io.k8s.api.core.v1.PersistentVolumeClaimStatus", "allocatedResourceStatuses", "granular"),
    ("io.k8s.api.core.v1.PodSpec", "nodeSelector", "atomic"),
];

/// Keys of list items that may be left out.
pub const KEY_DEFAULTS: &[(&str, &str, &str)] = &[
    ("io.k8s.api.core.v1.ContainerPort", "protocol", "TCP"),
    ("io.k8s.api.core.v1.LocalObjectReference", "name", ""),
];

/// Fields that are alpha in the Kubernetes version whose types we embed: an API server of that version drops them unless
/// their feature gate is on. They stand in each container of a definition, and would make the largest one too large.
pub const ALPHA: &[(&str, &str)] = &[
    ("io.k8s.api.core.v1.Container", "restartPolicyRules"),
    ("io.k8s.api.core.v1.EnvVarSource", "fileKeyRef"),
    ("io.k8s.api.core.v1.EphemeralContainer", "restartPolicyRules"),
    ("io.k8s.api.core.v1.PodSpec", "hostnameOverride"),
    ("io.k8s.api.core.v1.VolumeProjection", "podCertificate"),
];

/// Metadata of which Kubernetes takes labels and annotations only. `creationTimestamp` is what Go programs write as null.
const TEMPLATE_METADATA: (&str, &str) = ("io.k8s.api.core.v1.PersistentVolumeClaimTemplate", "metadata");

/// Names that may be left out, although k8s-openapi requires them: they come from a reference that types share.
pub const OPTIONAL_NAMES: &[&str] = &[
    "io.k8s.api.core.v1.ConfigMapEnvSource",
    "io.k8s.api.core.v1.ConfigMapKeySelector",
    "io.k8s.api.core.v1.ConfigMapProjection",
    "io.k8s.api.core.v1.ConfigMapVolumeSource",
    "io.k8s.api.core.v1.SecretEnvSource",
    "io.k8s.api.core.v1.SecretKeySelector",
    "io.k8s.api.core.v1.SecretProjection",
];

/// The labels of pods, which rules of ours look into, so that the API server can tell what a rule costs. Kubernetes allows
/// no longer values anyway.
const LABELS: (&str, &str) = ("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", "labels");
/// As [`LABELS`], where a type of ours holds the selector; no rule looks into others.
const MATCH_LABELS: (&str, &str) = ("io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector", "matchLabels");
const MAX_LABELS: u64 = 256;
const MAX_LABEL_VALUE: u64 = 63;

/// Adds to the definition of a type of Kubernetes what k8s-openapi leaves out. `inside` tells whether another type of
/// Kubernetes holds it.
pub fn complete(name: &str, inside: bool, definition: &mut Map<String, Value>) {
    if ATOMIC_TYPES.contains(&name) {
        definition.insert("x-kubernetes-map-type".into(), json!("atomic"));
    }
    let mut optional = Vec::new();
    if OPTIONAL_NAMES.contains(&name) {
        optional.push("name".to_owned());
    }
    if let Some(Value::Object(properties)) = definition.get_mut("properties") {
        properties.retain(|property, _| !ALPHA.contains(&(name, property.as_str())));
        for (property, schema) in properties.iter_mut() {
            if let Value::Object(schema) = schema {
                complete_property(name, property, inside, schema);
                if schema.contains_key("default") {
                    optional.push(property.clone());
                }
            }
        }
    }
    // What the API server fills in nobody has to write.
    if let Some(Value::Array(required)) = definition.get_mut("required") {
        required.retain(|name| name.as_str().is_none_or(|name| !optional.iter().any(|other| other == name)));
        if required.is_empty() {
            definition.remove("required");
        }
    }
}

fn complete_property(name: &str, property: &str, inside: bool, schema: &mut Map<String, Value>) {
    let here = |(of, field): (&str, &str)| of == name && field == property;
    if here(TEMPLATE_METADATA) {
        let map = json!({ "type": "object", "additionalProperties": { "type": "string" } });
        let time = json!({ "type": "string", "format": "date-time" });
        *schema = Map::new();
        schema.insert("type".into(), json!("object"));
        schema.insert(
            "properties".into(),
            json!({ "annotations": map, "creationTimestamp": time, "labels": map }),
        );
    }
    if let Some((.., keys)) = MAPS.iter().find(|(of, field, _)| here((of, field))) {
        schema.insert("x-kubernetes-list-type".into(), json!("map"));
        schema.insert("x-kubernetes-list-map-keys".into(), json!(keys));
    }
    if SETS.iter().any(|(of, field)| here((of, field))) {
        schema.insert("x-kubernetes-list-type".into(), json!("set"));
    }
    if let Some((.., map_type)) = MAP_TYPES.iter().find(|(of, field, _)| here((of, field))) {
        schema.insert("x-kubernetes-map-type".into(), json!(map_type));
    }
    if let Some((.., default)) = KEY_DEFAULTS.iter().find(|(of, field, _)| here((of, field))) {
        schema.insert("default".into(), json!(default));
    }
    if here(LABELS) || (here(MATCH_LABELS) && !inside) {
        schema.insert("maxProperties".into(), json!(MAX_LABELS));
        if let Some(Value::Object(values)) = schema.get_mut("additionalProperties") {
            values.insert("maxLength".into(), json!(MAX_LABEL_VALUE));
        }
    }
}
