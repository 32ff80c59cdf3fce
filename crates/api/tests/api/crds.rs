//! The definitions themselves.

use anyhow::Result;
use api::crd::embedded::core_type;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use serde_json::{Value, json};

use crate::manifests;
use crate::server::Server;

/// What a definition may have as compact JSON, so that plain `kubectl apply` has room for it in an annotation.
const MAX_BYTES: usize = 220_000;
const MAX_BYTES_TOGETHER: usize = 550_000;

#[test]
fn definitions_are_small_enough_for_kubectl_apply() {
    let sizes: Vec<(String, usize)> = api::crds()
        .iter()
        .map(|crd| (crd.metadata.name.clone().unwrap(), serde_json::to_string(crd).unwrap().len()))
        .collect();
    for (name, size) in &sizes {
        assert!(*size <= MAX_BYTES, "{name} has {size} bytes: {sizes:?}");
    }
    let together: usize = sizes.iter().map(|(_, size)| size).sum();
    assert!(together <= MAX_BYTES_TOGETHER, "{together} bytes: {sizes:?}");
}

#[test]
fn definitions_come_out_the_same_every_time() {
    assert_eq!(api::crds(), api::crds());
}

/// Calls `visit` with the path and schema of every value of ours: all but what is inside types of Kubernetes.
fn walk(path: &str, schema: &JSONSchemaProps, visit: &mut impl FnMut(&str, &JSONSchemaProps)) {
    visit(path, schema);
    if core_type(schema).is_some() {
        return;
    }
    for (name, property) in schema.properties.iter().flatten() {
        walk(&format!("{path}.{name}"), property, visit);
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &schema.items {
        walk(&format!("{path}[]"), items, visit);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &schema.additional_properties {
        walk(&format!("{path}.*"), values, visit);
    }
}

/// As [`walk`], through the spec and status of every kind.
fn walk_all(mut visit: impl FnMut(&str, &JSONSchemaProps)) {
    for crd in api::crds() {
        let schema = crd.spec.versions[0].schema.clone().unwrap().open_api_v3_schema.unwrap();
        for (top, schema) in schema.properties.unwrap() {
            walk(&format!("{} {} {top}", crd.spec.group, crd.spec.names.kind), &schema, &mut visit);
        }
    }
}

#[test]
fn every_field_of_ours_is_explained_by_a_sentence() {
    let (mut wrong, mut fields) = (Vec::new(), 0);
    walk_all(|path, schema| {
        // Items and values of maps are explained by the field that holds them.
        if path.ends_with("[]") || path.ends_with('*') {
            return;
        }
        fields += 1;
        let text = schema.description.as_deref().unwrap_or_default();
        let begins_well = text.starts_with(|c: char| c.is_uppercase() || c == '`')
            || ["slurmctld", "slurmdbd", "slurmrestd", "spec."].iter().any(|name| text.starts_with(name));
        // Helm would take two braces for a template.
        if !begins_well || !text.ends_with('.') || text.contains("{{") || text.contains('\n') {
            wrong.push(format!("{path}: {text:?}"));
        }
    });
    assert!(fields > 500, "{fields}");
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

/// The API server refuses a rule whose cost it cannot tell, and stores anything up to megabytes otherwise.
#[test]
fn every_text_list_and_map_of_ours_has_a_bound() {
    let (mut wrong, mut bounds) = (Vec::new(), 0);
    walk_all(|path, schema| {
        let bound = match schema.type_.as_deref() {
            Some("string") if schema.enum_.is_none() && schema.format.is_none() => schema.max_length,
            Some("array") => schema.max_items,
            Some("object") if schema.additional_properties.is_some() => schema.max_properties,
            _ => return,
        };
        bounds += 1;
        if bound.is_none_or(|bound| !(1..=1_048_576).contains(&bound)) {
            wrong.push(format!("{path}: {bound:?}"));
        }
    });
    assert!(bounds > 200, "{bounds}");
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

#[test]
fn no_schema_has_a_format_that_the_api_server_does_not_know() {
    fn find(value: &Value, path: &str) {
        if let Value::Object(object) = value {
            if let Some(Value::String(format)) = object.get("format") {
                assert!(
                    ["int32", "date-time", "double", "byte"].contains(&format.as_str()),
                    "{path}: {format}"
                );
            }
            for (key, value) in object {
                find(value, &format!("{path}.{key}"));
            }
        }
    }
    for crd in api::crds() {
        find(&serde_json::to_value(&crd).unwrap()["spec"]["versions"][0]["schema"], &crd.spec.names.kind);
    }
}

/// [`Server::new`] waits until each definition is established.
#[tokio::test]
async fn the_api_server_takes_every_definition_and_its_smallest_object() -> Result<()> {
    let server = Server::new("smallest").await?;
    for manifest in manifests::all() {
        server.created(&manifest).await?;
    }
    Ok(())
}

#[tokio::test]
async fn tables_show_the_columns_that_users_know() -> Result<()> {
    let server = Server::new("columns").await?;
    let expected: [(Value, &[&str]); 8] = [
        (manifests::slinky_cluster(), &["Name", "READY", "AGE"]),
        (
            manifests::slinky_node_set(),
            &["Name", "REPLICAS", "UPDATED", "READY", "IDLE", "ALLOCATED", "DOWN", "DRAIN", "AGE"],
        ),
        (
            manifests::slurm_cluster(),
            &["Name", "Status", "Controllers", "Workers", "Login", "SConfigCtrl", "Accounting"],
        ),
        (manifests::node_set(), &["Name", "Status", "Desired", "Ready", "Ephemeral"]),
        (manifests::node_configurator(), &["Name", "Rebooter Enabled", "NodeConfigurator Enabled", "Age"]),
        (
            manifests::active_check(),
            &[
                "Name",
                "Type",
                "Init",
                "Suspend",
                "Schedule",
                "K8s Status",
                "Slurm Status",
                "Slurm Submit Time",
                "Slurm ID",
                "Age",
            ],
        ),
        (
            manifests::jailed_config(),
            &["Name", "Files Written", "Reconfiguration Status", "Jailed Path", "Age"],
        ),
        (manifests::topology_config(), &["Name", "Cluster", "Plugin", "Placed", "Unplaced", "Age"]),
    ];
    for (manifest, columns) in expected {
        server.created(&manifest).await?;
        let request = http::Request::get(server.path(&manifest))
            .header("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
            .body(Vec::new())?;
        let table: Value = server.client().request(request).await?;
        let shown: Vec<&str> = table["columnDefinitions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|column| column["name"].as_str().unwrap())
            .collect();
        assert_eq!(shown, columns, "{}", manifest["kind"]);
    }
    Ok(())
}

#[tokio::test]
async fn conditions_show_up_in_the_columns() -> Result<()> {
    let server = Server::new("conditions").await?;
    let cluster = server.created(&manifests::slurm_cluster()).await?;
    let condition = |type_: &str, status: &str| {
        json!({
            "type": type_, "status": status, "reason": "Available", "message": "",
            "lastTransitionTime": "2026-01-02T03:04:05Z",
        })
    };
    let status = json!({ "status": {
        "phase": "Available", "readyWorkers": 2, "readyLogin": 1,
        "conditions": [condition("ControllersAvailable", "True"), condition("AccountingAvailable", "False")],
    }});
    server.patch(&cluster, "/status", &status).await?.unwrap();
    let request = http::Request::get(format!("{}/slurm1", server.path(&cluster)))
        .header("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
        .body(Vec::new())?;
    let table: Value = server.client().request(request).await?;
    assert_eq!(table["rows"][0]["cells"], json!(["slurm1", "Available", "True", 2, 1, null, "False"]));
    Ok(())
}

#[tokio::test]
async fn short_names_and_subresources_are_those_of_the_originals() -> Result<()> {
    let server = Server::new("names").await?;
    let found = server.get("/apis/slinky.slurm.net/v1alpha1").await?;
    let resources = found["resources"].as_array().unwrap();
    let node_sets = resources.iter().find(|one| one["name"] == "nodesets").unwrap();
    assert_eq!(node_sets["shortNames"], json!(["nodesets", "nss"]));
    for name in ["clusters/status", "nodesets/status", "nodesets/scale"] {
        assert!(resources.iter().any(|one| one["name"] == name), "{name}");
    }
    let found = server.get("/apis/slurm.nebius.ai/v1alpha1").await?;
    let resources = found["resources"].as_array().unwrap();
    for name in [
        "nodesets/status",
        "nodesets/scale",
        "nodeconfigurators/status",
        "activechecks/status",
        "jailedconfigs/status",
        "topologyconfigs/status",
    ] {
        assert!(resources.iter().any(|one| one["name"] == name), "{name}");
    }
    Ok(())
}
