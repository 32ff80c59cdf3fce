//! Every CEL rule of every definition, at every place where it stands, is broken once, and both must say so.
//!
//! The manifests are the full examples, which set every field; one value of each is changed so that the rule fails.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::server::{Server, findings};

/// A rule at one place of a definition.
struct Placed {
    api_version: String,
    kind: String,
    /// The names of the fields that lead to the place; `[]` is any item of a list.
    path: Vec<String>,
    rule: String,
    message: String,
}

impl Placed {
    fn shown(&self) -> String {
        format!("{} {}: {:?}", self.kind, self.path.join("."), self.message)
    }

    /// Says something about a change, so that it needs an object that exists.
    fn is_about_changes(&self) -> bool {
        self.rule.contains("oldSelf")
    }
}

fn placed_rules() -> Vec<Placed> {
    let mut found = Vec::new();
    for crd in api::crds() {
        let crd = serde_json::to_value(crd).unwrap();
        let version = &crd["spec"]["versions"][0];
        let api_version =
            format!("{}/{}", crd["spec"]["group"].as_str().unwrap(), version["name"].as_str().unwrap());
        let kind = crd["spec"]["names"]["kind"].as_str().unwrap();
        collect(&version["schema"]["openAPIV3Schema"], &mut Vec::new(), &mut |path, rule| {
            found.push(Placed {
                api_version: api_version.clone(),
                kind: kind.to_owned(),
                path: path.to_vec(),
                rule: rule["rule"].as_str().unwrap().to_owned(),
                message: rule["message"].as_str().unwrap().to_owned(),
            });
        });
    }
    found
}

fn collect(schema: &Value, path: &mut Vec<String>, found: &mut impl FnMut(&[String], &Value)) {
    for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
        found(path, rule);
    }
    let mut below = |name: &str, schema: &Value| {
        path.push(name.to_owned());
        collect(schema, path, found);
        path.pop();
    };
    for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
        below(name, schema);
    }
    if let Some(items) = schema.get("items") {
        below("[]", items);
    }
    if let Some(values) = schema.get("additionalProperties") {
        below("*", values);
    }
}

fn remove(value: &mut Value, fields: &[&str]) {
    for field in fields {
        value.as_object_mut().unwrap().remove(*field);
    }
}

/// How to break the rule whose message has these words.
type Breaker = (&'static str, fn(&mut Value));

const BREAKERS: &[Breaker] = &[
    ("Services are named after it", |object| object["metadata"]["name"] = json!("1st")),
    ("host names are made from it", |object| object["metadata"]["name"] = json!("with.dot")),
    ("spec.ordinalPadding cannot be changed", |spec| spec["ordinalPadding"] = json!(7)),
    ("a percentage, such as 20%", |value| *value = json!("lots")),
    // Slinky's is on the field, ours on the spec.
    ("spec.clusterName cannot be changed", |value| match value {
        Value::Object(spec) => spec["clusterName"] = json!("other"),
        name => *name = json!("other"),
    }),
    ("spec.serviceName cannot be changed", |name| *name = json!("other")),
    ("protectedSecret cannot be changed", |value| *value = json!(false)),
    ("exactly one of volumeSource (", |mount| remove(mount, &["volumeSource", "volumeClaimTemplateSpec"])),
    ("exactly one of volumeSourceName and", |volume| {
        remove(volume, &["volumeSourceName", "volumeClaimTemplateSpec"]);
    }),
    ("spec.slurmNodes.worker.size must be 0", |spec| {
        spec["slurmNodes"]["worker"]["size"] = json!(1);
    }),
    ("slurmdbd is missing", |accounting| {
        accounting["enabled"] = json!(true);
        remove(accounting, &["slurmdbd"]);
    }),
    ("externalDB that is enabled needs host", |database| {
        database["enabled"] = json!(true);
        remove(database, &["host"]);
    }),
    ("both memoryHigh and memoryMax", |isolation| remove(isolation, &["memoryMax"])),
    ("containerImageSave is a directory", |value| *value = json!("/no/slash")),
    ("configType structured needs", |partitions| {
        *partitions = json!({ "configType": "structured" });
    }),
    ("must begin with PartitionName", |line| *line = json!("NodeName=x")),
    ("must be longer than reconfigurePollInterval", |controller| {
        controller["reconfigureWaitTimeout"] = json!("1s");
    }),
    ("sshdServiceNodePort must be between", |login| {
        login["sshdServiceType"] = json!("NodePort");
        login["sshdServiceNodePort"] = json!(22);
    }),
    ("spec.k8sJobSpec is missing", |spec| {
        spec["checkType"] = json!("k8sJob");
        remove(spec, &["k8sJobSpec", "podTemplateNameRef"]);
    }),
    ("spec.slurmJobSpec needs sbatchScript", |spec| {
        spec["checkType"] = json!("slurmJob");
        remove(spec, &["slurmJobSpec", "podTemplateNameRef"]);
    }),
    ("a container and Jobs are named after it", |name| *name = json!("With Space")),
    ("enable exactly one of spec.rebooter", |spec| {
        *spec = json!({ "rebooter": { "enabled": true }, "nodeConfigurator": { "enabled": true } });
    }),
    ("path must be absolute", |path| *path = json!("/etc/../shadow")),
    ("exactly one of nodeLabels, switches and blocks", |spec| {
        *spec = json!({ "clusterName": "a", "plugin": "tree" });
    }),
    ("plugin flat has no switches", |spec| {
        *spec = json!({ "clusterName": "a", "plugin": "flat", "nodeLabels": {} });
    }),
    ("switches need plugin: tree", |spec| {
        *spec = json!({
            "clusterName": "a", "plugin": "block", "switches": [{ "name": "a", "nodeNames": ["n"] }],
        });
    }),
    ("blocks need plugin: block", |spec| {
        *spec =
            json!({ "clusterName": "a", "plugin": "tree", "blocks": [{ "name": "a", "nodeNames": ["n"] }] });
    }),
    ("blockSizes need plugin: block", |spec| {
        *spec = json!({ "clusterName": "a", "plugin": "tree", "nodeLabels": {}, "blockSizes": [4] });
    }),
    ("a multiple of the first one", |sizes| *sizes = json!([4, 6])),
    ("a switch has either children", |switch| *switch = json!({ "name": "alone" })),
    ("a block needs nodes", |block| *block = json!({ "name": "alone" })),
    ("the base URL of a slurmrestd", |server| *server = json!("slurm-restapi:6820")),
    ("matchLabels must also be labels of the pods", |spec| {
        spec["selector"]["matchLabels"] = json!({ "other": "label" });
    }),
    ("spec.selector must not be empty", |selector| *selector = json!({})),
    ("metadata.name is missing", |template| remove(template, &["metadata"])),
];

/// The documents of the full examples.
fn examples() -> Result<Vec<Value>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/api");
    let mut found = Vec::new();
    for group in api::group_names() {
        for entry in fs::read_dir(folder.join(group).join("full"))? {
            let path = entry?.path();
            let documents: Vec<Value> = serde_saphyr::from_multiple(&fs::read_to_string(&path)?)
                .with_context(|| path.display().to_string())?;
            found.extend(documents);
        }
    }
    Ok(found)
}

/// The value at the place of a rule: the first item of each list.
fn place<'a>(value: &'a mut Value, path: &[String]) -> Option<&'a mut Value> {
    path.iter().try_fold(value, |value, name| match name.as_str() {
        "[]" => value.get_mut(0),
        name => value.get_mut(name),
    })
}

/// A manifest that is valid, and the same with a rule broken.
fn before_and_after(rule: &Placed, breaker: fn(&mut Value), examples: &[Value]) -> Result<(Value, Value)> {
    for example in examples {
        let mut broken = example.clone();
        remove(&mut broken, &["status"]);
        let before = broken.clone();
        if broken["apiVersion"] == rule.api_version.as_str()
            && broken["kind"] == rule.kind.as_str()
            && let Some(value) = place(&mut broken, &rule.path)
        {
            breaker(value);
            return Ok((before, broken));
        }
    }
    bail!("no full example of {} has {}", rule.kind, rule.path.join("."))
}

/// What is wrong with the answers to a broken rule.
async fn ask(server: &Server, rule: &Placed, before: Value, after: Value) -> Result<Option<String>> {
    if rule.is_about_changes() {
        let made = server.created(&before).await?;
        let path =
            format!("{}/{}", server.path(&made), made["metadata"]["name"].as_str().unwrap_or_default());
        let mut changed = after;
        changed["metadata"]["resourceVersion"] = made["metadata"]["resourceVersion"].clone();
        let answer = server.send("PUT", &path, "application/json", &changed).await?;
        let _ = server.send("DELETE", &path, "application/json", &json!({})).await?;
        return Ok(match answer {
            Err(message) if message.contains(&rule.message) => None,
            other => Some(format!("the API server: {other:?}")),
        });
    }
    let path = format!("{}?fieldValidation=Strict&dryRun=All", server.path(&after));
    let refused = match server.send("POST", &path, "application/json", &after).await? {
        Err(message) if message.contains(&rule.message) => message,
        other => return Ok(Some(format!("the API server: {other:?}"))),
    };
    let found = findings(&format!("{after:#}"))?;
    // The rule of the whole object has no path of its own.
    let same = |one: &::manifests::Finding| one.message == rule.message && refused.contains(&one.path);
    Ok(if found.iter().any(same) { None } else { Some(format!("the validator: {found:?}")) })
}

#[tokio::test]
async fn every_rule_of_every_definition_is_broken_once_and_both_say_so() -> Result<()> {
    let server = Server::new("every-rule").await?;
    let examples = examples()?;
    let (mut used, mut wrong) = (BTreeSet::new(), Vec::new());
    let rules = placed_rules();
    assert!(rules.len() > BREAKERS.len(), "{}", rules.len());
    for rule in &rules {
        let Some((words, breaker)) = BREAKERS.iter().find(|(words, _)| rule.message.contains(words)) else {
            wrong.push(format!("{}: nothing breaks it; add a breaker", rule.shown()));
            continue;
        };
        used.insert(*words);
        let (before, after) = before_and_after(rule, *breaker, &examples)?;
        if let Some(reason) = ask(&server, rule, before, after).await? {
            wrong.push(format!("{}: {reason}", rule.shown()));
        }
    }
    for (words, _) in BREAKERS {
        if !used.contains(words) {
            wrong.push(format!("no rule has the message {words:?}"));
        }
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
    Ok(())
}
