//! Defaults, which the API server fills in before it checks anything.

use crate::node::{Data, Entry, Node};
use crate::schema::Schema;

/// Fills in what is missing, in the value and everything in it.
pub(crate) fn fill(schema: &Schema, node: &mut Node) {
    let mark = node.mark;
    match &mut node.data {
        Data::Map(entries) => {
            // A null that may not be one counts as a missing field.
            entries.retain(|entry| {
                !entry.value.is_null() || schema.field(&entry.key).is_none_or(|below| below.nullable)
            });
            for (key, below) in &schema.properties {
                if let Some(default) = &below.default
                    && !entries.iter().any(|entry| entry.key == *key)
                {
                    entries.push(Entry { key: key.clone(), mark, value: Node::from_json(mark, default) });
                }
            }
            for entry in entries {
                if let Some(below) = schema.field(&entry.key) {
                    fill(below, &mut entry.value);
                }
            }
        }
        Data::List(items) => {
            if let Some(below) = &schema.items {
                for item in items {
                    fill(below, item);
                }
            }
        }
        _ => {}
    }
}
