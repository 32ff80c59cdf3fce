//! Amounts of resources, which the schema only knows as numbers or texts.

use serde::Serialize;
use serde_json::Value;

use super::problem::{Problems, field};

/// Fields that are one amount.
const AMOUNTS: &[&str] = &["divisor", "memoryHigh", "memoryMax", "sharedMemorySize", "sizeLimit"];
/// Fields whose values are all amounts, unless these are objects again (as in `resources: {requests: {...}}`).
const MAPS: &[&str] = &["limits", "overhead", "requests", "resources"];
/// Fields in which users or other projects choose the names: nothing in there is what it looks like.
const FOREIGN: &[&str] = &[
    "annotations",
    "arguments",
    "labels",
    "matchLabels",
    "nodeSelector",
    "podSecurityContext",
    "replication",
    "securityContext",
    "sshdServiceAnnotations",
    "storageParameters",
    "workerAnnotations",
];

/// Checks every amount in a spec.
pub fn check(problems: &mut Problems, spec: &impl Serialize) {
    // What was read from JSON can be written to it.
    let spec = serde_json::to_value(spec).unwrap_or_default();
    walk(problems, "spec", &spec);
}

fn walk(problems: &mut Problems, path: &str, value: &Value) {
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                walk(problems, &format!("{path}[{index}]"), item);
            }
        }
        Value::Object(fields) => {
            for (key, value) in fields.iter().filter(|(key, _)| !FOREIGN.contains(&key.as_str())) {
                let path = field(path, key);
                if AMOUNTS.contains(&key.as_str()) {
                    amount(problems, &path, value);
                } else if MAPS.contains(&key.as_str())
                    && let Value::Object(amounts) = value
                {
                    amounts.iter().for_each(|(name, value)| amount(problems, &field(&path, name), value));
                }
                walk(problems, &path, value);
            }
        }
        _ => {}
    }
}

fn amount(problems: &mut Problems, path: &str, value: &Value) {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return,
    };
    if !is_quantity(&text) {
        problems.error(
            path,
            format!("{text:?} is no quantity; write a number with a unit, such as 500m, 4 or 16Gi"),
        );
    } else if text.starts_with('-') {
        problems.error(path, format!("{text:?} is negative; write an amount from 0 up"));
    }
}

/// Whether Kubernetes reads a text as a quantity.
fn is_quantity(text: &str) -> bool {
    let text = text.strip_prefix(['+', '-']).unwrap_or(text);
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let digits = number.bytes().filter(u8::is_ascii_digit).count();
    let dots = number.len() - digits;
    digits > 0 && dots <= 1 && is_suffix(suffix)
}

fn is_suffix(suffix: &str) -> bool {
    const UNITS: &[&str] =
        &["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let is_exponent = |text: &str| {
        let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
        !digits.is_empty() && digits.len() <= 3 && digits.bytes().all(|c| c.is_ascii_digit())
    };
    UNITS.contains(&suffix) || suffix.strip_prefix(['e', 'E']).is_some_and(is_exponent)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
        JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
    };
    use serde_json::json;

    use super::*;

    #[test]
    fn quantities_are_what_kubernetes_takes() {
        for text in ["0", "4", "1.5", ".5", "5.", "500m", "16Gi", "1e3", "1E-3", "5E", "+1", "100n"] {
            assert!(is_quantity(text), "{text}");
        }
        for text in ["", "v", "4 Gi", "16GB", "1.2.3", "Gi", "1e", "1e1.5", "4i", "--1", ".", "1ki", "1 "] {
            assert!(!is_quantity(text), "{text}");
        }
    }

    #[test]
    fn amounts_are_found_wherever_they_are_and_nothing_else_is_taken_for_one() {
        let spec = json!({
            "slurmd": { "resources": { "cpu": "v", "nvidia.com/gpu": 8, "memory": "-1Gi" } },
            "list": [{ "emptyDir": { "sizeLimit": "much" } }],
            "claim": { "resources": { "requests": { "storage": "1Tb" }, "claims": [{ "name": "x" }] } },
            "annotations": { "sizeLimit": "whatever", "resources": { "a": "b" } },
        });
        let mut problems = Problems::default();
        check(&mut problems, &spec);
        let paths: Vec<String> = problems.into_vec().into_iter().map(|problem| problem.path).collect();
        assert_eq!(
            paths,
            [
                "spec.claim.resources.requests.storage",
                "spec.list[0].emptyDir.sizeLimit",
                "spec.slurmd.resources.cpu",
                "spec.slurmd.resources.memory",
            ]
        );
    }

    /// Every place of a schema that takes a number or a text, and is no amount that [`walk`] finds.
    fn others(path: &mut Vec<String>, schema: &JSONSchemaProps, found: &mut Vec<String>) {
        let key = path.last().map(String::as_str).unwrap_or_default();
        if schema.x_kubernetes_int_or_string == Some(true) {
            let above = path.len().checked_sub(2).map(|index| path[index].as_str()).unwrap_or_default();
            let is_amount = AMOUNTS.contains(&key) || (key == "*" && MAPS.contains(&above));
            // Rules of ours bound numbers of pods; probes and lifecycle hooks have ports.
            let is_other = schema.x_kubernetes_validations.is_some() || key == "port";
            if !is_amount && !is_other {
                found.push(path.join("."));
            }
        }
        for (name, below) in schema.properties.iter().flatten().filter(|(name, _)| *name != "status") {
            path.push(name.clone());
            others(path, below, found);
            path.pop();
        }
        if let Some(JSONSchemaPropsOrArray::Schema(items)) = &schema.items {
            others(path, items, found);
        }
        if let Some(JSONSchemaPropsOrBool::Schema(values)) = &schema.additional_properties {
            path.push("*".into());
            others(path, values, found);
            path.pop();
        }
    }

    #[test]
    fn no_amount_of_any_kind_is_forgotten() {
        let mut found = Vec::new();
        for crd in api::crds() {
            let schema =
                crd.spec.versions[0].schema.clone().and_then(|schema| schema.open_api_v3_schema).unwrap();
            others(&mut vec![crd.spec.names.kind.clone()], &schema, &mut found);
        }
        assert_eq!(found, Vec::<String>::new());
    }
}
