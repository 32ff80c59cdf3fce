//! From Rust types to the structural schemas that the API server takes.
//!
//! schemars writes one definition per type. They are put in place here, because a CRD has no references, and each
//! is treated by whose it is: a type of ours keeps its descriptions and gets bounds, a type of Kubernetes loses its
//! descriptions (which are most of its size) and gets what [`core_types`](super::core_types) knows about it.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};

use super::cel::Rule;
use super::core_types;

type Object = Map<String, Value>;

/// The bounds of our own fields that name none. The API server needs some to tell the cost of a rule beforehand.
const MAX_STRING: u64 = 65_536;
const MAX_ITEMS: u64 = 1024;
const MAX_PROPERTIES: u64 = 512;

/// References inside references, more than which is a type that holds itself.
const MAX_DEPTH: usize = 32;

/// The schema of a kind with a spec and a status.
pub fn root<Spec: JsonSchema, Status: JsonSchema>(description: &str, rules: &[Rule]) -> Schema {
    let mut schema = Object::new();
    schema.insert("type".into(), json!("object"));
    schema.insert("description".into(), json!(description));
    schema.insert("required".into(), json!(["spec"]));
    schema
        .insert("properties".into(), json!({ "spec": schema_of::<Spec>(), "status": schema_of::<Status>() }));
    if !rules.is_empty() {
        schema.insert("x-kubernetes-validations".into(), json!(rules));
    }
    schema.into()
}

/// The structural schema of one type.
pub fn schema_of<T: JsonSchema>() -> Value {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let top = generator.subschema_for::<T>();
    let definitions = generator.take_definitions(false);
    place(&top.to_value(), &definitions, false, 0)
}

/// The schema with every reference replaced by what it names. `core` tells whether Kubernetes owns it.
fn place(schema: &Value, definitions: &Object, core: bool, depth: usize) -> Value {
    let Value::Object(object) = schema else {
        // `true`: any value.
        return json!({ "x-kubernetes-preserve-unknown-fields": true });
    };
    let mut object = object.clone();
    take_null_away(&mut object);
    merge_enum(&mut object);
    let object = match object.remove("$ref") {
        Some(Value::String(reference)) if depth < MAX_DEPTH => {
            let name = reference.rsplit('/').next().unwrap_or_default();
            let target = definitions.get(name).unwrap_or(&Value::Null);
            let core_target = core_types::is_core(name);
            let mut placed =
                match place(&with_core_keys(target, name, core), definitions, core_target, depth + 1) {
                    Value::Object(placed) => placed,
                    _ => Object::new(),
                };
            // What stands beside the reference is about this use of the type, and wins.
            placed.extend(object);
            placed
        }
        _ => place_members(object, definitions, core, depth),
    };
    Value::Object(finish(object, core))
}

fn place_members(mut object: Object, definitions: &Object, core: bool, depth: usize) -> Object {
    if let Some(Value::Object(properties)) = object.get_mut("properties") {
        for value in properties.values_mut() {
            *value = place(value, definitions, core, depth + 1);
        }
    }
    for key in ["items", "additionalProperties"] {
        match object.get_mut(key) {
            Some(value @ Value::Object(_)) => *value = place(value, definitions, core, depth + 1),
            Some(_) => {
                object.remove(key);
            }
            None => {}
        }
    }
    object
}

/// Adds to a definition of Kubernetes what k8s-openapi leaves out. `inside` tells whether another type of Kubernetes holds it.
fn with_core_keys(definition: &Value, name: &str, inside: bool) -> Value {
    let mut definition = definition.clone();
    if core_types::is_core(name)
        && let Value::Object(object) = &mut definition
    {
        core_types::complete(name, inside, object);
    }
    definition
}

/// An optional value is one that may be absent, never null: the API server then drops a null that somebody sends.
fn take_null_away(object: &mut Object) {
    if let Some(Value::Array(types)) = object.get_mut("type") {
        types.retain(|one| one != "null");
        if let [one] = types.as_slice() {
            let one = one.clone();
            object.insert("type".into(), one);
        }
    }
    for key in ["anyOf", "oneOf"] {
        let Some(Value::Array(variants)) = object.get_mut(key) else {
            continue;
        };
        variants.retain(|variant| variant.get("type") != Some(&json!("null")));
        if let [Value::Object(only)] = variants.as_slice() {
            let only = only.clone();
            object.remove(key);
            for (key, value) in only {
                object.entry(key).or_insert(value);
            }
        }
    }
    if let Some(Value::Array(values)) = object.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
}

/// An enum with documented variants comes as a list of constants.
fn merge_enum(object: &mut Object) {
    if let Some(Value::Array(variants)) = object.get("oneOf") {
        let mut values = Vec::new();
        for variant in variants {
            match (variant.get("const"), variant.get("enum")) {
                (Some(value), _) => values.push(value.clone()),
                (None, Some(Value::Array(several))) => values.extend(several.iter().cloned()),
                _ => return,
            }
        }
        object.remove("oneOf");
        object.insert("type".into(), json!("string"));
        object.insert("enum".into(), Value::Array(values));
    }
    if let Some(value) = object.remove("const") {
        object.insert("enum".into(), json!([value]));
    }
}

fn finish(mut object: Object, core: bool) -> Object {
    object.remove("title");
    object.remove("$schema");
    if let Some(Value::String(format)) = object.get("format")
        && !says_something(format, &object)
    {
        object.remove("format");
    }
    if core {
        object.remove("description");
    } else {
        if let Some(Value::String(text)) = object.get_mut("description") {
            *text = unwrap_lines(text);
        }
        bound(&mut object);
    }
    object
}

/// Whether a format makes the API server check anything. It warns about formats that it does not know (`uint32`,
/// `int16`), every integer has 64 bits, and bounds say more than 32 bits.
fn says_something(format: &str, object: &Object) -> bool {
    match format {
        "int32" => !(object.contains_key("minimum") && object.contains_key("maximum")),
        "double" | "date-time" | "byte" => true,
        _ => false,
    }
}

fn bound(object: &mut Object) {
    let (key, limit) = match object.get("type").and_then(Value::as_str) {
        Some("string") if !object.contains_key("enum") && !object.contains_key("format") => {
            ("maxLength", MAX_STRING)
        }
        Some("array") => ("maxItems", MAX_ITEMS),
        Some("object") if object.contains_key("additionalProperties") => ("maxProperties", MAX_PROPERTIES),
        _ => return,
    };
    object.entry(key).or_insert(json!(limit));
}

/// The text with the line breaks of the source file taken out; paragraphs and lists stay.
fn unwrap_lines(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.lines().map(str::trim) {
        if line.is_empty() || line.starts_with("- ") {
            if !out.is_empty() && !out.ends_with('\n') {
                out.push('\n');
            }
        } else if !out.is_empty() && !out.ends_with('\n') {
            out.push(' ');
        }
        out.push_str(line);
    }
    out.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::api::core::v1::{Container, LocalObjectReference, Toleration, Volume};
    use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
    use serde::{Deserialize, Serialize};

    use super::*;

    /// A small thing
    /// on two lines.
    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "camelCase")]
    struct Thing {
        /// Our text.
        kind_of: Option<Kind>,
        /// How many.
        count: Option<i32>,
        /// Little.
        little: Option<u8>,
        /// A port.
        #[schemars(range(min = 0, max = 65_535))]
        port: Option<i32>,
        /// A long number.
        long: Option<i64>,
        /// A volume.
        volume: Option<Volume>,
        /// Ours about containers.
        containers: Vec<Container>,
        /// Ours about one.
        one: Option<LocalObjectReference>,
        /// Amounts.
        amounts: Option<BTreeMap<String, Quantity>>,
        /// Tolerations.
        tolerations: Option<Vec<Toleration>>,
    }

    #[derive(Serialize, Deserialize, JsonSchema)]
    enum Kind {
        /// The first.
        A,
        /// The second.
        B,
    }

    fn property(path: &[&str]) -> Value {
        let mut schema = schema_of::<Thing>();
        for name in path {
            schema = match *name {
                "[]" => schema["items"].take(),
                name => schema["properties"][name].take(),
            };
        }
        schema
    }

    #[test]
    fn an_optional_enum_is_a_plain_enum_with_the_text_of_its_field() {
        assert_eq!(
            property(&["kindOf"]),
            json!({ "type": "string", "enum": ["A", "B"], "description": "Our text." })
        );
    }

    #[test]
    fn null_is_no_value_and_unknown_formats_go_away() {
        assert_eq!(
            property(&["count"]),
            json!({ "type": "integer", "format": "int32", "description": "How many." })
        );
        let little = property(&["little"]);
        assert_eq!(little.get("format"), None);
        assert_eq!(little["minimum"], 0);
    }

    #[test]
    fn formats_that_the_api_server_does_not_check_go_away() {
        assert_eq!(
            property(&["port"]),
            json!({ "type": "integer", "minimum": 0, "maximum": 65535, "description": "A port." })
        );
        assert_eq!(property(&["long"]), json!({ "type": "integer", "description": "A long number." }));
    }

    #[test]
    fn alpha_fields_of_kubernetes_are_left_out() {
        let container = property(&["containers", "[]"]);
        assert!(container["properties"].get("restartPolicy").is_some());
        assert_eq!(container["properties"].get("restartPolicyRules"), None);
        let from = property(&["containers", "[]", "env", "[]", "valueFrom"]);
        assert!(from["properties"].get("fieldRef").is_some());
        assert_eq!(from["properties"].get("fileKeyRef"), None);
    }

    #[test]
    fn a_claim_of_an_ephemeral_volume_has_the_metadata_that_kubernetes_takes() {
        let metadata = property(&["volume", "ephemeral", "volumeClaimTemplate", "metadata"]);
        let names: Vec<&String> = metadata["properties"].as_object().unwrap().keys().collect();
        assert_eq!(names, ["annotations", "creationTimestamp", "labels"]);
    }

    #[test]
    fn our_descriptions_stay_and_those_of_kubernetes_go() {
        assert_eq!(schema_of::<Thing>()["description"], "A small thing on two lines.");
        assert_eq!(property(&["containers"])["description"], "Ours about containers.");
        assert_eq!(property(&["one"])["description"], "Ours about one.");
        for path in [&["containers", "[]"][..], &["containers", "[]", "image"], &["one", "name"]] {
            assert_eq!(property(path).get("description"), None, "{path:?}");
        }
    }

    #[test]
    fn lists_of_kubernetes_types_say_how_they_merge() {
        let env = property(&["containers", "[]", "env"]);
        assert_eq!(env["x-kubernetes-list-type"], "map");
        assert_eq!(env["x-kubernetes-list-map-keys"], json!(["name"]));
        let ports = property(&["containers", "[]", "ports"]);
        assert_eq!(ports["x-kubernetes-list-map-keys"], json!(["containerPort", "protocol"]));
        assert_eq!(ports["items"]["properties"]["protocol"]["default"], "TCP");
        // Absent means atomic.
        assert_eq!(property(&["tolerations"]).get("x-kubernetes-list-type"), None);
        assert_eq!(property(&["one"])["x-kubernetes-map-type"], "atomic");
    }

    #[test]
    fn a_quantity_is_a_number_or_a_text() {
        assert_eq!(property(&["amounts"])["additionalProperties"]["x-kubernetes-int-or-string"], true);
    }

    #[test]
    fn our_lists_and_maps_are_bounded() {
        assert_eq!(property(&["containers"])["maxItems"], MAX_ITEMS);
        assert_eq!(property(&["amounts"])["maxProperties"], MAX_PROPERTIES);
        assert_eq!(property(&["containers", "[]", "args"]).get("maxItems"), None);
    }
}
