//! `docs/api-reference`: one page for each kind, made from the schema in its definition.

use std::collections::BTreeMap;
use std::fmt::Write;

use api::crd::embedded::core_type;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use serde_json::Value;

use crate::{check, root};

const MADE_BY: &str = "<!-- Made by `make generate`. -->";
/// Where Kubernetes explains its own types.
const KUBERNETES: &str = "https://kubernetes.io/docs/reference/generated/kubernetes-api/v1.34/";
const EXAMPLES: &str = "examples/api";

#[test]
fn every_kind_has_its_page() {
    let crds = api::crds();
    let mut expected: BTreeMap<String, String> = crds.iter().map(|crd| (page_name(crd), page(crd))).collect();
    expected.insert("README.md".into(), index(&crds));
    check("docs/api-reference", "md", &expected);
}

#[test]
fn a_page_tells_path_type_default_and_meaning_of_a_field() {
    let crd = api::crds().into_iter().find(|crd| crd.spec.names.kind == "SlurmCluster").expect("the kind");
    let page = page(&crd);
    for line in [
        "| `spec.clusterType` | one of `gpu`, `cpu` | `gpu` | Whether the workers of slurmNodes.worker have GPUs. |",
        "| `spec.secrets` | [object](#specsecrets) | required | Secrets that the cluster uses. |",
        "| `spec.slurmNodes.login.sshRootPublicKeys` | list of strings | required | Public SSH keys of root. |",
        "| `spec.slurmNodes.rest.threadCount` | integer, 2 to 1024 | `3` | Threads that answer requests. |",
    ] {
        assert!(page.lines().any(|found| found == line), "missing: {line}");
    }
    let affinity =
        page.lines().find(|line| line.contains("`spec.k8sNodeFilters[].affinity`")).expect("a row");
    assert!(
        affinity.contains("[Affinity](https://") && affinity.contains("#affinity-v1-core)"),
        "{affinity}"
    );
    assert!(!page.contains("affinity.nodeAffinity"), "types of Kubernetes are not expanded");
}

fn page_name(crd: &CustomResourceDefinition) -> String {
    format!("{}_{}.md", crd.spec.group, crd.spec.names.kind.to_lowercase())
}

fn schema(crd: &CustomResourceDefinition) -> &JSONSchemaProps {
    let version = crd.spec.versions.first().expect("a version");
    version.schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref()).expect("a schema")
}

fn text(schema: &JSONSchemaProps) -> String {
    escaped(schema.description.as_deref().unwrap_or_default())
}

/// The text for a cell of a table: no bar ends the cell, no bracket outside of code is taken for HTML.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut code = false;
    for character in text.chars() {
        match character {
            '`' => {
                code = !code;
                out.push('`');
            }
            '|' => out.push_str("\\|"),
            '<' if !code => out.push_str("&lt;"),
            '\n' => out.push_str("<br>"),
            other => out.push(other),
        }
    }
    out
}

fn index(crds: &[CustomResourceDefinition]) -> String {
    let mut out = format!(
        "{MADE_BY}\n\n# API reference\n\nEvery field of every kind, made from the definitions that `soperator crds` \
         prints. What differs from the originals: [compatibility](../compatibility.md). Manifests to begin with: \
         [{EXAMPLES}](../../{EXAMPLES}/README.md).\n"
    );
    for group in api::group_names() {
        write!(out, "\n## {group}\n\n| Kind | Version | What it is |\n|---|---|---|\n").expect("a text");
        for crd in crds.iter().filter(|crd| crd.spec.group == group) {
            let version = &crd.spec.versions[0].name;
            let kind = &crd.spec.names.kind;
            writeln!(out, "| [{kind}]({}) | `{version}` | {} |", page_name(crd), text(schema(crd)))
                .expect("a text");
        }
    }
    out
}

fn page(crd: &CustomResourceDefinition) -> String {
    let (names, version) = (&crd.spec.names, &crd.spec.versions[0]);
    let group = &crd.spec.group;
    let schema = schema(crd);
    let mut out = format!("{MADE_BY}\n\n# {}\n\n{}\n\n", names.kind, text(schema));
    let mut fact = |name: &str, value: String| writeln!(out, "- {name}: {value}").expect("a text");
    fact("apiVersion", format!("`{group}/{}`", version.name));
    fact("For kubectl", {
        let short = names.short_names.iter().flatten().filter(|name| **name != names.plural);
        let all: Vec<String> = [format!("{}.{group}", names.plural)]
            .into_iter()
            .chain(short.cloned())
            .map(|name| format!("`{name}`"))
            .collect();
        all.join(", ")
    });
    if let Some(subresources) = &version.subresources {
        let scale = subresources.scale.as_ref().map(|_| "`scale`");
        let status = subresources.status.as_ref().map(|_| "`status`");
        fact("Subresources", status.into_iter().chain(scale).collect::<Vec<_>>().join(", "));
    }
    let columns = version.additional_printer_columns.iter().flatten();
    fact("Columns", columns.map(|column| column.name.clone()).collect::<Vec<_>>().join(", "));
    let file = format!("{}.yaml", names.kind.to_lowercase());
    for (what, path) in [("short", format!("{group}/{file}")), ("full", format!("{group}/full/{file}"))] {
        assert!(root().join(EXAMPLES).join(&path).is_file(), "{EXAMPLES}/{path} is missing");
        fact(&format!("Example, {what}"), format!("[{path}](../../{EXAMPLES}/{path})"));
    }
    out.push_str(&rules(schema));
    for (name, top) in schema.properties.iter().flatten() {
        section(&mut out, name, top);
    }
    out
}

/// A table of the fields of an object of ours, and then one for each object below it.
fn section(out: &mut String, path: &str, object: &JSONSchemaProps) {
    write!(out, "\n## {path}\n\n{}\n\n", text(object)).expect("a text");
    out.push_str("| Field | Type | Default | Description |\n|---|---|---|---|\n");
    for (name, field) in object.properties.iter().flatten() {
        let path = format!("{path}.{name}");
        let required = object.required.iter().flatten().any(|one| one == name);
        let default = default(field, required);
        writeln!(out, "| `{path}` | {} | {default} | {} |", type_of(&path, field, ""), text(field))
            .expect("a text");
    }
    out.push_str(&rules(object));
    for (name, field) in object.properties.iter().flatten() {
        if let Some((path, object)) = object_below(&format!("{path}.{name}"), field) {
            section(out, &path, object);
        }
    }
}

/// The object of ours that a field is, or that its items are.
fn object_below<'a>(path: &str, field: &'a JSONSchemaProps) -> Option<(String, &'a JSONSchemaProps)> {
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &field.items {
        return object_below(&format!("{path}[]"), items);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &field.additional_properties {
        return object_below(&format!("{path}.*"), values);
    }
    (field.properties.is_some() && core_type(field).is_none()).then(|| (path.to_owned(), field))
}

/// What a value may be; `many` is an `s` where several are spoken of.
fn type_of(path: &str, field: &JSONSchemaProps, many: &str) -> String {
    if let Some(values) = &field.enum_ {
        let values: Vec<String> = values.iter().map(|value| format!("`{}`", plain(&value.0))).collect();
        return format!("one of {}", values.join(", "));
    }
    if field.x_kubernetes_int_or_string == Some(true) {
        return if many.is_empty() { "integer or string".into() } else { "integers or strings".into() };
    }
    match &field.items {
        Some(JSONSchemaPropsOrArray::Schema(items)) => {
            return format!("list{many} of {}", type_of(&format!("{path}[]"), items, "s"));
        }
        Some(JSONSchemaPropsOrArray::Schemas(_)) => panic!("{path}: a list of several schemas"),
        None => {}
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &field.additional_properties {
        return format!("map{many} of {}", type_of(&format!("{path}.*"), values, "s"));
    }
    if let Some(core) = core_type(field) {
        let anchor = format!("{}-v1-{}", core.name.to_lowercase(), core.group);
        // A volume's sources are explained with the volume.
        let anchor = anchor.replace("volumesource-", "volume-");
        return format!("[{}]({KUBERNETES}#{anchor})", core.name);
    }
    if field.properties.is_some() {
        let anchor: String =
            path.to_lowercase().chars().filter(|one| one.is_alphanumeric() || *one == '-').collect();
        return format!("[object{many}](#{anchor})");
    }
    let name = match (field.type_.as_deref(), field.format.as_deref()) {
        (Some("string"), Some("date-time")) => "time",
        (Some(name), _) => name,
        (None, _) => return "anything".into(),
    };
    if field.x_kubernetes_preserve_unknown_fields == Some(true) {
        return format!("open {name}{many}");
    }
    format!("{name}{many}{}", range(field))
}

fn range(field: &JSONSchemaProps) -> String {
    match (field.minimum, field.maximum) {
        (Some(least), Some(most)) => format!(", {least} to {most}"),
        (Some(least), None) => format!(", at least {least}"),
        (None, Some(most)) => format!(", at most {most}"),
        (None, None) => String::new(),
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn default(field: &JSONSchemaProps, required: bool) -> String {
    match &field.default {
        None if required => "required".into(),
        None => String::new(),
        Some(value) if value.0.is_object() => "of its fields".into(),
        Some(value) if value.0 == "" => "`\"\"`".into(),
        Some(value) => format!("`{}`", plain(&value.0)),
    }
}

/// What is checked beyond types, as the API server says it.
fn rules(object: &JSONSchemaProps) -> String {
    let own = object.x_kubernetes_validations.iter().flatten();
    let of_fields = object.properties.iter().flatten().flat_map(|(name, field)| {
        let items = match &field.items {
            Some(JSONSchemaPropsOrArray::Schema(items)) if items.properties.is_none() => Some(&**items),
            _ => None,
        };
        // An object of ours has a section, which has its rules.
        let plain = field.properties.is_none() || core_type(field).is_some();
        let rules = field.x_kubernetes_validations.iter().flatten().filter(move |_| plain);
        let rules =
            rules.chain(items.into_iter().flat_map(|items| items.x_kubernetes_validations.iter().flatten()));
        rules.map(move |rule| (Some(name), rule))
    });
    let mut out = String::new();
    for (field, rule) in own.map(|rule| (None, rule)).chain(of_fields) {
        if out.is_empty() {
            out.push_str("\nRules:\n\n");
        }
        let field = field.map(|name| format!("`{name}`: ")).unwrap_or_default();
        let message = rule.message.as_deref().unwrap_or(&rule.rule);
        writeln!(out, "- {field}{}", escaped(message)).expect("a text");
    }
    out
}
