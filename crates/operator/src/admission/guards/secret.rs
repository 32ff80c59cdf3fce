//! Secrets that the user wants to be protected: nobody but the operator changes their content, and they stay as long as their
//! cluster does.

use api::nebius::SlurmCluster;
use engine::Key;
use engine::admission::{Decision, Request};
use engine::error::chain;
use engine::view::MetaView;
use kube::Client;
use kube::core::admission::Operation;
use render::labels;
use serde_json::Value;

/// Answers a request about a protected Secret.
pub async fn decide(client: &Client, request: &Request) -> Decision {
    let question = match question(request) {
        Ok(question) => question,
        Err(decision) => return decision,
    };
    let cluster: Result<Option<MetaView<SlurmCluster>>, _> =
        engine::objects::get(client, &question.cluster).await;
    match cluster {
        Ok(Some(cluster)) if cluster.metadata.deletion_timestamp.is_none() => {
            Decision::deny(question.refusal())
        }
        // With the cluster goes the protection; else its deletion would wait for the Secret, and the Secret for it.
        Ok(_) => Decision::allow(),
        Err(error) => Decision::deny(format!(
            "SlurmCluster {}, which the Secret belongs to, could not be looked up: {}; try again",
            question.cluster.name,
            chain(&error)
        ))
        .with_code(500),
    }
}

/// What is refused as long as this cluster lives.
#[derive(Debug, PartialEq, Eq)]
struct Question {
    secret: String,
    cluster: Key,
    what: What,
}

#[derive(Debug, PartialEq, Eq)]
enum What {
    Deletion,
    /// Of this part.
    Change(&'static str),
}

impl Question {
    fn refusal(&self) -> String {
        let (secret, cluster) = (&self.secret, &self.cluster.name);
        match self.what {
            What::Deletion => format!(
                "Secret {secret} is protected while SlurmCluster {cluster} exists, which needs it; delete the cluster first"
            ),
            What::Change(part) => format!(
                "{part} of Secret {secret} is protected while SlurmCluster {cluster} exists; for new content set its \
                 annotation {} to the date of today",
                labels::ROTATE
            ),
        }
    }
}

/// What a request asks for, as far as a cluster could be in the way; else the answer.
fn question(request: &Request) -> Result<Question, Decision> {
    let value = |object: Option<&_>| object.and_then(|object| serde_json::to_value(object).ok());
    let new: Option<Value> = value(request.object.as_ref());
    let old: Option<Value> = value(request.old_object.as_ref()).filter(is_protected);
    let what = match (&request.operation, &old, &new) {
        (Operation::Delete, Some(_), _) => What::Deletion,
        (Operation::Update, Some(old), Some(new)) => match changed(old, new) {
            Some(part) => What::Change(part),
            None => return Err(Decision::allow()),
        },
        // Made, or protected from now on.
        (Operation::Create | Operation::Update, None, Some(new)) if is_protected(new) => {
            return Err(if cluster_of(new).is_some() {
                Decision::allow()
            } else {
                let (annotation, label) = (labels::CLUSTER, labels::PROTECTED);
                Decision::deny(format!(
                    "metadata.annotations[{annotation}]: is missing; a Secret with the label {label} names the \
                     SlurmCluster here that it belongs to"
                ))
                .with_code(422)
            });
        }
        _ => return Err(Decision::allow()),
    };
    let old = old.unwrap_or_default();
    let name = cluster_of(&old).ok_or_else(Decision::allow)?;
    let namespace = request.namespace.as_deref().unwrap_or_default();
    let secret = old["metadata"]["name"].as_str().unwrap_or(&request.name).to_string();
    Ok(Question { secret, cluster: Key::new(namespace, name), what })
}

fn is_protected(secret: &Value) -> bool {
    secret["metadata"]["labels"][labels::PROTECTED] == "true"
}

fn cluster_of(secret: &Value) -> Option<&str> {
    secret["metadata"]["annotations"][labels::CLUSTER].as_str().filter(|name| !name.is_empty())
}

/// The first part that must not change and does. Other labels and annotations are free, among them the one that asks for
/// new content.
fn changed(old: &Value, new: &Value) -> Option<&'static str> {
    let none = |value: &Value| value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty);
    let differs = |part: &str| old[part] != new[part] && !(none(&old[part]) && none(&new[part]));
    if differs("data") {
        Some("the content")
    } else if differs("type") || differs("immutable") {
        Some("the type")
    } else if !is_protected(new) {
        Some("the label slurm.nebius.ai/webhook")
    } else if cluster_of(old) != cluster_of(new) {
        Some("the annotation slurm.nebius.ai/cluster")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn secret() -> Value {
        json!({
            "apiVersion": "v1", "kind": "Secret", "type": "Opaque", "data": { "password": "eA==" },
            "metadata": {
                "name": "s", "namespace": "n",
                "labels": { labels::PROTECTED: "true" }, "annotations": { labels::CLUSTER: "c" },
            },
        })
    }

    fn asked(operation: &str, new: Option<&Value>, old: Option<&Value>) -> Result<Question, Decision> {
        let request: Request = serde_json::from_value(json!({
            "uid": "u", "operation": operation, "userInfo": {}, "name": "s", "namespace": "n",
            "kind": { "group": "", "version": "v1", "kind": "Secret" },
            "resource": { "group": "", "version": "v1", "resource": "secrets" },
            "object": new, "oldObject": old,
        }))
        .unwrap();
        question(&request)
    }

    fn updated(change: impl FnOnce(&mut Value)) -> Result<Question, Decision> {
        let (old, mut new) = (secret(), secret());
        change(&mut new);
        asked("UPDATE", Some(&new), Some(&old))
    }

    #[test]
    fn a_deletion_asks_for_the_cluster() {
        let question = asked("DELETE", None, Some(&secret())).unwrap();
        assert_eq!(question.cluster, Key::new("n", "c"));
        assert!(question.refusal().contains("delete the cluster first"), "{}", question.refusal());
    }

    #[test]
    fn content_label_and_cluster_are_protected() {
        for (change, part) in [
            (json!({ "data": { "password": "eQ==" } }), "the content of Secret s"),
            (json!({ "type": "other" }), "the type of"),
            (json!({ "metadata": { "labels": {} } }), "the label slurm.nebius.ai/webhook of"),
        ] {
            let question = updated(|new| {
                for (key, value) in change.as_object().unwrap() {
                    new[key] = value.clone();
                }
            });
            assert!(question.as_ref().unwrap().refusal().starts_with(part), "{question:?}");
        }
        let moved = updated(|new| new["metadata"]["annotations"][labels::CLUSTER] = "d".into());
        assert!(moved.unwrap().refusal().starts_with("the annotation slurm.nebius.ai/cluster"));
    }

    #[test]
    fn anybody_may_ask_for_new_content_by_the_annotation() {
        let asks = updated(|new| new["metadata"]["annotations"][labels::ROTATE] = "2026-11-16".into());
        assert_eq!(asks, Err(Decision::allow()));
    }

    #[test]
    fn a_protected_secret_names_its_cluster() {
        assert_eq!(asked("CREATE", Some(&secret()), None), Err(Decision::allow()));
        let mut nobody = secret();
        nobody["metadata"]["annotations"] = Value::Null;
        for (operation, old) in [("CREATE", None), ("UPDATE", Some(json!({ "metadata": { "name": "s" } })))] {
            let refused = asked(operation, Some(&nobody), old.as_ref()).unwrap_err();
            assert_ne!(refused, Decision::allow(), "{operation}");
        }
        // One that came about without, nobody can judge.
        assert_eq!(asked("DELETE", None, Some(&nobody)), Err(Decision::allow()));
    }

    #[test]
    fn other_secrets_are_not_ours() {
        let other = json!({ "metadata": { "name": "s" }, "data": { "a": "eA==" } });
        assert_eq!(asked("DELETE", None, Some(&other)), Err(Decision::allow()));
        assert_eq!(asked("UPDATE", Some(&other), Some(&other)), Err(Decision::allow()));
    }
}
