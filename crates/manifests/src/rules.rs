//! Validation rules in CEL.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use cel::objects::{Key, Map};
use cel::{Context, Env, ExecutionError, Program, Value};

use crate::duration;
use crate::finding::Findings;
use crate::node::{Data, Entry, Node, Path};
use crate::parse::line_of;
use crate::schema::Schema;

/// A rule, ready to run.
pub(crate) struct Rule {
    program: Program,
    source: String,
    message: Option<String>,
    /// The names of the fields that lead from the value to what the message is about.
    field_path: Vec<String>,
}

impl std::fmt::Debug for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rule").field("source", &self.source).finish_non_exhaustive()
    }
}

impl Rule {
    /// The identifiers in the source, and parts of its texts, which do no harm.
    fn words(&self) -> impl Iterator<Item = &str> {
        self.source.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
    }
}

/// Reads rules, and runs them.
pub(crate) struct Compiler {
    env: Arc<Env>,
}

impl Compiler {
    pub(crate) fn new() -> Self {
        Self { env: Arc::new(Env::stdlib().with_optional_support(true)) }
    }

    /// `None` is a rule about changes (`oldSelf`), which has no meaning without a stored object.
    pub(crate) fn compile(
        &self,
        source: &str,
        message: Option<&str>,
        field_path: Option<&str>,
    ) -> Result<Option<Rule>, String> {
        let program = self.env.compile(source).map_err(|error| format!("rule {source:?}: {error}"))?;
        if program.references().has_variable("oldSelf") {
            return Ok(None);
        }
        let field_path = field_path.unwrap_or_default();
        if field_path.contains('[') {
            return Err(format!("the fieldPath {field_path} is more than names of fields"));
        }
        Ok(Some(Rule {
            program,
            source: source.to_owned(),
            message: message.map(Into::into),
            field_path: field_path.split('.').filter(|name| !name.is_empty()).map(Into::into).collect(),
        }))
    }

    /// Runs every rule of the schema on the values that it is about.
    pub(crate) fn check(&self, schema: &Schema, node: &Node, path: &Path, findings: &mut Findings) {
        let mut context = Context::with_env(self.env.clone());
        // Rules only compare durations, so a number does. It fails for a name that the language has already.
        if let Err(error) = context.add_function("duration", duration) {
            return findings.add_here(path, format!("rules cannot be evaluated: {error}"));
        }
        check(&context, schema, node, path, findings);
    }
}

fn duration(text: Arc<String>) -> Result<i64, ExecutionError> {
    let fail = || ExecutionError::function_error("duration", format!("{text:?} is no duration"));
    duration::nanoseconds(&text).ok_or_else(fail)
}

fn check(context: &Context<'_, '_>, schema: &Schema, node: &Node, path: &Path, findings: &mut Findings) {
    // The API server runs rules on values, and null is none.
    if node.is_null() {
        return;
    }
    if !schema.rules.is_empty() {
        let mut scope = context.new_inner_scope();
        let words: BTreeSet<&str> = schema.rules.iter().flat_map(Rule::words).collect();
        scope.add_variable_from_value("self", to_cel(schema, node, &words));
        for rule in &schema.rules {
            let message = rule.message.clone().unwrap_or_else(|| format!("failed rule: {}", rule.source));
            // Like the API server, which tells the field of a rule only when the rule says no.
            match rule.program.execute(&scope) {
                Ok(Value::Bool(true)) => {}
                Ok(Value::Bool(false)) => report(&rule.field_path, node, path, message, findings),
                Ok(other) => {
                    let message = format!("{message} (the rule gave {other:?}, which is no boolean)");
                    report(&[], node, path, message, findings);
                }
                Err(error) => {
                    let message = format!("{message} (the rule cannot be evaluated: {error})");
                    report(&[], node, path, message, findings);
                }
            }
        }
    }
    match &node.data {
        Data::Map(entries) => {
            for entry in entries {
                if let Some(below) = schema.field(&entry.key) {
                    findings.at(line_of(entry), |findings| {
                        check(context, below, &entry.value, &path.field(&entry.key), findings);
                    });
                }
            }
        }
        Data::List(items) => {
            if let Some(below) = &schema.items {
                for (index, item) in items.iter().enumerate() {
                    findings.at(item.mark, |findings| {
                        check(context, below, item, &path.index(index), findings);
                    });
                }
            }
        }
        _ => {}
    }
}

/// The finding is at the field that the rule names; at the nearest line above it when that is not written.
fn report(field_path: &[String], node: &Node, path: &Path, message: String, findings: &mut Findings) {
    let mut mark = findings.here();
    let mut place = Some(node);
    let mut path = path.clone();
    for name in field_path {
        path = path.field(name);
        let entry: Option<&Entry> = place.and_then(|node| node.entry(name));
        if let Some(entry) = entry {
            mark = line_of(entry);
        }
        place = entry.map(|entry| &entry.value);
    }
    findings.add(mark, &path, message);
}

/// The value as rules see it: of the fields of objects only those that are among `words`. The others would take most of the
/// time, and a rule cannot tell, because none of ours compares whole objects.
fn to_cel(schema: &Schema, node: &Node, words: &BTreeSet<&str>) -> Value {
    match &node.data {
        Data::Null => Value::Null,
        Data::Bool(value) => Value::Bool(*value),
        Data::Int(value) if schema.type_ == crate::schema::Type::Number => Value::Float(*value as f64),
        Data::Int(value) => Value::Int(*value),
        Data::Float(value) => Value::Float(*value),
        Data::Text(text) => Value::String(Arc::new(text.clone())),
        Data::List(items) => {
            let fallback = Schema::default();
            let below = schema.items.as_deref().unwrap_or(&fallback);
            Value::List(Arc::new(items.iter().map(|item| to_cel(below, item, words)).collect()))
        }
        Data::Map(entries) => {
            let fallback = Schema::default();
            let mut fields: HashMap<Key, Value> = HashMap::new();
            for entry in entries {
                // The keys of a map are data; those of an object are names, which CEL must be able to write.
                let named = schema.properties.contains_key(&entry.key);
                let key = if named { escaped(&entry.key) } else { entry.key.clone() };
                if named && !words.contains(key.as_str()) {
                    continue;
                }
                let below = schema.field(&entry.key).unwrap_or(&fallback);
                fields.insert(Key::String(Arc::new(key)), to_cel(below, &entry.value, words));
            }
            Value::Map(Map { map: Arc::new(fields) })
        }
    }
}

/// Words that are no identifiers in CEL.
const RESERVED: &[&str] = &[
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// The name of a field as rules write it.
fn escaped(name: &str) -> String {
    if RESERVED.contains(&name) {
        return format!("__{name}__");
    }
    if name.chars().all(|c| c.is_ascii_alphanumeric()) {
        return name.to_owned();
    }
    name.replace("__", "__underscores__")
        .replace('.', "__dot__")
        .replace('-', "__dash__")
        .replace('/', "__slash__")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;
    use crate::node::Mark;
    use crate::schema::Builder;

    fn messages(schema: Json, value: Json) -> Vec<String> {
        let compiler = Compiler::new();
        let schema = Builder::new(&compiler).build("", &schema).unwrap();
        let mut findings = Findings::new(Mark::default());
        compiler.check(&schema, &Node::from_json(Mark::default(), &value), &Path::default(), &mut findings);
        findings
            .into_vec()
            .into_iter()
            .map(|finding| format!("{}: {}", finding.path, finding.message))
            .collect()
    }

    fn holds(rule: &str, value: Json) -> bool {
        let found =
            messages(json!({ "x-kubernetes-validations": [{ "rule": rule, "message": "no" }] }), value);
        assert!(found.is_empty() || found == [": no"], "{found:?}");
        found.is_empty()
    }

    #[test]
    fn the_language_is_that_of_kubernetes() {
        assert!(holds("self.?a.?b.orValue(1) == 1", json!({})));
        assert!(holds("self.?a.?b.orValue(1) == 2", json!({ "a": { "b": 2 } })));
        assert!(holds("type(self) == int ? self >= 0 : self.matches('^[0-9]+%$')", json!(3)));
        assert!(holds("type(self) == int ? self >= 0 : self.matches('^[0-9]+%$')", json!("20%")));
        assert!(!holds("type(self) == int ? self >= 0 : self.matches('^[0-9]+%$')", json!("x%")));
        assert!(holds("[has(self.a), has(self.b)].filter(x, x).size() == 1", json!({ "a": 1 })));
        assert!(holds("duration(self.a) > duration(self.b)", json!({ "a": "1h30m", "b": "90s" })));
        assert!(holds("self.all(k, k in {'a': 1})", json!({ "a": 1 })));
        assert!(holds("self.exists(p, has(p.a) && size(p.a) > 0)", json!([{}, { "a": ["x"] }])));
    }

    #[test]
    fn a_rule_sees_the_fields_that_it_names_at_every_depth() {
        let text = json!({ "type": "string" });
        let item = json!({ "type": "object", "properties": { "b": text, "c": text } });
        let schema = json!({
            "properties": { "list": { "type": "array", "items": item }, "other": item },
            "x-kubernetes-validations": [{ "rule": "self.list.all(x, has(x.b) && x.b != '') && !has(self.other)", "message": "no" }],
        });
        let list = json!([{ "b": "1", "c": "2" }]);
        assert_eq!(messages(schema.clone(), json!({ "list": list })), [""; 0]);
        assert_eq!(messages(schema.clone(), json!({ "list": [{ "c": "2" }] })), [": no"]);
        assert_eq!(messages(schema, json!({ "list": list, "other": {} })), [": no"]);
    }

    #[test]
    fn rules_about_changes_are_left_out() {
        let rule = json!({ "x-kubernetes-validations": [{ "rule": "self == oldSelf" }] });
        assert_eq!(messages(rule, json!(1)), [""; 0]);
    }

    #[test]
    fn a_rule_that_cannot_be_evaluated_is_reported() {
        let rule = json!({ "x-kubernetes-validations": [{ "rule": "self.a == 1" }] });
        let found = messages(rule, json!({}));
        assert!(
            found[0].starts_with(": failed rule: self.a == 1 (the rule cannot be evaluated"),
            "{found:?}"
        );
    }

    #[test]
    fn the_field_path_is_in_the_finding_and_names_are_escaped() {
        let schema = json!({
            "properties": { "in-it": { "type": "integer" }, "namespace": { "type": "integer" } },
            "x-kubernetes-validations": [
                { "rule": "self.in__dash__it == self.__namespace__", "message": "no", "fieldPath": ".in-it" },
            ],
        });
        assert_eq!(messages(schema.clone(), json!({ "in-it": 1, "namespace": 2 })), ["in-it: no"]);
        assert_eq!(messages(schema, json!({ "in-it": 1, "namespace": 1 })), [""; 0]);
    }
}
