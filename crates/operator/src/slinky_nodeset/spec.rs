//! What a Slinky NodeSet asks for, in the planner's words.

use std::time::Duration;

use api::common::{JobCare, OnDeadline, RetentionPolicy};
use api::slinky::{NodeSet, NodeSetSpec, UpdateStrategyType};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt as _;
use nodeset::{Amount, DrainOnDelete, Retention, Strategy};

/// How many pods are made by one plan, as the original does.
pub const BURST: usize = 250;
/// How long a started worker may take to register with Slurm.
pub const REGISTRATION_GRACE: Duration = Duration::from_secs(120);

/// The text by which the template names hosts, and with them Slurm nodes: `<hostname><ordinal>`.
pub fn host_prefix(spec: &NodeSetSpec) -> Option<&str> {
    spec.template.spec.as_ref()?.hostname.as_deref().filter(|prefix| !prefix.is_empty())
}

/// How many digits an ordinal has at least.
pub fn padding(spec: &NodeSetSpec) -> usize {
    spec.care.ordinal_padding.and_then(|padding| usize::try_from(padding).ok()).unwrap_or(0)
}

/// How many pods there should be.
pub fn replicas(spec: &NodeSetSpec) -> u32 {
    u32::try_from(spec.replicas).unwrap_or(0)
}

/// How pods come to a new revision.
pub const fn strategy(spec: &NodeSetSpec) -> Strategy {
    match spec.update_strategy.type_ {
        UpdateStrategyType::RollingUpdate => Strategy::RollingUpdate,
        UpdateStrategyType::OnDelete => Strategy::OnDelete,
        UpdateStrategyType::InPlaceIfPossible => Strategy::InPlaceIfPossible,
    }
}

/// How many pods an update may take away at a time: 1 if nothing is said, or nothing that can be read.
pub fn max_unavailable(spec: &NodeSetSpec) -> Amount {
    let rolling = spec.update_strategy.rolling_update.as_ref();
    match rolling.and_then(|rolling| rolling.max_unavailable.as_ref()) {
        None => Amount::Count(1),
        Some(IntOrString::Int(count)) => Amount::Count(u32::try_from(*count).unwrap_or(0)),
        Some(IntOrString::String(text)) => {
            let read = match text.strip_suffix('%') {
                Some(percent) => percent.parse().map(Amount::Percent),
                None => text.parse().map(Amount::Count),
            };
            read.unwrap_or(Amount::Count(1))
        }
    }
}

/// Pods with a lower ordinal keep their revision.
pub fn partition(spec: &NodeSetSpec) -> u32 {
    let partition = spec.update_strategy.rolling_update.as_ref().and_then(|rolling| rolling.partition);
    partition.and_then(|partition| u32::try_from(partition).ok()).unwrap_or(0)
}

/// How long a pod must be ready before it counts as available.
pub fn min_ready(spec: &NodeSetSpec) -> Duration {
    Duration::from_secs(spec.min_ready_seconds.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(0))
}

/// How many revisions that nobody uses are kept.
pub fn history_limit(spec: &NodeSetSpec) -> usize {
    usize::try_from(spec.revision_history_limit).unwrap_or(0)
}

/// What becomes of claims.
pub fn retention(spec: &NodeSetSpec) -> Retention {
    let policy = spec.persistent_volume_claim_retention_policy.unwrap_or_default();
    Retention {
        delete_with_set: policy.when_deleted == RetentionPolicy::Delete,
        delete_when_scaled: policy.when_scaled == RetentionPolicy::Delete,
    }
}

/// How the set ends. Its pods have no agent of ours, so the user's deadline also ends the wait for a Cluster that is gone, or else
/// this time does. A deadline that cannot be read is none: nobody's jobs end for a typing error.
pub fn drain_on_delete(care: &JobCare, without_slurm: Duration) -> DrainOnDelete {
    let asked = care.drain_on_delete.clone().unwrap_or_default();
    let deadline = asked.deadline.as_deref().and_then(|text| render::check::duration::go(text).ok());
    DrainOnDelete {
        enabled: asked.enabled,
        deadline,
        force: asked.on_deadline == OnDeadline::Force,
        without_slurm: Some(deadline.unwrap_or(without_slurm)),
    }
}

/// How often the name of a revision was taken already.
pub fn collisions(set: &NodeSet) -> u32 {
    let known = set.status.as_ref().and_then(|status| status.collision_count);
    known.and_then(|count| u32::try_from(count).ok()).unwrap_or(0)
}

/// The Cluster that the set belongs to.
pub fn cluster(set: &NodeSet) -> engine::Key {
    engine::Key::new(&set.namespace().unwrap_or_default(), &set.spec.cluster_name)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::tests::set;
    use super::*;

    #[test]
    fn a_short_set_gets_the_defaults() {
        let set = set(json!({}));
        let spec = &set.spec;
        assert_eq!((replicas(spec), padding(spec), host_prefix(spec)), (1, 0, None));
        assert_eq!((strategy(spec), max_unavailable(spec)), (Strategy::RollingUpdate, Amount::Count(1)));
        assert_eq!((partition(spec), history_limit(spec), min_ready(spec)), (0, 0, Duration::ZERO));
        assert_eq!(retention(spec), Retention::default());
        let day = Duration::from_secs(24 * 3600);
        let drain = DrainOnDelete { without_slurm: Some(day), ..DrainOnDelete::default() };
        assert_eq!(drain_on_delete(&spec.care, day), drain);
        assert_eq!((collisions(&set), cluster(&set)), (0, engine::Key::new("ns", "slurm")));
    }

    #[test]
    fn max_unavailable_is_a_number_or_a_percentage() {
        for (asked, read) in [
            (json!(3), Amount::Count(3)),
            (json!("3"), Amount::Count(3)),
            (json!("25%"), Amount::Percent(25)),
            (json!(0), Amount::Count(0)),
            (json!(-1), Amount::Count(0)),
            (json!("0%"), Amount::Percent(0)),
            (json!("all"), Amount::Count(1)),
            (Value::Null, Amount::Count(1)),
        ] {
            let set = set(json!({ "updateStrategy": { "rollingUpdate": { "maxUnavailable": asked } } }));
            assert_eq!(max_unavailable(&set.spec), read, "{asked}");
        }
    }

    #[test]
    fn what_the_user_says_about_the_end_of_the_set_is_kept() {
        let day = Duration::from_secs(24 * 3600);
        let drain = |asked: Value| drain_on_delete(&set(json!({ "drainOnDelete": asked })).spec.care, day);
        let hour = Some(Duration::from_secs(3600));
        let forced = DrainOnDelete { enabled: true, deadline: hour, force: true, without_slurm: hour };
        assert_eq!(drain(json!({ "deadline": "1h", "onDeadline": "force" })), forced);
        assert_eq!(drain(json!({ "deadline": "1h" })), DrainOnDelete { force: false, ..forced });
        assert!(!drain(json!({ "enabled": false })).enabled);
        let unread = drain(json!({ "deadline": "soon" }));
        assert_eq!((unread.deadline, unread.without_slurm), (None, Some(day)));
    }

    #[test]
    fn an_empty_host_name_is_none() {
        let named = |hostname: &str| {
            json!({ "template": {
                "metadata": { "labels": { "app": "slurmd" } },
                "spec": { "hostname": hostname, "containers": [] },
            } })
        };
        assert_eq!(host_prefix(&set(named("debug-")).spec), Some("debug-"));
        assert_eq!(host_prefix(&set(named("")).spec), None);
    }
}
