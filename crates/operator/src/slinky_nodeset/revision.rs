//! What a ControllerRevision of a Slinky NodeSet holds: the template, in the form of the original.
//!
//! The original is written in Go and stores what Go makes of a template: fields that are false, 0 or empty are left out, and
//! amounts are written anew (`1000m` becomes `1`). We store and read the same form, and compare by what is meant. So a set that
//! the original made is not rolled when we take over.

use k8s_openapi::api::core::v1::PodTemplateSpec;
use nodeset::Content;
use serde_json::{Value, json};

/// The data of a revision.
pub fn data(template: &PodTemplateSpec) -> Value {
    // What was read from JSON can be written to it.
    let mut template = serde_json::to_value(template).unwrap_or_default();
    if let Value::Object(fields) = &mut template {
        // What the original writes so that a rollback by a strategic merge patch replaces the whole template.
        fields.insert("$patch".into(), "replace".into());
    }
    json!({ "spec": { "template": template } })
}

/// The data in a form that can be compared.
pub fn content(data: &Value) -> Content {
    let mut data = data.clone();
    settle(&mut data);
    Content::new(&data)
}

/// The template in the data of a revision; none if there is none that can be read.
pub fn template(data: &Value) -> Option<PodTemplateSpec> {
    serde_json::from_value(data.pointer("/spec/template")?.clone()).ok()
}

/// Fields in which users choose the names: nothing in there is what it looks like.
const FOREIGN: &[&str] = &["annotations", "labels", "matchLabels", "nodeSelector"];
/// Fields that are one amount.
const AMOUNTS: &[&str] = &["divisor", "sizeLimit"];
/// Fields whose values are amounts.
const AMOUNT_MAPS: &[&str] = &["limits", "overhead", "requests"];
/// Fields that Go leaves out when they are false, 0 or empty. A field that is a pointer in Go is none of them: there false is
/// no absence.
const LEFT_OUT: &[&str] = &[
    "dnsPolicy",
    "effect",
    "failureThreshold",
    "hostIP",
    "hostIPC",
    "hostNetwork",
    "hostPID",
    "hostPort",
    "hostname",
    "image",
    "imagePullPolicy",
    "initialDelaySeconds",
    "key",
    "medium",
    "nodeName",
    "operator",
    "periodSeconds",
    "priorityClassName",
    "protocol",
    "readOnly",
    "restartPolicy",
    "schedulerName",
    "serviceAccount",
    "serviceAccountName",
    "stdin",
    "stdinOnce",
    "subPath",
    "subPathExpr",
    "subdomain",
    "successThreshold",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "timeoutSeconds",
    "tty",
    "value",
    "workingDir",
];

/// Writes a value as Go would have.
fn settle(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(settle),
        Value::Object(fields) => {
            for (key, value) in fields.iter_mut().filter(|(key, _)| !FOREIGN.contains(&key.as_str())) {
                let key = key.as_str();
                if AMOUNTS.contains(&key) {
                    settle_amount(value);
                    // The one amount that Go cannot leave out.
                    if key == "divisor" && value == "0n" {
                        *value = Value::Null;
                    }
                } else if AMOUNT_MAPS.contains(&key)
                    && let Value::Object(amounts) = value
                {
                    amounts.values_mut().for_each(settle_amount);
                } else if LEFT_OUT.contains(&key) && is_nothing(value) {
                    *value = Value::Null;
                } else {
                    settle(value);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Null | Value::Array(_) | Value::Object(_) => false,
    }
}

/// Equal amounts get equal texts. What is no amount stays.
fn settle_amount(value: &mut Value) {
    let text = match &*value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return,
    };
    if let Some(nanos) = nanos(text.trim()) {
        *value = format!("{nanos}n").into();
    }
}

/// One, in billionths.
const ONE: i128 = 1_000_000_000;

/// An amount in billionths, rounded up as Go does; none if it is no amount, or one beyond all measure.
fn nanos(text: &str) -> Option<i128> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let factor = match suffix {
        "n" => 1,
        "u" => 1000,
        "m" => ONE / 1000,
        "" => ONE,
        "k" => ONE * 1000,
        "M" => ONE * 1000_i128.pow(2),
        "G" => ONE * 1000_i128.pow(3),
        "T" => ONE * 1000_i128.pow(4),
        "P" => ONE * 1000_i128.pow(5),
        "E" => ONE * 1000_i128.pow(6),
        "Ki" => ONE << 10,
        "Mi" => ONE << 20,
        "Gi" => ONE << 30,
        "Ti" => ONE << 40,
        "Pi" => ONE << 50,
        "Ei" => ONE << 60,
        exponent => {
            let exponent: u32 = exponent.strip_prefix(['e', 'E'])?.parse().ok()?;
            ONE.checked_mul(10_i128.checked_pow(exponent)?)?
        }
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let digits: i128 = format!("{whole}{part}").parse().ok()?;
    let places = 10_i128.checked_pow(u32::try_from(part.len()).ok()?)?;
    let product = digits.checked_mul(factor)?;
    Some(product / places + i128::from(product % places != 0))
}

#[cfg(test)]
mod tests {
    use super::super::tests::set;
    use super::*;

    /// What the original stores for the template of `users`.
    fn of_the_original() -> Value {
        json!({ "spec": { "template": {
            "$patch": "replace",
            "metadata": { "creationTimestamp": null, "labels": { "app": "slurmd" } },
            "spec": {
                "automountServiceAccountToken": false,
                "containers": [{
                    "args": ["-Z"],
                    "env": [
                        { "name": "EMPTY" },
                        { "name": "POD_CPUS", "valueFrom": { "resourceFieldRef": {
                            "divisor": "0", "resource": "limits.cpu",
                        } } },
                    ],
                    "image": "slurmd:1",
                    "name": "slurmd",
                    "readinessProbe": { "tcpSocket": { "port": 6818 } },
                    "resources": { "limits": { "cpu": "1", "memory": "1536Mi" } },
                    "volumeMounts": [{ "mountPath": "/tmp", "name": "tmp" }],
                }],
                "volumes": [{ "emptyDir": { "sizeLimit": "1Gi" }, "name": "tmp" }],
            },
        } } })
    }

    fn users() -> Value {
        json!({
            "metadata": { "labels": { "app": "slurmd" } },
            "spec": {
                "automountServiceAccountToken": false,
                "hostNetwork": false,
                "restartPolicy": "",
                "tolerations": [],
                "containers": [{
                    "name": "slurmd",
                    "image": "slurmd:1",
                    "args": ["-Z"],
                    "tty": false,
                    "env": [
                        { "name": "EMPTY", "value": "" },
                        { "name": "POD_CPUS", "valueFrom": { "resourceFieldRef": { "resource": "limits.cpu" } } },
                    ],
                    "readinessProbe": { "tcpSocket": { "port": 6818 }, "initialDelaySeconds": 0 },
                    "resources": { "limits": { "cpu": "1000m", "memory": "1.5Gi" }, "requests": {} },
                    "volumeMounts": [{ "name": "tmp", "mountPath": "/tmp", "readOnly": false }],
                }],
                "volumes": [{ "name": "tmp", "emptyDir": { "sizeLimit": "1024Mi" } }],
            },
        })
    }

    fn content_of(template: &Value) -> Content {
        content(&data(&set(json!({ "template": template })).spec.template))
    }

    #[test]
    fn a_revision_that_the_original_wrote_is_the_same_as_ours() {
        assert_eq!(content_of(&users()), content(&of_the_original()));
    }

    #[test]
    fn what_matters_to_pods_makes_another_revision() {
        let before = content_of(&users());
        for (path, value) in [
            ("/spec/automountServiceAccountToken", json!(null)),
            ("/spec/hostNetwork", json!(true)),
            ("/spec/containers/0/image", json!("slurmd:2")),
            ("/spec/containers/0/env/0/value", json!("x")),
            ("/spec/containers/0/resources/limits/cpu", json!("1001m")),
            ("/spec/volumes/0/emptyDir/sizeLimit", json!("1G")),
            ("/metadata/labels/app", json!("other")),
        ] {
            let mut template = users();
            *template.pointer_mut(path).unwrap() = value;
            assert_ne!(content_of(&template), before, "{path}");
        }
    }

    #[test]
    fn the_template_can_be_had_back() {
        let set = set(json!({ "template": users() }));
        assert_eq!(template(&data(&set.spec.template)), Some(set.spec.template));
        assert_eq!(template(&json!({ "spec": {} })), None);
        assert!(template(&of_the_original()).is_some());
    }

    #[test]
    fn a_revision_has_the_form_that_the_original_writes() {
        let data = data(&set(json!({ "template": users() })).spec.template);
        assert_eq!(data["spec"]["template"]["$patch"], "replace");
        assert_eq!(data["spec"].as_object().map(serde_json::Map::len), Some(1));
    }

    #[test]
    fn equal_amounts_are_equal_however_they_are_written() {
        for (one, other) in [
            ("1", "1000m"),
            ("0.5", "500m"),
            ("1Gi", "1024Mi"),
            ("1.5Gi", "1536Mi"),
            ("1e3", "1k"),
            ("1E3", "1000"),
            ("2E", "2e18"),
            ("1n", "0.1n"),
        ] {
            assert_eq!(nanos(one), nanos(other), "{one} {other}");
            assert!(nanos(one).is_some(), "{one}");
        }
        for (one, other) in [("1", "1001m"), ("1G", "1Gi"), ("1M", "1m")] {
            assert_ne!(nanos(one), nanos(other), "{one} {other}");
        }
        for wrong in ["", ".", "1.2.3", "1Xi", "-1", "9999999999999999999999999E", "1e99", "many"] {
            assert_eq!(nanos(wrong), None, "{wrong}");
        }
    }
}
