//! What charts repeat of the code: their schemas, webhooks and ports know what the kinds and programs know.

use std::collections::BTreeSet;
use std::fs;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
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

/// Definitions in the schema of the chart nodesets, and where the same shape is in the spec of a NodeSet.
const SET_SHAPES: [(&str, &str); 7] = [
    ("/definitions/slurmd", "/slurmd"),
    ("/definitions/munge", "/munge"),
    ("/definitions/munge", "/sssd"),
    ("/definitions/image", "/slurmd/image"),
    ("/definitions/security", "/slurmd/security"),
    ("/definitions/volumes", "/slurmd/volumes"),
    ("/definitions/nodeConfig", "/nodeConfig"),
];

fn schema(chart: &str) -> Value {
    serde_json::from_str(&text(&format!("helm/{chart}/values.schema.json"))).expect("JSON")
}

fn spec(kind: &str) -> Value {
    let mut crds = api::crds().into_iter();
    let of_it =
        |crd: &CustomResourceDefinition| crd.spec.group == api::nebius::GROUP && crd.spec.names.kind == kind;
    let crd = crds.find(of_it).expect("the definition");
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
    let (schema, spec) = (schema("slurm-cluster"), spec("SlurmCluster"));
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
fn the_schema_of_nodesets_knows_every_field_of_the_kind() {
    let (schema, spec) = (schema("nodesets"), spec("NodeSet"));
    for (definition, path) in SET_SHAPES {
        let known = schema.pointer(definition).unwrap_or_else(|| panic!("{definition} is not there"));
        assert_eq!(fields(known), fields(shape(&spec, path)), "{definition} and spec{path}");
    }
    let mut own = fields(schema.pointer("/definitions/set").expect("a set"));
    own.retain(|field| !["name", "labels", "annotations"].contains(field));
    assert_eq!(own, fields(&spec));
}

#[test]
fn the_chart_soperator_registers_every_webhook_that_asks_others() {
    let template = text("helm/soperator/templates/webhooks.yaml");
    for path in [operator::admission::WORKER_PODS, operator::admission::SECRETS] {
        assert!(template.contains(&format!("\"{path}\"")), "webhooks.yaml has no {path}");
    }
    // Made from the group.
    for (path, group) in [
        (operator::admission::NODE_SETS, api::nebius::GROUP),
        (operator::admission::SLINKY_NODE_SETS, api::slinky::GROUP),
    ] {
        assert_eq!(path, format!("/mutate-{}-v1alpha1-nodeset", group.replace('.', "-")));
        assert!(template.contains(&format!("\"{group}\"")));
    }
    for name in operator::worker_pods::FORCE_DELETE {
        assert!(template.contains(name), "webhooks.yaml has no {name}");
    }
    assert!(template.contains(&format!("key: {}", operator::worker_pods::WORKER)));
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
