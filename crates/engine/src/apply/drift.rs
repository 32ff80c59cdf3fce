//! Whether an object still is what we sent. No I/O.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Map, Value};

/// What of an object's metadata moves when somebody changed what we may own. Its status does not move it, where the kind
/// has a generation. Only the hash is kept: there is one for every object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Signal(u64);

impl Signal {
    pub(super) fn of(meta: &ObjectMeta) -> Self {
        let version = meta.resource_version.as_deref().filter(|_| meta.generation.is_none());
        let labels = meta.labels.as_ref().filter(|labels| !labels.is_empty());
        let annotations = meta.annotations.as_ref().filter(|annotations| !annotations.is_empty());
        let owners = meta.owner_references.iter().flatten().map(|owner| &owner.uid);
        let mut hasher = DefaultHasher::new();
        (meta.uid.as_deref(), meta.generation, version, labels, annotations).hash(&mut hasher);
        owners.for_each(|owner| owner.hash(&mut hasher));
        Self(hasher.finish())
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
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
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

    #[test]
    fn each_part_that_we_may_own_moves_the_signal() {
        let words = |text: &str| Some([(text.to_owned(), text.to_owned())].into());
        let owner = OwnerReference { uid: "o".into(), ..OwnerReference::default() };
        let empty = ObjectMeta::default();
        let others = [
            ObjectMeta { uid: Some("u".into()), ..empty.clone() },
            ObjectMeta { generation: Some(1), ..empty.clone() },
            ObjectMeta { labels: words("a"), ..empty.clone() },
            ObjectMeta { annotations: words("a"), ..empty.clone() },
            ObjectMeta { owner_references: Some(vec![owner]), ..empty.clone() },
            empty.clone(),
        ];
        let signals: std::collections::HashSet<u64> = others.iter().map(|meta| Signal::of(meta).0).collect();
        assert_eq!(signals.len(), others.len());
        let no_labels = ObjectMeta { labels: Some([].into()), ..empty.clone() };
        assert_eq!(Signal::of(&no_labels), Signal::of(&empty), "the server leaves out what is empty");
    }
}
