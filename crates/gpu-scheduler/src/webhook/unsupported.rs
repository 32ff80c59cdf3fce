//! Constraints that the scheduler does not know. They are refused, never ignored.

use serde_json::Value;

use super::problem::Problems;
use super::shape::Shape;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
/// What could be done about all of them.
const WAY_OUT: &str = "the map names the node; remove it, or use another scheduler for this pod";

/// Refuses what must hold and cannot be looked after; warns of wishes that have no effect.
pub(super) fn check(shape: &Shape<'_>, problems: &mut Problems) {
    let some = |value: &Value| value.as_array().is_some_and(|all| !all.is_empty());
    let affinity = &shape.spec["affinity"];
    for kind in ["podAffinity", "podAntiAffinity"] {
        if some(&affinity[kind][REQUIRED]) {
            let path = shape.spec_path(&format!("affinity.{kind}.{REQUIRED}"));
            problems
                .invalid(path, format!("the GPU scheduler does not look at other pods' labels; {WAY_OUT}"));
        }
    }
    for kind in ["nodeAffinity", "podAffinity", "podAntiAffinity"] {
        if some(&affinity[kind][PREFERRED]) {
            let path = shape.spec_path(&format!("affinity.{kind}.{PREFERRED}"));
            problems.warn(path, "has no effect: the map names the node");
        }
    }
    for (place, constraint) in
        shape.spec["topologySpreadConstraints"].as_array().into_iter().flatten().enumerate()
    {
        let path = shape.spec_path(&format!("topologySpreadConstraints[{place}]"));
        if constraint["whenUnsatisfiable"] == "ScheduleAnyway" {
            problems.warn(path, "has no effect: the map names the node");
        } else {
            problems.invalid(path, format!("the GPU scheduler does not spread pods; {WAY_OUT}"));
        }
    }
    if some(&shape.spec["resourceClaims"]) {
        let path = shape.spec_path("resourceClaims");
        problems.invalid(path, format!("the GPU scheduler does not allocate resource claims; {WAY_OUT}"));
    }
    for field in ["schedulingGroup", "workloadRef"] {
        if !shape.spec[field].is_null() {
            let advice =
                "set the annotation gpu-scheduling-gang: \"true\" to place all pods of a map or none";
            problems.invalid(
                shape.spec_path(field),
                format!("the GPU scheduler does not know pod groups; {advice}"),
            );
        }
    }
}
