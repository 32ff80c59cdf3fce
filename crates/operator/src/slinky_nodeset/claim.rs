//! The claims of a worker, made from `spec.volumeClaimTemplates`.

use api::slinky::{NodeSet, VolumeClaimTemplate};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt as _;

/// The names of the templates.
pub fn template_names(set: &NodeSet) -> Vec<&str> {
    set.spec.volume_claim_templates.iter().flatten().filter_map(name_of).collect()
}

fn name_of(template: &VolumeClaimTemplate) -> Option<&str> {
    template.metadata.as_ref()?.name.as_deref()
}

/// The claim with this name, made from this template, without an owner; none if there is no such template.
pub fn claim(set: &NodeSet, name: &str, template: &str) -> Option<PersistentVolumeClaim> {
    let mut templates = set.spec.volume_claim_templates.iter().flatten();
    let template = templates.find(|known| name_of(known) == Some(template))?;
    let meta = template.metadata.clone().unwrap_or_default();
    let mut labels = meta.labels.unwrap_or_default();
    labels.extend(set.spec.selector.match_labels.clone().unwrap_or_default());
    Some(PersistentVolumeClaim {
        metadata: ObjectMeta {
            name: Some(name.into()),
            namespace: set.namespace(),
            labels: (!labels.is_empty()).then_some(labels),
            annotations: meta.annotations,
            ..ObjectMeta::default()
        },
        spec: template.spec.clone(),
        status: None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::set;
    use super::*;

    #[test]
    fn a_claim_has_the_labels_of_its_template_and_of_the_selector() {
        let set = set(json!({ "volumeClaimTemplates": [{
            "metadata": { "name": "spool", "labels": { "tier": "fast" }, "annotations": { "a": "b" } },
            "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
            "status": { "phase": "Bound" },
        }] }));
        assert_eq!(template_names(&set), ["spool"]);
        let claim = serde_json::to_value(claim(&set, "spool-w-0", "spool").unwrap()).unwrap();
        assert_eq!(
            claim["metadata"],
            json!({
                "name": "spool-w-0", "namespace": "ns",
                "labels": { "tier": "fast", "app": "slurmd" }, "annotations": { "a": "b" },
            })
        );
        assert_eq!(claim["spec"]["resources"]["requests"]["storage"], "1Gi");
        assert_eq!(claim["status"], serde_json::Value::Null);
    }

    #[test]
    fn a_template_that_is_not_there_makes_no_claim() {
        assert_eq!(claim(&set(json!({})), "spool-w-0", "spool"), None);
    }
}
