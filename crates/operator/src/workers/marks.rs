//! What we write on pods: conditions of our own types, the label that guards them, and annotations.

use engine::Key;
use engine::view::PodView;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use nodeset::{CONDITION_PREFIX, MarkChanges, PodRef, UnixTime};
use serde_json::{Map, Value, json};

use super::execute::{Execution, Step};
use super::{Keys, WorkerSet};
use crate::error::Error;

/// The value of the annotation that says that a mark is ours.
const OURS: &str = crate::MANAGER;
/// The reason of our conditions.
const REASON: &str = "SlurmNodeState";

impl<S: WorkerSet> Execution<'_, S> {
    pub(super) async fn mark_pod(&self, pod: &PodRef, marks: &MarkChanges) -> Result<Step, Error> {
        let Some(seen) = self.seen.pod(&pod.name) else { return Ok(Step::Again) };
        let patch = patch(&seen.view, &pod.uid, marks, self.set.keys(), self.seen.now);
        let key = Key::new(&self.key.namespace, &pod.name);
        let written = engine::objects::patch_status::<Pod>(&self.context.client, &key, &patch).await;
        self.patched(
            written,
            || format!("pod {} could not be marked", pod.name),
            |version| self.set.pods().wrote(key.clone(), version, self.uid),
        )
    }
}

/// A strategic merge patch of `pods/status`: conditions are merged by their type, so those of others are not touched.
fn patch(pod: &PodView, uid: &str, marks: &MarkChanges, keys: &Keys, now: Timestamp) -> Value {
    let (mut labels, mut annotations) = (Map::new(), Map::new());
    if let Some(protected) = marks.protected {
        labels.insert(keys.protect.into(), protected.then_some("true").into());
    }
    if let Some(deadline) = marks.deadline {
        annotations.insert(keys.deadline.into(), deadline.and_then(text).into());
    }
    if let (Some(cordoned), Some(cordon)) = (marks.cordoned, &keys.cordon) {
        annotations.insert(cordon.cordoned.into(), cordoned.then_some("true").into());
        annotations.insert(cordon.ours.into(), cordoned.then_some(OURS).into());
    }
    let mut patch = json!({ "metadata": { "uid": uid } });
    if !labels.is_empty() {
        patch["metadata"]["labels"] = labels.into();
    }
    if !annotations.is_empty() {
        patch["metadata"]["annotations"] = annotations.into();
    }
    if let Some(wanted) = &marks.conditions {
        let known = |type_: &str| pod.condition(type_).is_some_and(|known| &*known.status == "True");
        let mut conditions: Vec<Value> = wanted
            .iter()
            .map(|(type_, message)| {
                let mut condition =
                    json!({ "type": type_, "status": "True", "reason": REASON, "message": message });
                if !known(type_) {
                    condition["lastTransitionTime"] = whole_seconds(now).into();
                }
                condition
            })
            .collect();
        let gone = pod.status.conditions.iter().map(|condition| &*condition.type_);
        let gone = gone.filter(|type_| type_.starts_with(CONDITION_PREFIX) && !wanted.contains_key(*type_));
        conditions.extend(gone.map(|type_| json!({ "$patch": "delete", "type": type_ })));
        patch["status"] = json!({ "conditions": conditions });
    }
    patch
}

fn text(time: UnixTime) -> Option<String> {
    Some(Timestamp::from_second(i64::try_from(time.0).ok()?).ok()?.to_string())
}

/// Kubernetes has no fractions of seconds here.
fn whole_seconds(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second()).unwrap_or(time).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: Keys = Keys {
        hash: "hash",
        protect: "protect",
        deadline: "deadline",
        in_place: "in-place",
        cordon: None,
        deletion_cost: None,
        cordon_reasons: &[],
        budget_suffix: "-workers",
    };

    #[test]
    fn only_conditions_of_ours_are_in_the_patch_and_the_time_of_those_that_stay_is_kept() {
        let pod: PodView = serde_json::from_value(json!({
            "metadata": { "name": "w-0" },
            "status": { "conditions": [
                { "type": "Ready", "status": "True" },
                { "type": "SlurmNodeStateIdle", "status": "True" },
                { "type": "SlurmNodeStateDrain", "status": "True", "message": "old" },
            ] },
        }))
        .unwrap();
        let conditions = [("SlurmNodeStateDrain", "new"), ("SlurmNodeStateDown", "")];
        let marks = MarkChanges {
            conditions: Some(conditions.iter().map(|(a, b)| ((*a).into(), (*b).into())).collect()),
            ..MarkChanges::default()
        };
        let now: Timestamp = "2026-01-01T00:00:00.5Z".parse().unwrap();
        let patch = patch(&pod, "u", &marks, &KEYS, now);
        assert_eq!(
            patch,
            json!({ "metadata": { "uid": "u" }, "status": { "conditions": [
                { "type": "SlurmNodeStateDown", "status": "True", "reason": REASON, "message": "",
                  "lastTransitionTime": "2026-01-01T00:00:00Z" },
                { "type": "SlurmNodeStateDrain", "status": "True", "reason": REASON, "message": "new" },
                { "$patch": "delete", "type": "SlurmNodeStateIdle" },
            ] } })
        );
    }

    #[test]
    fn what_is_taken_away_is_null_and_what_stays_is_not_there() {
        let pod: PodView = serde_json::from_value(json!({ "metadata": { "name": "w-0" } })).unwrap();
        let marks = MarkChanges { protected: Some(false), deadline: Some(None), ..MarkChanges::default() };
        let patch = patch(&pod, "u", &marks, &KEYS, Timestamp::UNIX_EPOCH);
        assert_eq!(
            patch,
            json!({ "metadata": {
                "uid": "u", "labels": { "protect": null }, "annotations": { "deadline": null },
            } })
        );
    }
}
