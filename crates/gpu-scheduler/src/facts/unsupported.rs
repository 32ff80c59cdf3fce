//! What a pod may ask for that this scheduler cannot do. It is refused, never ignored.

use serde::Deserialize;

use super::wire::{PodSpec, WireSelector};

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct WireAffinity {
    node_affinity: WireNodeAffinity,
    pod_affinity: WirePodAffinity,
    pod_anti_affinity: WirePodAffinity,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireNodeAffinity {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    required: Option<WireSelector>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WirePodAffinity {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    required: Vec<serde::de::IgnoredAny>,
}

impl WireAffinity {
    pub(super) fn into_node_selector(self) -> Option<WireSelector> {
        self.node_affinity.required
    }
}

/// The fields of a pod's spec that this scheduler cannot do justice to. What is only preferred is no such field: the map
/// names one node, and there is nothing to prefer it to.
pub fn unsupported(spec: &PodSpec) -> Vec<&'static str> {
    let spread = |mode: &str| mode != "ScheduleAnyway";
    [
        (
            !spec.affinity.pod_affinity.required.is_empty(),
            "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution",
        ),
        (
            !spec.affinity.pod_anti_affinity.required.is_empty(),
            "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution",
        ),
        (
            spec.topology_spread_constraints.iter().any(|one| spread(&one.when_unsatisfiable)),
            "spec.topologySpreadConstraints with whenUnsatisfiable: DoNotSchedule",
        ),
        (!spec.resource_claims.is_empty(), "spec.resourceClaims"),
        (spec.scheduling_group.is_some(), "spec.schedulingGroup"),
        (spec.workload_ref.is_some(), "spec.workloadRef"),
    ]
    .into_iter()
    .filter_map(|(asked, field)| asked.then_some(field))
    .collect()
}
