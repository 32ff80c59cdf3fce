//! The manifests in `examples/api`: complete, accepted, and the same after each way through the API server and our types.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use anyhow::{Context, Result, bail};
use api::crd::embedded::core_type;
use http::Request;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::server::Server;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/api")
}

/// The YAML files of a folder below `examples/api`, each with its documents.
fn manifests(below: &str) -> Result<Vec<(PathBuf, Vec<Value>)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder().join(below))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            let text = fs::read_to_string(&path)?;
            let documents = serde_saphyr::from_multiple(&text).with_context(|| path.display().to_string())?;
            files.push((path, documents));
        }
    }
    files.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(files)
}

fn documents(below: &str) -> Result<Vec<Value>> {
    Ok(manifests(below)?.into_iter().flat_map(|(_, documents)| documents).collect())
}

/// The schema of each kind, by apiVersion and kind.
static SCHEMAS: LazyLock<BTreeMap<(String, String), JSONSchemaProps>> = LazyLock::new(|| {
    let of = |crd: CustomResourceDefinition| {
        let version = crd.spec.versions.into_iter().next().unwrap();
        let api_version = format!("{}/{}", crd.spec.group, version.name);
        ((api_version, crd.spec.names.kind), version.schema.unwrap().open_api_v3_schema.unwrap())
    };
    api::crds().into_iter().map(of).collect()
});

fn kind(manifest: &Value) -> (String, String) {
    let text = |key: &str| manifest[key].as_str().unwrap_or_default().to_owned();
    (text("apiVersion"), text("kind"))
}

/// Every place where a value of ours can be: types of Kubernetes, open objects and maps are one place each.
fn places(path: &str, schema: &JSONSchemaProps, found: &mut BTreeSet<String>) {
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &schema.items {
        return places(&format!("{path}[]"), items, found);
    }
    match &schema.properties {
        Some(properties) if core_type(schema).is_none() => {
            for (name, property) in properties {
                places(&format!("{path}.{name}"), property, found);
            }
        }
        _ => {
            found.insert(path.to_owned());
        }
    }
}

/// The places that a manifest fills.
fn filled(path: &str, schema: &JSONSchemaProps, value: &Value, found: &mut BTreeSet<String>) {
    if let (Some(JSONSchemaPropsOrArray::Schema(items)), Value::Array(values)) = (&schema.items, value) {
        return values.iter().for_each(|value| filled(&format!("{path}[]"), items, value, found));
    }
    match &schema.properties {
        Some(properties) if core_type(schema).is_none() => {
            for (name, property) in properties {
                if let Some(value) = value.get(name) {
                    filled(&format!("{path}.{name}"), property, value, found);
                }
            }
        }
        _ => {
            found.insert(path.to_owned());
        }
    }
}

#[test]
fn every_kind_has_a_small_manifest_and_the_full_ones_set_every_field() -> Result<()> {
    for group in api::group_names() {
        let own = |key: &&(String, String)| key.0.starts_with(&format!("{group}/"));
        let expected: BTreeSet<String> =
            SCHEMAS.keys().filter(own).map(|(_, kind)| format!("{}.yaml", kind.to_lowercase())).collect();
        for below in [group.to_owned(), format!("{group}/full")] {
            let found = manifests(&below)?;
            let names: BTreeSet<String> =
                found.iter().map(|(path, _)| path.file_name().unwrap().to_string_lossy().into()).collect();
            assert_eq!(names, expected, "{below}");
            for (path, documents) in found {
                for document in documents {
                    let expected = format!("{}.yaml", kind(&document).1.to_lowercase());
                    assert!(path.ends_with(expected), "{}: {}", path.display(), document["kind"]);
                    assert!(SCHEMAS.contains_key(&kind(&document)), "{}", path.display());
                }
            }
        }
    }
    let full: Vec<Value> = [documents("slurm.nebius.ai/full")?, documents("slinky.slurm.net/full")?].concat();
    for (key, schema) in SCHEMAS.iter() {
        let (mut expected, mut found) = (BTreeSet::new(), BTreeSet::new());
        for top in ["spec", "status"] {
            let schema = &schema.properties.as_ref().unwrap()[top];
            places(top, schema, &mut expected);
            for manifest in full.iter().filter(|manifest| kind(manifest) == *key) {
                if let Some(value) = manifest.get(top) {
                    filled(top, schema, value, &mut found);
                }
            }
        }
        let missing: Vec<&String> = expected.difference(&found).collect();
        assert!(missing.is_empty(), "no full manifest of {} {} sets {missing:#?}", key.0, key.1);
    }
    Ok(())
}

/// Finds what differs between a value that was sent and the one that was read. The API server may add defaults of the schema,
/// and nothing else.
fn differences(
    path: &str,
    schema: Option<&JSONSchemaProps>,
    sent: &Value,
    read: &Value,
    found: &mut Vec<String>,
) {
    match (sent, read) {
        (Value::Object(sent), Value::Object(read)) => {
            let below = |name: &str| {
                let values = schema.and_then(|schema| match &schema.additional_properties {
                    Some(JSONSchemaPropsOrBool::Schema(values)) => Some(&**values),
                    _ => None,
                });
                schema.and_then(|schema| schema.properties.as_ref()?.get(name)).or(values)
            };
            for (name, value) in sent {
                let path = format!("{path}.{name}");
                differences(&path, below(name), value, read.get(name).unwrap_or(&Value::Null), found);
            }
            for (name, value) in read.iter().filter(|(name, _)| !sent.contains_key(*name)) {
                if below(name).is_none_or(|schema| schema.default.is_none()) {
                    found.push(format!("{path}.{name}: {value} was added"));
                }
            }
        }
        (Value::Array(sent), Value::Array(read)) if sent.len() == read.len() => {
            let items = schema.and_then(|schema| match &schema.items {
                Some(JSONSchemaPropsOrArray::Schema(items)) => Some(&**items),
                _ => None,
            });
            for (index, (sent, read)) in sent.iter().zip(read).enumerate() {
                differences(&format!("{path}[{index}]"), items, sent, read, found);
            }
        }
        (sent, read) if sent == read => {}
        // As in Kubernetes, a quantity that was written as a number is read as the same text (see `round_trip`).
        (Value::Number(number), Value::String(text)) if is_quantity(path) && *text == number.to_string() => {}
        (sent, read) => found.push(format!("{path}: {sent} became {read}")),
    }
}

/// Whether a field is a quantity. Other fields that take numbers and texts, such as ports, must keep what they got.
fn is_quantity(path: &str) -> bool {
    let names: Vec<&str> = path.split(['.', '[']).collect();
    let single = ["sharedMemorySize", "sizeLimit", "divisor", "memoryHigh", "memoryMax"];
    names.iter().any(|name| ["limits", "requests", "resources"].contains(name))
        || names.last().is_some_and(|name| single.contains(name))
}

fn assert_same(what: &str, schema: &JSONSchemaProps, sent: &Value, read: &Value) {
    let mut found = Vec::new();
    for top in ["spec", "status"] {
        if let Some(sent) = sent.get(top) {
            let schema = schema.properties.as_ref().unwrap().get(top);
            differences(top, schema, sent, &read[top], &mut found);
        }
    }
    assert!(found.is_empty(), "{what}: {found:#?}");
}

fn through<K: DeserializeOwned + Serialize>(value: &Value) -> Result<Value> {
    Ok(serde_json::to_value(serde_json::from_value::<K>(value.clone())?)?)
}

/// The object as it comes out of our type.
fn through_our_type(object: &Value) -> Result<Value> {
    let (api_version, kind) = kind(object);
    match (api_version.split('/').next().unwrap_or_default(), kind.as_str()) {
        ("slinky.slurm.net", "Cluster") => through::<api::slinky::Cluster>(object),
        ("slinky.slurm.net", "NodeSet") => through::<api::slinky::NodeSet>(object),
        ("slurm.nebius.ai", "ActiveCheck") => through::<api::nebius::ActiveCheck>(object),
        ("slurm.nebius.ai", "JailedConfig") => through::<api::nebius::JailedConfig>(object),
        ("slurm.nebius.ai", "NodeConfigurator") => through::<api::nebius::NodeConfigurator>(object),
        ("slurm.nebius.ai", "NodeSet") => through::<api::nebius::NodeSet>(object),
        ("slurm.nebius.ai", "SlurmCluster") => through::<api::nebius::SlurmCluster>(object),
        ("slurm.nebius.ai", "TopologyConfig") => through::<api::nebius::TopologyConfig>(object),
        other => bail!("{other:?} is no kind of ours"),
    }
}

/// Applies a manifest as `kubectl apply --server-side` does, and returns the object; a warning is an error.
async fn apply(server: &Server, manifest: &Value, below: &str) -> Result<Value> {
    let name = manifest["metadata"]["name"].as_str().context("a name")?;
    let path = format!(
        "{}/{name}{below}?fieldManager=examples&fieldValidation=Warn&force=true",
        server.path(manifest)
    );
    let request = Request::patch(path)
        .header("Content-Type", "application/apply-patch+yaml")
        .body(kube::client::Body::from(serde_json::to_vec(manifest)?))?;
    let response = server.client().send(request).await?;
    let (head, body) = response.into_parts();
    let answer: Value = serde_json::from_slice(&body.collect_bytes().await?)?;
    if !head.status.is_success() {
        bail!("{} {name} is refused: {}", manifest["kind"], answer["message"]);
    }
    let warnings: Vec<_> = head.headers.get_all("Warning").iter().collect();
    assert!(warnings.is_empty(), "{} {name}: {warnings:?}", manifest["kind"]);
    Ok(answer)
}

/// Applies a manifest and its status, and compares what comes back, also through our type, with what was sent.
async fn survives(server: &Server, manifest: &Value) -> Result<()> {
    let schema = &SCHEMAS[&kind(manifest)];
    let what = format!("{} {}", manifest["kind"], manifest["metadata"]["name"]);
    apply(server, manifest, "").await?;
    if let Some(status) = manifest.get("status") {
        let only = json!({
            "apiVersion": manifest["apiVersion"], "kind": manifest["kind"],
            "metadata": { "name": manifest["metadata"]["name"] }, "spec": manifest["spec"], "status": status,
        });
        apply(server, &only, "/status").await?;
    }
    let name = manifest["metadata"]["name"].as_str().context("a name")?;
    let read = server.get(&format!("{}/{name}", server.path(manifest))).await?;
    assert_same(&format!("{what} read back"), schema, manifest, &read);
    let written = through_our_type(&read)?;
    // The other way round as well: our type adds nothing, not even a default.
    assert_same(&format!("{what} through our type"), schema, &read, &written);
    for top in ["spec", "status"] {
        let fields = |object: &Value| object.get(top).map(count).unwrap_or_default();
        assert_eq!(fields(&written), fields(&read), "{what}: our type adds fields to {top}");
    }
    assert_eq!(written["metadata"]["labels"], read["metadata"]["labels"], "{what}");
    Ok(())
}

/// How many values there are in a value.
fn count(value: &Value) -> usize {
    match value {
        Value::Object(fields) => fields.len() + fields.values().map(count).sum::<usize>(),
        Value::Array(values) => values.len() + values.iter().map(count).sum::<usize>(),
        _ => 0,
    }
}

#[tokio::test]
async fn small_and_full_manifests_come_back_as_they_were_sent() -> Result<()> {
    let server = Server::new("examples").await?;
    for group in api::group_names() {
        for below in [group.to_owned(), format!("{group}/full")] {
            for manifest in documents(&below)? {
                survives(&server, &manifest).await?;
            }
        }
    }
    Ok(())
}

#[tokio::test]
async fn what_the_charts_of_the_originals_render_applies_without_a_change_or_a_warning() -> Result<()> {
    let server = Server::new("drop-in").await?;
    let found = documents("drop-in")?;
    assert_eq!(found.len(), 3);
    for manifest in found {
        survives(&server, &manifest).await?;
    }
    Ok(())
}

#[test]
fn a_number_may_become_a_text_in_quantities_only() {
    let differences = |path: &str| {
        let mut found = Vec::new();
        differences(path, None, &json!(4), &json!("4"), &mut found);
        found.len()
    };
    assert_eq!(differences("spec.slurmd.resources.cpu"), 0);
    assert_eq!(differences("spec.template.spec.containers[0].resources.limits.nvidia.com/gpu"), 0);
    assert_eq!(differences("spec.slurmd.volumes.sharedMemorySize"), 0);
    assert_eq!(differences("spec.template.spec.containers[0].livenessProbe.tcpSocket.port"), 1);
    assert_eq!(differences("spec.maxUnavailable"), 1);
}

#[test]
fn a_lost_or_changed_field_is_noticed() {
    let mut found = Vec::new();
    let sent = json!({ "a": 1, "b": { "c": "x" }, "d": [1, 2] });
    differences("spec", None, &sent, &json!({ "a": 2, "b": {}, "d": [1], "e": true }), &mut found);
    assert_eq!(
        found,
        [
            "spec.a: 1 became 2",
            "spec.b.c: \"x\" became null",
            "spec.d: [1,2] became [1]",
            "spec.e: true was added",
        ]
    );
}
