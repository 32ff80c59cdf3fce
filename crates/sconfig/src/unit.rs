//! What is brought about together: one JailedConfig, or all with the same aggregation label.

use api::nebius::JailedConfig;
use engine::Key;
use engine::view::Guarded;
use kube::Resource as _;

/// No name of an object begins like this.
const GROUP: char = '=';

/// The key under which a JailedConfig is worked on: its own, or that of its group.
pub fn unit_of(config: &Guarded<JailedConfig>) -> Key {
    let key = Key::of(config);
    match config.ok().and_then(JailedConfig::aggregation) {
        Some(group) => Key::new(&key.namespace, &format!("{GROUP}{group}")),
        None => key,
    }
}

/// Whether what two versions of a JailedConfig want of the jail may differ: more than its status has changed.
pub fn is_material(before: Option<&Guarded<JailedConfig>>, after: Option<&Guarded<JailedConfig>>) -> bool {
    let (Some(before), Some(after)) = (before, after) else { return true };
    let (before, after) = (before.meta(), after.meta());
    before.generation != after.generation
        || before.uid != after.uid
        || before.labels != after.labels
        || before.annotations != after.annotations
        || before.deletion_timestamp != after.deletion_timestamp
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn config(name: &str, labels: serde_json::Value) -> Guarded<JailedConfig> {
        serde_json::from_value(json!({
            "apiVersion": "slurm.nebius.ai/v1alpha1", "kind": "JailedConfig",
            "metadata": { "name": name, "namespace": "ns", "labels": labels },
            "spec": { "configMap": { "name": "m" } },
        }))
        .unwrap()
    }

    #[test]
    fn those_with_the_same_label_are_one_and_no_object_can_be_called_like_a_group() {
        let label = json!({ api::nebius::AGGREGATION_LABEL: "common" });
        let (one, two) = (config("a", label.clone()), config("b", label));
        assert_eq!(unit_of(&one), unit_of(&two));
        assert_eq!(unit_of(&config("common", json!({}))), Key::new("ns", "common"));
        assert_ne!(unit_of(&one), Key::new("ns", "common"));
    }

    #[test]
    fn a_change_of_the_status_alone_is_nobodys_business() {
        let (one, mut two) = (config("a", json!({})), config("a", json!({})));
        two.meta_mut().resource_version = Some("2".into());
        assert!(!is_material(Some(&one), Some(&two)));
        two.meta_mut().generation = Some(2);
        assert!(is_material(Some(&one), Some(&two)));
        assert!(is_material(Some(&one), None));
    }
}
