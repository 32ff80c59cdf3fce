//! All objects of some kinds in a namespace, in a form in which two runs can be compared.

use std::collections::BTreeMap;
use std::fmt;

use kube::api::{Api, DynamicObject, ListParams};
use kube::core::ApiResource;
use kube::{Client, ResourceExt as _};
use serde_json::Value;

/// The objects by kind and name, without what differs from run to run: uids, versions, times, the namespace.
#[derive(Clone, Debug, PartialEq)]
pub struct World {
    /// By `Kind name`.
    pub objects: BTreeMap<String, Value>,
}

impl World {
    /// Reads the world. `mask` replaces values that are random on purpose; what it makes null is left out.
    pub async fn read(
        client: &Client,
        namespace: &str,
        kinds: &[ApiResource],
        mask: impl Fn(&str, &mut Value),
    ) -> Result<Self, kube::Error> {
        let mut objects = BTreeMap::new();
        for kind in kinds {
            let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, kind);
            for object in api.list(&ListParams::default()).await? {
                let name = object.name_any();
                let mut value = serde_json::to_value(object).map_err(kube::Error::SerdeError)?;
                normalise(&mut value, namespace);
                mask(&kind.kind, &mut value);
                if !value.is_null() {
                    objects.insert(format!("{} {name}", kind.kind), value);
                }
            }
        }
        Ok(Self { objects })
    }

    /// The lines in which two worlds differ; empty if they are equal.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let mut lines = Vec::new();
        for (name, value) in &self.objects {
            match other.objects.get(name) {
                None => lines.push(format!("- {name} is missing")),
                Some(other) if other != value => {
                    lines.push(format!("! {name} differs:\n  {value}\n  {other}"))
                }
                Some(_) => {}
            }
        }
        lines.extend(
            other
                .objects
                .keys()
                .filter(|name| !self.objects.contains_key(*name))
                .map(|name| format!("+ {name} is too much")),
        );
        lines
    }
}

impl fmt::Display for World {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in &self.objects {
            writeln!(out, "{name}: {value}")?;
        }
        Ok(())
    }
}

const VARYING: &[&str] = &[
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "managedFields",
    "lastTransitionTime",
    "lastUpdateTime",
    "startTime",
    "time",
    crate::apply::HASH_ANNOTATION,
    "generation",
    "observedGeneration",
    "clusterIP",
    "clusterIPs",
];

fn normalise(value: &mut Value, namespace: &str) {
    match value {
        Value::Object(map) => {
            map.retain(|name, _| {
                !VARYING.contains(&name.as_str())
                    && !name.starts_with("batch.kubernetes.io/controller-uid")
                    && name != "controller-uid"
            });
            for value in map.values_mut() {
                normalise(value, namespace);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| normalise(item, namespace)),
        Value::String(text) if text.contains(namespace) => *text = text.replace(namespace, "NAMESPACE"),
        _ => {}
    }
}
