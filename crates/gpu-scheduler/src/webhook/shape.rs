//! What pods and templates of pods have in common, borrowed from the review.

use std::collections::BTreeMap;

use kube::core::DynamicObject;
use serde_json::Value;

use crate::index::{Clues, Owner};
use crate::names::{COMPLETION_INDEX, INDEX, MAP, POD_INDEX_LABEL};

/// A pod, or what will become one.
#[derive(Debug)]
pub(super) struct Shape<'a> {
    /// What paths of its fields begin with: nothing, or `spec.template.`.
    pub(super) prefix: &'static str,
    annotations: BTreeMap<&'a str, &'a str>,
    labels: BTreeMap<&'a str, &'a str>,
    pub(super) spec: &'a Value,
}

impl<'a> Shape<'a> {
    /// A pod.
    pub(super) fn of_pod(pod: &'a DynamicObject) -> Self {
        let borrowed = |all: Option<&'a BTreeMap<String, String>>| {
            all.into_iter().flatten().map(|(key, value)| (key.as_str(), value.as_str())).collect()
        };
        Self {
            prefix: "",
            annotations: borrowed(pod.metadata.annotations.as_ref()),
            labels: borrowed(pod.metadata.labels.as_ref()),
            spec: &pod.data["spec"],
        }
    }

    /// A template of pods.
    pub(super) fn of_template(template: &'a Value, prefix: &'static str) -> Self {
        let borrowed = |field: &str| {
            let all = template["metadata"][field].as_object().into_iter().flatten();
            all.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?))).collect()
        };
        Self {
            prefix,
            annotations: borrowed("annotations"),
            labels: borrowed("labels"),
            spec: &template["spec"],
        }
    }

    pub(super) fn annotation(&self, key: &str) -> Option<&'a str> {
        self.annotations.get(key).copied()
    }

    pub(super) fn map(&self) -> Option<&'a str> {
        self.annotation(MAP)
    }

    pub(super) fn scheduler(&self) -> &'a str {
        self.spec["schedulerName"].as_str().unwrap_or_default()
    }

    /// The path of an annotation.
    pub(super) fn annotation_path(&self, key: &str) -> String {
        format!("{}metadata.annotations[{key}]", self.prefix)
    }

    /// The path of a field of the pod's spec.
    pub(super) fn spec_path(&self, field: &str) -> String {
        format!("{}spec.{field}", self.prefix)
    }

    /// Init containers (sidecars are among them) and containers, each with the path of its list and its place there.
    pub(super) fn containers(&self) -> impl Iterator<Item = (&'static str, usize, &'a Value)> + use<'a> {
        let spec = self.spec;
        ["initContainers", "containers"].into_iter().flat_map(move |list| {
            let all = spec[list].as_array().into_iter().flatten().enumerate();
            all.map(move |(place, container)| (list, place, container))
        })
    }

    /// What tells the index, of a pod that is called so and has this owner.
    pub(super) fn clues(&self, name: &'a str, generated_name: bool, owner: Owner) -> Clues<'a> {
        Clues {
            name,
            generated_name,
            owner,
            annotation: self.annotation(INDEX),
            pod_index: self.labels.get(POD_INDEX_LABEL).copied(),
            completion_label: self.labels.get(COMPLETION_INDEX).copied(),
            completion_annotation: self.annotation(COMPLETION_INDEX),
        }
    }
}

/// What tells the index of a pod.
pub(super) fn clues_of<'a>(pod: &'a DynamicObject, shape: &Shape<'a>) -> Clues<'a> {
    let owners = pod.metadata.owner_references.as_deref().unwrap_or_default();
    let controller = owners.iter().find(|owner| owner.controller == Some(true));
    let owner = Owner::of_kind(controller.map(|owner| owner.kind.as_str()));
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let generated = pod.metadata.generate_name.as_deref().is_some_and(|prefix| !prefix.is_empty());
    shape.clues(name, generated, owner)
}
