//! What charts repeat of the code: their schemas, webhooks and ports know what the kinds and programs know.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use crate::root;

/// Definitions in the schema of the chart slurm-cluster, and where the same shape is in the spec of a SlurmCluster.
const SHAPES: [(&str, &str); 13] = [
    ("/definitions/container", "/slurmNodes/controller/slurmctld"),
    ("/definitions/volume", "/slurmNodes/controller/volumes/spool"),
    ("/definitions/mounts/items", "/slurmNodes/controller/volumes/customMounts/items"),
    ("/definitions/slurmConfig", "/slurmConfig"),
    ("/definitions/populateJail", "/populateJail"),
    ("/definitions/sConfigController", "/sConfigController"),
    ("/definitions/controller", "/slurmNodes/controller"),
    ("/definitions/worker", "/slurmNodes/worker"),
    ("/definitions/login", "/slurmNodes/login"),
    ("/definitions/accounting", "/slurmNodes/accounting"),
    ("/definitions/rest", "/slurmNodes/rest"),
    ("/definitions/exporter", "/slurmNodes/exporter"),
    ("/properties/slurmNodes", "/slurmNodes"),
];

fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).expect("a text")
}

fn schema() -> Value {
    serde_json::from_str(&text("helm/slurm-cluster/values.schema.json")).expect("JSON")
}

fn spec() -> Value {
    let mut crds = api::crds().into_iter();
    let crd = crds.find(|crd| crd.spec.names.kind == "SlurmCluster").expect("the definition");
    let schema = serde_json::to_value(&crd.spec.versions[0].schema).expect("JSON");
    schema.pointer("/openAPIV3Schema/properties/spec").expect("the spec").clone()
}

/// The shape at a path of fields; `items` steps into a list.
fn shape<'a>(spec: &'a Value, path: &str) -> &'a Value {
    path.split('/').filter(|step| !step.is_empty()).fold(spec, |shape, step| {
        let next = if step == "items" { &shape["items"] } else { &shape["properties"][step] };
        assert!(!next.is_null(), "{path}: no {step}");
        next
    })
}

fn fields(shape: &Value) -> BTreeSet<&str> {
    shape["properties"].as_object().expect("fields").keys().map(String::as_str).collect()
}

#[test]
fn the_schema_of_slurm_cluster_knows_every_field_of_the_kind() {
    let (schema, spec) = (schema(), spec());
    for (definition, path) in SHAPES {
        let known = schema.pointer(definition).unwrap_or_else(|| panic!("{definition} is not there"));
        assert_eq!(fields(known), fields(shape(&spec, path)), "{definition} and spec{path}");
    }
    let mut missing = fields(&spec);
    missing.retain(|field| !fields(&schema).contains(field));
    // The chart itself sets it.
    assert_eq!(missing, BTreeSet::from(["crVersion"]));
}

#[test]
fn the_chart_soperator_registers_a_webhook_for_every_kind_of_its_group() {
    let template = text("helm/soperator/templates/webhooks.yaml");
    for crd in api::crds().into_iter().filter(|crd| crd.spec.group == api::nebius::GROUP) {
        let entry = format!("\"{}\" \"{}\"", crd.spec.names.plural, crd.spec.versions[0].name);
        assert!(template.contains(&entry), "webhooks.yaml has no {entry}");
        let kind = crd.spec.names.kind.to_lowercase();
        assert_eq!(format!("{kind}s"), crd.spec.names.plural, "the template makes the path from the plural");
    }
}

#[test]
fn the_network_policies_know_the_port_of_the_agent() {
    let template = text("helm/slurm-cluster/templates/networkpolicies.yaml");
    assert!(template.contains(&format!("$agent := {} ", slurm::agent::STATE_PORT)));
}
