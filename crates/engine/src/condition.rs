//! Conditions: the part of a status that says in words how things stand.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// Sets the condition `type_` in `conditions`. The time of the last transition stays unless the status changes; the list
/// keeps its order.
pub fn set(
    conditions: &mut Vec<Condition>,
    type_: &str,
    status: bool,
    reason: &str,
    message: &str,
    generation: Option<i64>,
    now: Timestamp,
) {
    let status = if status { "True" } else { "False" };
    let before = conditions.iter().position(|condition| condition.type_ == type_);
    let since = match before.map(|index| &conditions[index]) {
        Some(before) if before.status == status => before.last_transition_time.clone(),
        _ => Time(now),
    };
    let condition = Condition {
        type_: type_.into(),
        status: status.into(),
        reason: reason.into(),
        message: message.into(),
        observed_generation: generation,
        last_transition_time: since,
    };
    match before {
        Some(index) => conditions[index] = condition,
        None => conditions.push(condition),
    }
}

/// Whether the condition `type_` is there and True.
pub fn is_true(conditions: &[Condition], type_: &str) -> bool {
    conditions.iter().any(|condition| condition.type_ == type_ && condition.status == "True")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_transition_time_moves_only_with_the_status() {
        let (early, late): (Timestamp, Timestamp) =
            ("2026-01-01T00:00:00Z".parse().unwrap(), "2026-01-02T00:00:00Z".parse().unwrap());
        let mut conditions = Vec::new();
        set(&mut conditions, "Ready", false, "Starting", "", Some(1), early);
        set(&mut conditions, "Ready", false, "Waiting", "for pods", Some(2), late);
        assert_eq!(conditions[0].last_transition_time.0, early);
        assert_eq!((conditions[0].reason.as_str(), conditions[0].observed_generation), ("Waiting", Some(2)));
        set(&mut conditions, "Ready", true, "Done", "", Some(2), late);
        assert_eq!(conditions[0].last_transition_time.0, late);
        assert!(is_true(&conditions, "Ready") && !is_true(&conditions, "Other"));
        assert_eq!(conditions.len(), 1);
    }
}
