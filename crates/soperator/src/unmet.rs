//! Conditions that tell that something is not as it should be.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use nodeset::condition::WAITING_FOR_JOBS;

/// Whether the condition tells of something to wait for. Most are good when they are True; this one is good when it is not.
pub(crate) fn is_unmet(condition: &Condition) -> bool {
    (condition.status == "True") == (condition.type_ == WAITING_FOR_JOBS)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn conditions_are_good_when_true_but_for_the_one_about_waiting() {
        let condition = |type_: &str, status: &str| -> Condition {
            serde_json::from_value(json!({
                "type": type_, "status": status, "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
            }))
            .unwrap()
        };
        assert!(is_unmet(&condition("PodsReady", "False")));
        assert!(is_unmet(&condition("PodsReady", "Unknown")));
        assert!(!is_unmet(&condition("PodsReady", "True")));
        assert!(is_unmet(&condition("WaitingForJobs", "True")));
        assert!(!is_unmet(&condition("WaitingForJobs", "False")));
    }
}
