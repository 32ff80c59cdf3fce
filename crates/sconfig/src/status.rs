//! The status of a JailedConfig: a fold over what was done. No I/O, and the clock is passed in.

use std::collections::BTreeSet;

use api::nebius::jailed_config_condition::{FILES_WRITTEN, UPDATE_ACTIONS_COMPLETED};
use api::nebius::{JailedConfig, JailedConfigStatus};
use engine::condition;
use jiff::Timestamp;
use kube::Resource as _;

/// What a condition tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// True or False.
    pub status: bool,
    /// One word.
    pub reason: &'static str,
    /// A sentence.
    pub message: String,
}

impl Told {
    /// It is so.
    pub fn yes(reason: &'static str) -> Self {
        Self { status: true, reason, message: String::new() }
    }

    /// It is not so, and why.
    pub fn no(reason: &'static str, message: impl Into<String>) -> Self {
        Self { status: false, reason, message: message.into() }
    }
}

/// The new status. `files` are the paths that are there because of the object, or are about to be.
pub fn fold(
    config: &JailedConfig,
    before: Option<&JailedConfigStatus>,
    (written, completed): (&Told, &Told),
    files: &BTreeSet<String>,
    now: Timestamp,
) -> JailedConfigStatus {
    let mut conditions = before.and_then(|status| status.conditions.clone()).unwrap_or_default();
    // The next status takes away what was said of an object that could not be read.
    conditions.retain(|known| known.type_ == FILES_WRITTEN || known.type_ == UPDATE_ACTIONS_COMPLETED);
    for (type_, told) in [(FILES_WRITTEN, written), (UPDATE_ACTIONS_COMPLETED, completed)] {
        let generation = config.meta().generation;
        condition::set(&mut conditions, type_, told.status, told.reason, &told.message, generation, now);
    }
    let files = (!files.is_empty()).then(|| files.iter().cloned().collect());
    JailedConfigStatus { conditions: Some(conditions), files }
}

/// Whether the status says that all is done for the spec as it is.
pub fn is_done(config: &JailedConfig) -> bool {
    let conditions = config.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let done = conditions.filter(|known| {
        known.status == "True"
            && known.observed_generation == config.meta().generation
            && (known.type_ == FILES_WRITTEN || known.type_ == UPDATE_ACTIONS_COMPLETED)
    });
    done.count() == 2
}

/// Whether the status already says of the spec as it is that its files may not be there.
pub fn is_unsure(config: &JailedConfig) -> bool {
    let mut conditions = config.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.any(|known| known.type_ == FILES_WRITTEN && known.status == "False")
}

/// The paths that the status says are there because of the object.
pub fn files_of(config: &JailedConfig) -> BTreeSet<String> {
    config.status.iter().flat_map(|status| status.files.iter().flatten()).cloned().collect()
}

#[cfg(test)]
mod tests {
    use api::nebius::jailed_config_condition::{REFRESH, SUCCESS};
    use serde_json::json;

    use super::*;

    #[test]
    fn all_is_done_when_both_conditions_are_true_for_this_generation() {
        let mut config: JailedConfig = serde_json::from_value(json!({
            "apiVersion": "slurm.nebius.ai/v1alpha1", "kind": "JailedConfig",
            "metadata": { "name": "a", "generation": 2 }, "spec": { "configMap": { "name": "m" } },
        }))
        .unwrap();
        assert!(!is_done(&config));
        let at = |second| Timestamp::from_second(second).unwrap();
        let files: BTreeSet<String> = ["/a".to_owned()].into();
        let (yes, no) = (Told::yes(SUCCESS), Told::no(REFRESH, "waits"));
        config.status = Some(fold(&config, None, (&yes, &no), &files, at(1)));
        assert!(!is_done(&config) && !is_unsure(&config));
        config.status = Some(fold(&config, config.status.as_ref(), (&no, &no), &files, at(2)));
        assert!(is_unsure(&config));
        config.status = Some(fold(&config, config.status.as_ref(), (&yes, &yes), &files, at(2)));
        assert!(is_done(&config));
        assert_eq!(files_of(&config), files);
        let again = fold(&config, config.status.as_ref(), (&yes, &yes), &files, at(3));
        assert_eq!(Some(again), config.status, "nothing changes with time");
        config.metadata.generation = Some(3);
        assert!(!is_done(&config));
    }
}
