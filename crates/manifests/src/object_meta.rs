//! What every object has: `apiVersion`, `kind` and `metadata`. A CRD does not say it, and the API server checks it
//! nevertheless.

use serde_json::{Value, json};

use crate::finding::Findings;
use crate::node::{Data, Entry, Mark, Node, Path};
use crate::parse::line_of;

/// Adds the fields of every object to the schema of a kind.
pub(crate) fn complete(schema: &mut Value) {
    let text = json!({ "type": "string" });
    let nullable_time = json!({ "type": "string", "format": "date-time", "nullable": true });
    let map = json!({ "type": "object", "nullable": true, "additionalProperties": text });
    let integer = json!({ "type": "integer", "format": "int64" });
    let metadata = json!({
        "type": "object",
        "properties": {
            "name": text, "generateName": text, "namespace": text, "selfLink": text, "uid": text,
            "resourceVersion": text, "generation": integer, "creationTimestamp": nullable_time,
            "deletionTimestamp": nullable_time, "deletionGracePeriodSeconds": integer,
            "labels": map, "annotations": map,
            "finalizers": { "type": "array", "nullable": true, "items": text },
            "ownerReferences": {
                "type": "array",
                "nullable": true,
                "items": {
                    "type": "object",
                    "required": ["apiVersion", "kind", "name", "uid"],
                    "properties": {
                        "apiVersion": text, "kind": text, "name": text, "uid": text,
                        "controller": { "type": "boolean" }, "blockOwnerDeletion": { "type": "boolean" },
                    },
                },
            },
            // Of interest to nobody who writes manifests.
            "managedFields": { "x-kubernetes-preserve-unknown-fields": true, "nullable": true },
        },
    });
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.insert("apiVersion".into(), text.clone());
        properties.insert("kind".into(), text);
        properties.insert("metadata".into(), metadata);
    }
}

/// Checks the name and the labels, and fills in the name that the API server would make from `generateName`.
pub(crate) fn check(object: &mut Node, path: &Path, findings: &mut Findings) {
    let path = path.field("metadata");
    let Some(Data::Map(_)) = object.get("metadata").map(|metadata| &metadata.data) else {
        if object.get("metadata").is_none_or(Node::is_null) {
            findings.block(&path.field("name"), "required, but missing".into());
        }
        return;
    };
    let mark = object.entry("metadata").map(line_of).unwrap_or_default();
    check_labels(object, &path, findings);
    let text = |key: &str| -> Option<(Mark, String)> {
        let entry = object.get("metadata")?.entry(key)?;
        entry.value.text().filter(|text| !text.is_empty()).map(|text| (line_of(entry), text.to_owned()))
    };
    match (text("name"), text("generateName")) {
        (Some((mark, name)), _) => {
            if !is_subdomain(&name) {
                let message = format!(
                    "{name:?} must be at most 253 characters of a-z, 0-9, '-' and '.', and begin and end with a \
                     letter or digit"
                );
                findings.add(mark, &path.field("name"), message);
            }
        }
        (None, Some((mark, prefix))) => {
            if let Some(Node { data: Data::Map(entries), .. }) = object.get_mut("metadata") {
                entries.retain(|entry| entry.key != "name");
                let value = Node::new(mark, Data::Text(format!("{prefix}xxxxx")));
                entries.push(Entry { key: "name".into(), mark, value });
            }
        }
        (None, None) => {
            // A name that is no text is found by the schema.
            let other = object.get("metadata").and_then(|metadata| metadata.get("name"));
            if other.is_none_or(|name| name.text().is_some()) {
                findings
                    .at(mark, |findings| findings.block(&path.field("name"), "required, but missing".into()));
            }
        }
    }
}

fn check_labels(object: &Node, path: &Path, findings: &mut Findings) {
    let Some(Node { data: Data::Map(labels), .. }) = object.get("metadata").and_then(|m| m.get("labels"))
    else {
        return;
    };
    for label in labels {
        let path = path.field("labels").field(&label.key);
        if !is_label_key(&label.key) {
            let message = "a label is named like app or example.com/app, with at most 63 letters, digits, '-', '_' \
                           and '.' after the '/'";
            findings.add(line_of(label), &path, message.into());
        }
        if let Some(value) = label.value.text().filter(|value| !value.is_empty() && !is_label_text(value)) {
            let message = format!(
                "{value:?} must be at most 63 letters, digits, '-', '_' and '.', and begin and end with a letter or \
                 digit"
            );
            findings.add(line_of(label), &path, message);
        }
    }
}

fn is_label_key(key: &str) -> bool {
    match key.split_once('/') {
        Some((prefix, name)) => is_subdomain(prefix) && is_label_text(name),
        None => is_label_text(key),
    }
}

fn is_label_text(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    (1..=63).contains(&text.len())
        && text.chars().all(inner)
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.ends_with(|c: char| c.is_ascii_alphanumeric())
}

fn is_subdomain(name: &str) -> bool {
    let outer = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    name.len() <= 253
        && name.split('.').all(|part| {
            part.starts_with(outer) && part.ends_with(outer) && part.chars().all(|c| outer(c) || c == '-')
        })
}
