//! Fields that a schema does not have.

use crate::finding::Findings;
use crate::nearest::nearest;
use crate::node::{Data, Node, Path};
use crate::parse::line_of;
use crate::schema::{Schema, Type};

/// Reports unknown fields, with the name that was probably meant, and takes them away.
pub(crate) fn remove(schema: &Schema, node: &mut Node, path: &Path, findings: &mut Findings) {
    match &mut node.data {
        Data::Map(entries) if schema.type_ == Type::Object => {
            entries.retain_mut(|entry| {
                let path = path.field(&entry.key);
                let mark = line_of(entry);
                if let Some(below) = schema.field(&entry.key) {
                    findings.at(mark, |findings| remove(below, &mut entry.value, &path, findings));
                    return true;
                }
                if !schema.open {
                    findings.add(mark, &path, message(schema, &entry.key));
                }
                schema.open
            });
        }
        Data::List(items) => {
            if let Some(below) = &schema.items {
                for (index, item) in items.iter_mut().enumerate() {
                    let mark = item.mark;
                    findings.at(mark, |findings| remove(below, item, &path.index(index), findings));
                }
            }
        }
        _ => {}
    }
}

fn message(schema: &Schema, key: &str) -> String {
    let names: Vec<&str> = schema.properties.keys().map(String::as_str).collect();
    match nearest(key, &names) {
        Some(name) => format!("unknown field; did you mean `{name}`?"),
        None if names.is_empty() => "unknown field; the object has none".into(),
        None if names.len() <= 12 => format!("unknown field; known are {}", names.join(", ")),
        None => "unknown field".into(),
    }
}
