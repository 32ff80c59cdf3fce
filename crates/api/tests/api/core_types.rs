//! What we say about Kubernetes' own types against what the API server says.

use std::collections::BTreeSet;

use anyhow::Result;
use api::crd::core_types::{ALPHA, ATOMIC_TYPES, KEY_DEFAULTS, MAP_TYPES, MAPS, OPTIONAL_NAMES, SETS};
use serde_json::{Value, json};

use crate::server::Server;

/// The types that our schemas embed.
const ROOTS: [&str; 5] = [
    "io.k8s.api.core.v1.PodTemplateSpec",
    "io.k8s.api.core.v1.PersistentVolumeClaimSpec",
    "io.k8s.api.core.v1.PersistentVolumeClaimStatus",
    "io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector",
    "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta",
];

fn references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(object) => {
            if let Some(Value::String(reference)) = object.get("$ref") {
                found.extend(reference.rsplit('/').next().map(str::to_owned));
            }
            object.values().for_each(|value| references(value, found));
        }
        Value::Array(values) => values.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

/// Every type below [`ROOTS`], with its definition.
async fn definitions(server: &Server) -> Result<Vec<(String, Value)>> {
    let document = server.get("/openapi/v3/api/v1").await?;
    let schemas = &document["components"]["schemas"];
    let (mut open, mut seen, mut found) = (ROOTS.map(str::to_owned).to_vec(), BTreeSet::new(), Vec::new());
    while let Some(name) = open.pop() {
        if seen.insert(name.clone()) {
            let definition = schemas[&name].clone();
            assert!(definition.is_object(), "the API server does not know {name}");
            references(&definition, &mut open);
            found.push((name, definition));
        }
    }
    Ok(found)
}

#[tokio::test]
async fn lists_and_maps_merge_as_those_of_kubernetes() -> Result<()> {
    let server = Server::new("openapi").await?;
    let (mut maps, mut sets, mut map_types, mut atomic) =
        (BTreeSet::new(), BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for (name, definition) in definitions(&server).await? {
        if definition["x-kubernetes-map-type"] == "atomic" {
            atomic.insert(name.clone());
        }
        for (property, schema) in definition["properties"].as_object().into_iter().flatten() {
            match schema["x-kubernetes-list-type"].as_str() {
                Some("map") => {
                    maps.insert((
                        name.clone(),
                        property.clone(),
                        schema["x-kubernetes-list-map-keys"].to_string(),
                    ));
                }
                Some("set") => {
                    sets.insert((name.clone(), property.clone()));
                }
                None | Some("atomic") => {}
                Some(other) => panic!("{name}.{property}: {other}"),
            }
            if let Some(map_type) = schema["x-kubernetes-map-type"].as_str() {
                map_types.insert((name.clone(), property.clone(), map_type.to_owned()));
            }
        }
    }
    let ours = MAPS
        .iter()
        .map(|(name, property, keys)| (name.to_string(), property.to_string(), json!(keys).to_string()));
    assert_eq!(ours.collect::<BTreeSet<_>>(), maps);
    let ours = SETS.iter().map(|(name, property)| (name.to_string(), property.to_string()));
    assert_eq!(ours.collect::<BTreeSet<_>>(), sets);
    let ours = MAP_TYPES
        .iter()
        .map(|(name, property, kind)| (name.to_string(), property.to_string(), kind.to_string()));
    assert_eq!(ours.collect::<BTreeSet<_>>(), map_types);
    assert_eq!(ATOMIC_TYPES.iter().map(ToString::to_string).collect::<BTreeSet<_>>(), atomic);
    Ok(())
}

#[tokio::test]
async fn defaults_of_list_keys_are_those_of_kubernetes() -> Result<()> {
    let server = Server::new("keys").await?;
    let definitions = definitions(&server).await?;
    for (name, property, default) in KEY_DEFAULTS {
        let (_, definition) = definitions.iter().find(|(other, _)| other == name).unwrap();
        assert_eq!(definition["properties"][property]["default"], *default, "{name}.{property}");
    }
    Ok(())
}

#[tokio::test]
async fn names_that_may_be_left_out_are_those_of_kubernetes() -> Result<()> {
    let server = Server::new("names-optional").await?;
    let is_optional = |definition: &Value| {
        definition["properties"]["name"]["default"] == ""
            && !definition["required"].as_array().is_some_and(|required| required.contains(&json!("name")))
    };
    let expected: BTreeSet<String> = definitions(&server)
        .await?
        .into_iter()
        .filter(|(_, definition)| is_optional(definition))
        .map(|(name, _)| name)
        .collect();
    let keys = KEY_DEFAULTS.iter().filter(|(_, property, _)| *property == "name").map(|(name, ..)| *name);
    let ours: BTreeSet<String> = OPTIONAL_NAMES.iter().copied().chain(keys).map(str::to_owned).collect();
    assert_eq!(ours, expected);
    Ok(())
}

/// A field that Kubernetes gave up would only look like one that is left out.
#[tokio::test]
async fn alpha_fields_exist() -> Result<()> {
    let server = Server::new("alpha").await?;
    let definitions = definitions(&server).await?;
    for (name, property) in ALPHA {
        let (_, definition) = definitions.iter().find(|(other, _)| other == name).unwrap();
        assert!(definition["properties"][property].is_object(), "{name}.{property}");
    }
    Ok(())
}
