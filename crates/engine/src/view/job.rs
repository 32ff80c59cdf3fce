//! What controllers read of a Job.

use std::borrow::Cow;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::Deserialize;

use super::{ConditionView, light_meta};

/// A Job as caches hold it.
#[derive(Clone, Debug, Deserialize)]
pub struct JobView {
    /// Name, labels, owners and the like.
    #[serde(deserialize_with = "light_meta")]
    pub metadata: ObjectMeta,
    /// How it is.
    #[serde(default)]
    pub status: JobStatusView,
}

/// How a Job is.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct JobStatusView {
    /// Pods that ended well.
    pub succeeded: i32,
    /// Pods that ended badly.
    pub failed: i32,
    /// Its conditions.
    pub conditions: Vec<ConditionView>,
}

impl JobView {
    /// Whether its work is done.
    pub fn is_done(&self) -> bool {
        self.status.succeeded > 0 || self.has("Complete").is_some()
    }

    /// Why it was given up; none if it was not.
    pub fn given_up(&self) -> Option<&ConditionView> {
        self.has("Failed")
    }

    fn has(&self, type_: &str) -> Option<&ConditionView> {
        self.status
            .conditions
            .iter()
            .find(|condition| &*condition.type_ == type_ && &*condition.status == "True")
    }
}

impl Resource for JobView {
    type DynamicType = ();
    type Scope = <Job as Resource>::Scope;

    fn kind((): &()) -> Cow<'_, str> {
        "Job".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "batch".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "jobs".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_job_is_done_or_given_up_or_neither() {
        let job = |status: serde_json::Value| -> JobView {
            serde_json::from_value(json!({ "metadata": { "name": "j" }, "status": status })).unwrap()
        };
        assert!(job(json!({ "succeeded": 1 })).is_done());
        let failed = json!({ "failed": 1, "conditions": [{ "type": "Failed", "status": "True", "reason": "PodFailurePolicy" }] });
        assert!(!job(failed.clone()).is_done());
        assert_eq!(job(failed).given_up().unwrap().reason.as_deref(), Some("PodFailurePolicy"));
        assert!(job(json!({ "failed": 2 })).given_up().is_none(), "it is tried again");
    }
}
