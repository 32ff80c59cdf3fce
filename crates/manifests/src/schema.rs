//! A structural schema in a form that is quick to check against.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use regex::Regex;
use serde_json::{Map, Value};

use crate::rules::{Compiler, Rule};

/// A schema that says something which this crate cannot check. It is a bug of ours, because the schemas are ours too.
#[derive(Clone, Debug, thiserror::Error)]
#[error("cannot check {path}: {reason}; this is a bug")]
pub struct SchemaError {
    path: String,
    reason: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Type {
    #[default]
    Any,
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
    IntOrString,
}

impl Type {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Any => "any value",
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::IntOrString => "integer or string",
        }
    }
}

/// The formats that the API server checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Int32,
    Int64,
    DateTime,
    Byte,
}

#[derive(Debug, Default)]
pub(crate) enum Merge {
    #[default]
    Atomic,
    Set,
    Map(Vec<String>),
}

/// What a value must be.
#[derive(Debug, Default)]
pub(crate) struct Schema {
    pub(crate) type_: Type,
    pub(crate) format: Option<Format>,
    pub(crate) nullable: bool,
    /// Fields that are not in `properties` are kept.
    pub(crate) open: bool,
    pub(crate) properties: BTreeMap<String, Schema>,
    pub(crate) additional: Option<Box<Schema>>,
    pub(crate) items: Option<Box<Schema>>,
    pub(crate) required: Vec<String>,
    pub(crate) values: Vec<Value>,
    pub(crate) default: Option<Value>,
    pub(crate) pattern: Option<Arc<Regex>>,
    pub(crate) minimum: Option<f64>,
    pub(crate) maximum: Option<f64>,
    pub(crate) min_length: Option<usize>,
    pub(crate) max_length: Option<usize>,
    pub(crate) min_items: Option<usize>,
    pub(crate) max_items: Option<usize>,
    pub(crate) min_properties: Option<usize>,
    pub(crate) max_properties: Option<usize>,
    pub(crate) merge: Merge,
    pub(crate) rules: Vec<Rule>,
}

impl Schema {
    /// The schema of a field, whether it is named or any of a map.
    pub(crate) fn field(&self, key: &str) -> Option<&Self> {
        self.properties.get(key).or(self.additional.as_deref())
    }
}

/// Makes schemas; equal patterns are compiled once.
pub(crate) struct Builder<'a> {
    compiler: &'a Compiler,
    patterns: HashMap<String, Arc<Regex>>,
}

impl<'a> Builder<'a> {
    pub(crate) fn new(compiler: &'a Compiler) -> Self {
        Self { compiler, patterns: HashMap::new() }
    }

    pub(crate) fn build(&mut self, path: &str, json: &Value) -> Result<Schema, SchemaError> {
        let fail = |reason: String| SchemaError { path: path.to_owned(), reason };
        let object = json.as_object().ok_or_else(|| fail("its schema is no object".into()))?;
        let mut schema = Schema::default();
        for (keyword, value) in object {
            self.keyword(&mut schema, path, keyword, value)?;
        }
        if let Some(keys) = object.get("x-kubernetes-list-map-keys").and_then(Value::as_array) {
            schema.merge = Merge::Map(keys.iter().filter_map(Value::as_str).map(Into::into).collect());
        }
        Ok(schema)
    }

    fn keyword(
        &mut self,
        schema: &mut Schema,
        path: &str,
        keyword: &str,
        value: &Value,
    ) -> Result<(), SchemaError> {
        let fail = |reason: String| SchemaError { path: path.to_owned(), reason };
        let size = || value.as_u64().and_then(|size| usize::try_from(size).ok());
        match keyword {
            "title" | "description" | "example" | "externalDocs" | "x-kubernetes-map-type" => {}
            // Follows from the keys.
            "x-kubernetes-list-map-keys" => {}
            "type" => {
                schema.type_ = match (schema.type_, value.as_str()) {
                    (Type::IntOrString, _) => Type::IntOrString,
                    (_, Some("object")) => Type::Object,
                    (_, Some("array")) => Type::Array,
                    (_, Some("string")) => Type::String,
                    (_, Some("integer")) => Type::Integer,
                    (_, Some("number")) => Type::Number,
                    (_, Some("boolean")) => Type::Boolean,
                    _ => return Err(fail(format!("unknown type {value}"))),
                }
            }
            "x-kubernetes-int-or-string" if value == true => schema.type_ = Type::IntOrString,
            "x-kubernetes-preserve-unknown-fields" => schema.open = value == true,
            "nullable" => schema.nullable = value == true,
            "format" => {
                schema.format = match value.as_str() {
                    Some("int32") => Some(Format::Int32),
                    Some("int64") => Some(Format::Int64),
                    Some("date-time") => Some(Format::DateTime),
                    Some("byte") => Some(Format::Byte),
                    Some("double" | "float") => None,
                    _ => return Err(fail(format!("unknown format {value}"))),
                }
            }
            "properties" => {
                for (name, property) in value.as_object().into_iter().flatten() {
                    let below = format!("{path}.{name}");
                    schema.properties.insert(name.clone(), self.build(&below, property)?);
                }
            }
            "additionalProperties" => match value {
                Value::Bool(open) => schema.open = *open,
                other => schema.additional = Some(Box::new(self.build(&format!("{path}[*]"), other)?)),
            },
            "items" => schema.items = Some(Box::new(self.build(&format!("{path}[]"), value)?)),
            "required" => {
                schema.required = value
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(Value::as_str)
                    .map(Into::into)
                    .collect();
            }
            "enum" => schema.values = value.as_array().cloned().unwrap_or_default(),
            "default" => schema.default = Some(value.clone()),
            "pattern" => {
                let text = value.as_str().unwrap_or_default();
                schema.pattern = Some(self.pattern(text).map_err(|error| fail(error.to_string()))?);
            }
            "minimum" => schema.minimum = value.as_f64(),
            "maximum" => schema.maximum = value.as_f64(),
            "minLength" => schema.min_length = size(),
            "maxLength" => schema.max_length = size(),
            "minItems" => schema.min_items = size(),
            "maxItems" => schema.max_items = size(),
            "minProperties" => schema.min_properties = size(),
            "maxProperties" => schema.max_properties = size(),
            "x-kubernetes-list-type" => {
                if value == "set" {
                    schema.merge = Merge::Set;
                }
            }
            "x-kubernetes-validations" => {
                for rule in value.as_array().into_iter().flatten().filter_map(Value::as_object) {
                    schema.rules.extend(self.rule(rule).map_err(fail)?);
                }
            }
            other => return Err(fail(format!("unknown keyword {other}"))),
        }
        Ok(())
    }

    fn rule(&self, rule: &Map<String, Value>) -> Result<Option<Rule>, String> {
        let text = |key: &str| rule.get(key).and_then(Value::as_str);
        let source = text("rule").ok_or("a rule without text")?;
        if let Some(key) =
            rule.keys().find(|key| !["rule", "message", "fieldPath", "reason"].contains(&key.as_str()))
        {
            return Err(format!("a rule with {key}, which is not supported"));
        }
        self.compiler.compile(source, text("message"), text("fieldPath"))
    }

    fn pattern(&mut self, text: &str) -> Result<Arc<Regex>, regex::Error> {
        if let Some(known) = self.patterns.get(text) {
            return Ok(known.clone());
        }
        let pattern = Arc::new(Regex::new(text)?);
        self.patterns.insert(text.to_owned(), pattern.clone());
        Ok(pattern)
    }
}
