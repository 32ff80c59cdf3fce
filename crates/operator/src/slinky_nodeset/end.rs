//! The end of a set whose Cluster is gone, and whose Slurm nobody can ask any more.
//!
//! A new process of ours has no link to that Slurm: Cluster and token are gone. Since when that is so stands in a condition, so
//! that no restart shortens or loses the wait.

use std::collections::HashSet;
use std::time::Duration;

use api::slinky::{NodeSet, NodeSetStatus};
use engine::Key;
use engine::events::EventType;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use parking_lot::Mutex;

use super::spec;
use crate::context::Context;
use crate::workers::WITHOUT_SLURM;

/// The type of the condition, and the reason of the event.
const CLUSTER_GONE: &str = "ClusterGone";

fn shown(set: &NodeSet) -> Option<&Condition> {
    let conditions = set.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == CLUSTER_GONE && condition.status == "True")
}

/// How long after its deletion a set without a deadline lets its pods go, if nobody can be asked: the time begins when that
/// is known, not with the deletion, because until then Slurm was asked and jobs of any length were waited for.
pub fn without_slurm(set: &NodeSet, now: Timestamp) -> Duration {
    let Some(asked) = &set.metadata.deletion_timestamp else { return WITHOUT_SLURM };
    let since = shown(set).map_or(now, |condition| condition.last_transition_time.0);
    let before = u64::try_from(since.as_second().saturating_sub(asked.0.as_second())).unwrap_or(0);
    WITHOUT_SLURM + Duration::from_secs(before)
}

/// Puts into the status that pods wait although nobody can be asked, and until when; or takes it out.
pub fn show(status: &mut NodeSetStatus, set: &NodeSet, waits: bool, now: Timestamp) {
    let mut conditions = status.conditions.take().unwrap_or_default();
    match until(set, now).filter(|_| waits) {
        Some(until) => {
            let message = format!(
                "the Cluster is gone, and its Slurm cannot be asked; a worker without our agent goes at {until}, whatever runs \
                 on it; the annotation slinky.slurm.net/force-delete: \"true\" lets it go now"
            );
            let generation = set.metadata.generation;
            engine::condition::set(
                &mut conditions,
                CLUSTER_GONE,
                true,
                "NobodyToAsk",
                &message,
                generation,
                now,
            );
        }
        None => conditions.retain(|condition| condition.type_ != CLUSTER_GONE),
    }
    status.conditions = (!conditions.is_empty()).then_some(conditions);
}

/// When pods go that nobody can tell of.
fn until(set: &NodeSet, now: Timestamp) -> Option<Timestamp> {
    let asked = set.metadata.deletion_timestamp.as_ref()?.0.as_second();
    let limit = spec::drain_on_delete(&set.spec.care, without_slurm(set, now)).without_slurm?;
    Timestamp::from_second(asked.saturating_add(i64::try_from(limit.as_secs()).ok()?)).ok()
}

/// The sets of which users were told by an event.
#[derive(Debug, Default)]
pub struct Told(Mutex<HashSet<Key>>);

impl Told {
    /// Tells once what the condition says.
    pub fn tell(&self, context: &Context, key: &Key, set: &NodeSet) {
        match shown(set) {
            Some(condition) if self.0.lock().insert(key.clone()) => {
                context.tell(set, EventType::Warning, CLUSTER_GONE, &condition.message);
            }
            Some(_) => {}
            None => self.forget(key),
        }
    }

    /// The set is gone, or it is not so any more.
    pub fn forget(&self, key: &Key) {
        self.0.lock().remove(key);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::set;
    use super::*;

    const HOUR: i64 = 3600;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// Deleted at the second 0.
    fn deleted() -> NodeSet {
        let mut set = set(json!({}));
        set.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(0)));
        set
    }

    /// The set as it is after a look that shows how it stands.
    fn look(set: &mut NodeSet, waits: bool, now: i64) {
        let mut status = set.status.clone().unwrap_or_default();
        show(&mut status, set, waits, at(now));
        set.status = Some(status);
    }

    #[test]
    fn the_day_begins_when_nobody_can_be_asked_and_a_restart_loses_nothing() {
        let mut set = deleted();
        let hours = |set: &NodeSet, now: i64| without_slurm(set, at(now)).as_secs() / HOUR as u64;
        // Slurm was asked for thirty hours. Then the process ended, and the next one cannot ask.
        assert_eq!(hours(&set, 30 * HOUR), 54);
        look(&mut set, true, 30 * HOUR);
        for now in [31, 53, 54, 100] {
            assert_eq!(hours(&set, now * HOUR), 54, "the time stands in the status");
        }
        let message = shown(&set).unwrap().message.clone();
        assert!(message.contains(&at(54 * HOUR).to_string()), "{message}");
        let before = set.status.clone();
        look(&mut set, true, 40 * HOUR);
        assert_eq!(set.status, before, "nothing is written again");
        // Slurm answers once more, and is gone again.
        look(&mut set, false, 41 * HOUR);
        assert_eq!((shown(&set), hours(&set, 50 * HOUR)), (None, 74));
    }

    #[test]
    fn a_deadline_of_the_user_counts_from_the_deletion() {
        let mut set = deleted();
        set.spec.care.drain_on_delete = serde_json::from_value(json!({ "deadline": "2h" })).unwrap();
        assert_eq!(until(&set, at(30 * HOUR)), Some(at(2 * HOUR)));
        set.metadata.deletion_timestamp = None;
        assert_eq!(until(&set, at(30 * HOUR)), None);
    }
}
