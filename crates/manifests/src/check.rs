//! The part of a schema that is not rules: types, required fields, bounds, lists without repetition.

use crate::finding::Findings;
use crate::node::{Data, Entry, Node, Path};
use crate::parse::line_of;
use crate::schema::{Format, Merge, Schema, Type};

/// Checks a value and everything in it.
pub(crate) fn check(schema: &Schema, node: &Node, path: &Path, findings: &mut Findings) {
    if node.is_null() && schema.nullable {
        return;
    }
    if !fits(schema.type_, node) {
        return findings.block(path, format!("{} must be of type {}", shown(node), schema.type_.name()));
    }
    if !schema.values.is_empty()
        && !schema.values.iter().any(|value| Node::from_json(node.mark, value).same(node))
    {
        let known: Vec<String> = schema.values.iter().map(ToString::to_string).collect();
        findings.add_here(path, format!("{} is not one of {}", shown(node), known.join(", ")));
    }
    match &node.data {
        Data::Int(value) => {
            check_number(schema, *value as f64, path, findings);
            check_range(schema, *value, path, findings);
        }
        Data::Float(value) => check_number(schema, *value, path, findings),
        Data::Text(text) => check_text(schema, text, path, findings),
        Data::List(items) => check_list(schema, items, path, findings),
        Data::Map(entries) => check_object(schema, node, entries, path, findings),
        Data::Null | Data::Bool(_) => {}
    }
}

fn fits(type_: Type, node: &Node) -> bool {
    matches!(
        (type_, &node.data),
        (Type::Any, _)
            | (Type::Object, Data::Map(_))
            | (Type::Array, Data::List(_))
            | (Type::String | Type::IntOrString, Data::Text(_))
            | (Type::Integer | Type::Number | Type::IntOrString, Data::Int(_))
            | (Type::Number, Data::Float(_))
            | (Type::Boolean, Data::Bool(_))
    )
}

/// A value as messages show it: what it is, and what was written when that is short.
fn shown(node: &Node) -> String {
    const MAX: usize = 60;
    match &node.data {
        Data::Null => "null".into(),
        Data::Bool(value) => format!("{value}"),
        Data::Int(value) => format!("{value}"),
        Data::Float(value) => format!("{value}"),
        Data::Text(text) if text.chars().count() <= MAX => format!("{text:?}"),
        Data::Text(text) => format!("{:?}...", text.chars().take(MAX).collect::<String>()),
        Data::List(_) | Data::Map(_) => format!("an {}", node.type_name()),
    }
}

fn check_number(schema: &Schema, value: f64, path: &Path, findings: &mut Findings) {
    if let Some(minimum) = schema.minimum.filter(|minimum| value < *minimum) {
        findings.add_here(path, format!("{value} must be at least {minimum}"));
    }
    if let Some(maximum) = schema.maximum.filter(|maximum| value > *maximum) {
        findings.add_here(path, format!("{value} must be at most {maximum}"));
    }
}

fn check_range(schema: &Schema, value: i64, path: &Path, findings: &mut Findings) {
    if schema.format == Some(Format::Int32) && i32::try_from(value).is_err() {
        let (least, most) = (i32::MIN, i32::MAX);
        findings.add_here(path, format!("{value} must be from {least} to {most} (int32)"));
    }
}

fn check_text(schema: &Schema, text: &str, path: &Path, findings: &mut Findings) {
    let length = text.chars().count();
    if let Some(least) = schema.min_length.filter(|least| length < *least) {
        findings.add_here(path, format!("must have at least {least} characters, and has {length}"));
    }
    if let Some(most) = schema.max_length.filter(|most| length > *most) {
        findings.block(path, format!("must have at most {most} characters, and has {length}"));
    }
    if let Some(pattern) = schema.pattern.as_ref().filter(|pattern| !pattern.is_match(text)) {
        let value = shown(&Node::new(findings.here(), Data::Text(text.to_owned())));
        findings.add_here(path, format!("{value} must match '{pattern}'"));
    }
    let well_formed = match schema.format {
        Some(Format::DateTime) => is_time(text),
        Some(Format::Byte) => is_base64(text),
        _ => true,
    };
    if !well_formed {
        let expected = match schema.format {
            Some(Format::Byte) => "base64",
            _ => "a time such as 2026-01-02T03:04:05Z",
        };
        findings.add_here(path, format!("{text:?} must be {expected}"));
    }
}

/// RFC 3339, of which jiff also takes shorter and longer forms.
fn is_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    let separated = [(10, b'T'), (13, b':'), (16, b':')]
        .iter()
        .all(|(index, expected)| bytes.get(*index).is_some_and(|byte| byte.eq_ignore_ascii_case(expected)));
    let zoned = text.ends_with(['Z', 'z']) || bytes.iter().rev().nth(2) == Some(&b':');
    separated && zoned && text.parse::<jiff::Timestamp>().is_ok()
}

fn is_base64(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    text.len().is_multiple_of(4)
        && text.len() - body.len() <= 2
        && body.chars().all(|c| c.is_ascii_alphanumeric() || c == '+' || c == '/')
}

fn check_list(schema: &Schema, items: &[Node], path: &Path, findings: &mut Findings) {
    if let Some(least) = schema.min_items.filter(|least| items.len() < *least) {
        findings.add_here(path, format!("must have at least {least} items, and has {}", items.len()));
    }
    if let Some(most) = schema.max_items.filter(|most| items.len() > *most) {
        findings.block(path, format!("must have at most {most} items, and has {}", items.len()));
    }
    if let Some(below) = &schema.items {
        for (index, item) in items.iter().enumerate() {
            findings.at(item.mark, |findings| check(below, item, &path.index(index), findings));
        }
    }
    match &schema.merge {
        Merge::Atomic => {}
        Merge::Set => report_repeated(items, Node::same, path, findings, |first| {
            format!("the same item as {}; remove one", path.index(first).as_str())
        }),
        Merge::Map(keys) => {
            let same = |a: &Node, b: &Node| {
                keys.iter().all(|key| match (a.get(key), b.get(key)) {
                    (Some(a), Some(b)) => a.same(b),
                    (None, None) => true,
                    _ => false,
                })
            };
            report_repeated(items, same, path, findings, |first| {
                format!("has the same {} as {}", keys.join(" and "), path.index(first).as_str())
            });
        }
    }
}

/// Reports each item that is the same as one before it.
fn report_repeated(
    items: &[Node],
    same: impl Fn(&Node, &Node) -> bool,
    path: &Path,
    findings: &mut Findings,
    message: impl Fn(usize) -> String,
) {
    for (index, item) in items.iter().enumerate() {
        if let Some(first) = items[..index].iter().position(|before| same(before, item)) {
            findings.add(item.mark, &path.index(index), message(first));
        }
    }
}

fn check_object(schema: &Schema, node: &Node, entries: &[Entry], path: &Path, findings: &mut Findings) {
    if let Some(least) = schema.min_properties.filter(|least| entries.len() < *least) {
        findings.add_here(path, format!("must have at least {least} entries, and has {}", entries.len()));
    }
    if let Some(most) = schema.max_properties.filter(|most| entries.len() > *most) {
        findings.block(path, format!("must have at most {most} entries, and has {}", entries.len()));
    }
    for name in schema.required.iter().filter(|name| node.entry(name).is_none()) {
        findings.block(&path.field(name), "required, but missing".into());
    }
    for entry in entries {
        if let Some(below) = schema.field(&entry.key) {
            let path = path.field(&entry.key);
            findings.at(line_of(entry), |findings| check(below, &entry.value, &path, findings));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::node::Mark;
    use crate::rules::Compiler;
    use crate::schema::Builder;

    fn messages(schema: Value, value: Value) -> Vec<String> {
        let compiler = Compiler::new();
        let schema = Builder::new(&compiler).build("", &schema).unwrap();
        let mut findings = Findings::new(Mark::default());
        check(&schema, &Node::from_json(Mark::default(), &value), &Path::default().field("x"), &mut findings);
        findings
            .into_vec()
            .into_iter()
            .map(|finding| format!("{}: {}", finding.path, finding.message))
            .collect()
    }

    #[test]
    fn each_type_takes_its_own_values() {
        let values = [json!({}), json!([]), json!("a"), json!(1), json!(1.5), json!(true), json!(null)];
        for (schema, taken) in [
            (json!({ "type": "object" }), &[0][..]),
            (json!({ "type": "array" }), &[1]),
            (json!({ "type": "string" }), &[2]),
            (json!({ "type": "integer" }), &[3]),
            (json!({ "type": "number" }), &[3, 4]),
            (json!({ "type": "boolean" }), &[5]),
            (json!({ "x-kubernetes-int-or-string": true }), &[2, 3]),
            (json!({ "type": "string", "nullable": true }), &[2, 6]),
            (json!({ "x-kubernetes-preserve-unknown-fields": true }), &[0, 1, 2, 3, 4, 5, 6]),
        ] {
            for (index, value) in values.iter().enumerate() {
                let accepted = messages(schema.clone(), value.clone()).is_empty();
                assert_eq!(accepted, taken.contains(&index), "{schema} {value}");
            }
        }
    }

    #[test]
    fn bounds_are_told_with_what_was_written() {
        for (schema, value, message) in [
            (json!({ "minimum": 1 }), json!(0), "x: 0 must be at least 1"),
            (json!({ "maximum": 1 }), json!(2), "x: 2 must be at most 1"),
            (json!({ "minLength": 2 }), json!("ä"), "x: must have at least 2 characters, and has 1"),
            (json!({ "maxLength": 1 }), json!("ab"), "x: must have at most 1 characters, and has 2"),
            (json!({ "minItems": 1 }), json!([]), "x: must have at least 1 items, and has 0"),
            (json!({ "maxItems": 0 }), json!([1]), "x: must have at most 0 items, and has 1"),
            (json!({ "minProperties": 1 }), json!({}), "x: must have at least 1 entries, and has 0"),
            (json!({ "maxProperties": 0 }), json!({ "a": 1 }), "x: must have at most 0 entries, and has 1"),
            (json!({ "pattern": "^a$" }), json!("b"), "x: \"b\" must match '^a$'"),
            (json!({ "enum": ["a", 1] }), json!("b"), "x: \"b\" is not one of \"a\", 1"),
            (json!({ "required": ["a"] }), json!({}), "x.a: required, but missing"),
            (
                json!({ "format": "int32", "type": "integer" }),
                json!(3_000_000_000_u32),
                "x: 3000000000 must be from -2147483648 to 2147483647 (int32)",
            ),
            (
                json!({ "format": "date-time", "type": "string" }),
                json!("now"),
                "x: \"now\" must be a time such as 2026-01-02T03:04:05Z",
            ),
            (json!({ "format": "byte" }), json!("a"), "x: \"a\" must be base64"),
            (
                json!({ "type": "object", "additionalProperties": { "type": "string" } }),
                json!({ "a.b/c": 1 }),
                "x[a.b/c]: 1 must be of type string",
            ),
        ] {
            assert_eq!(messages(schema, value), [message]);
        }
    }

    #[test]
    fn lists_that_are_maps_or_sets_have_no_item_twice() {
        let map = json!({
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a", "b"], "items": { "type": "object" },
        });
        assert_eq!(
            messages(map.clone(), json!([{ "a": 1, "b": 1 }, { "a": 1, "b": 2 }, { "a": 1, "b": 1 }])),
            ["x[2]: has the same a and b as x[0]"]
        );
        assert_eq!(messages(map, json!([{ "a": 1 }, { "b": 1 }])), [""; 0]);
        let set = json!({ "x-kubernetes-list-type": "set" });
        assert_eq!(messages(set, json!(["a", "b", "a"])), ["x[2]: the same item as x[0]; remove one"]);
    }

    #[test]
    fn a_keyword_that_is_not_checked_is_no_silent_gap() {
        let compiler = Compiler::new();
        let error = Builder::new(&compiler).build("Kind", &json!({ "oneOf": [] })).unwrap_err();
        assert_eq!(error.to_string(), "cannot check Kind: unknown keyword oneOf; this is a bug");
    }
}
