//! Whether an object still is what we sent. No I/O.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Map, Value};

/// What of an object's metadata moves when somebody changed what we may own. Its status does not move it, where the kind
/// has a generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Signal {
    uid: Option<String>,
    /// The generation, or the version for kinds that have none.
    counter: String,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
    owners: Vec<String>,
}

impl Signal {
    pub(super) fn of(meta: &ObjectMeta) -> Self {
        Self {
            uid: meta.uid.clone(),
            counter: match meta.generation {
                Some(generation) => generation.to_string(),
                None => meta.resource_version.clone().unwrap_or_default(),
            },
            labels: meta.labels.clone().filter(|labels| !labels.is_empty()),
            annotations: meta.annotations.clone().filter(|annotations| !annotations.is_empty()),
            owners: meta.owner_references.iter().flatten().map(|owner| owner.uid.clone()).collect(),
        }
    }
}

/// Whether `live` holds everything that was `sent`. The server's defaults and other managers' fields do not count; an
/// item more or less in a list does, and costs at most one needless apply.
pub(super) fn holds(live: &Map<String, Value>, sent: &Map<String, Value>) -> bool {
    sent.iter().all(|(name, sent)| match live.get(name) {
        Some(live) => value_holds(live, sent),
        // The server leaves out what means the same as nothing, such as `readOnly: false`.
        None => is_nothing(sent),
    })
}

fn is_nothing(sent: &Value) -> bool {
    match sent {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Number(_) | Value::Bool(true) => false,
    }
}

fn value_holds(live: &Value, sent: &Value) -> bool {
    match (live, sent) {
        (Value::Object(live), Value::Object(sent)) => holds(live, sent),
        (Value::Array(live), Value::Array(sent)) => {
            live.len() == sent.len() && live.iter().zip(sent).all(|(live, sent)| value_holds(live, sent))
        }
        _ => live == sent,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(live: Value, sent: Value) -> bool {
        value_holds(&live, &sent)
    }

    #[test]
    fn defaults_and_foreign_fields_are_no_drift() {
        let live = json!({"data": {"ours": "1", "theirs": "2"}, "list": [{"name": "a", "default": true}]});
        assert!(check(live, json!({"data": {"ours": "1"}, "list": [{"name": "a"}]})));
    }

    #[test]
    fn what_means_nothing_may_be_left_out() {
        let sent = json!({"claim": {"name": "a", "readOnly": false, "labels": {}, "args": [], "class": ""}});
        assert!(check(json!({"claim": {"name": "a"}}), sent.clone()));
        assert!(!check(json!({"claim": {"name": "a", "readOnly": true}}), sent));
        assert!(!check(json!({}), json!({"replicas": 0})), "a number that is missing has a default");
    }

    #[test]
    fn a_changed_missing_or_added_item_is_drift() {
        assert!(!check(json!({"data": {"ours": "changed"}}), json!({"data": {"ours": "1"}})));
        assert!(!check(json!({"data": {}}), json!({"data": {"ours": "1"}})));
        assert!(!check(json!({"args": ["a", "b"]}), json!({"args": ["b", "a"]})));
        assert!(!check(json!({"args": ["a", "b"]}), json!({"args": ["a"]})));
    }

    #[test]
    fn status_moves_the_signal_only_where_there_is_no_generation() {
        let meta = |generation, version: &str| ObjectMeta {
            generation,
            resource_version: Some(version.into()),
            ..ObjectMeta::default()
        };
        assert_eq!(Signal::of(&meta(Some(1), "5")), Signal::of(&meta(Some(1), "6")));
        assert_ne!(Signal::of(&meta(None, "5")), Signal::of(&meta(None, "6")));
    }
}
