//! The PodDisruptionBudget of a set: no pod with the label that guards it is evicted.

use engine::apply::DesiredObject;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::Keys;

/// More pods than there can be.
///
/// Not `maxUnavailable: 0`: the disruption controller would count from the set's `scale`. Where `replicas` was just lowered and
/// pods wait for their jobs, it would find more pods than it expects, and let the surplus go, jobs and all.
const ALL: i32 = i32::MAX;

/// The budget of a set.
pub(super) fn desired(
    namespace: &str,
    set: &str,
    keys: &Keys,
    mut selector: LabelSelector,
) -> Result<DesiredObject, serde_json::Error> {
    selector.match_labels.get_or_insert_default().insert(keys.protect.into(), "true".into());
    DesiredObject::new(&PodDisruptionBudget {
        metadata: ObjectMeta {
            namespace: Some(namespace.into()),
            name: Some(format!("{set}{}", keys.budget_suffix)),
            ..ObjectMeta::default()
        },
        spec: Some(PodDisruptionBudgetSpec {
            min_available: Some(IntOrString::Int(ALL)),
            selector: Some(selector),
            ..PodDisruptionBudgetSpec::default()
        }),
        status: None,
    })
}
