//! How the jail stands: what its Job and the Job's pods say. No I/O.

use std::sync::Arc;

use engine::view::{JobView, PodView, TerminatedView};
use kube::ResourceExt as _;

use super::explain::{Trouble, pod_trouble};
use super::parts::State;

/// What is told where a jail stays as it is although `populateJail.overwrite` is true.
const NOT_OVERWRITTEN: &str = "spec.populateJail.overwrite does not count for this Job: it does only when the Job is made while there are \
                               no login and no worker pods; to overwrite the jail, set spec.maintenance to \
                               downscaleAndOverwritePopulateJail";

/// The same for a Job that does not overwrite although `populateJail.overwrite` is true.
pub fn not_overwritten(state: State) -> State {
    match state {
        State::Ready => State::ReadyBut(NOT_OVERWRITTEN.into()),
        State::NotReady(trouble) => {
            State::NotReady(Trouble { message: format!("{}; {NOT_OVERWRITTEN}", trouble.message), ..trouble })
        }
        other => other,
    }
}

/// How the Job stands. `pods` are all that it has made, `waits` is what is known to be missing before a pod could start.
pub fn state(job: Option<&JobView>, pods: &[&Arc<PodView>], waits: Option<Trouble>) -> State {
    let Some(job) = job else {
        return State::NotReady(waits.unwrap_or_else(|| Trouble::waits("populate-jail: being made")));
    };
    if job.is_done() {
        return State::Ready;
    }
    let words = last_words(pods);
    if let Some(given_up) = job.given_up() {
        let why = words.or_else(|| given_up.message.as_deref().map(String::from));
        return State::NotReady(Trouble::missing(format!(
            "the jail could not be filled: {}; put it right, then run it again: kubectl delete job --namespace {} {}",
            why.as_deref().unwrap_or("no reason is given"),
            job.namespace().unwrap_or_default(),
            job.name_any(),
        )));
    }
    let trouble = waits.or_else(|| pods.iter().find_map(|pod| unfinished_trouble(pod)));
    State::NotReady(match (trouble, words) {
        (Some(trouble), _) => trouble,
        (None, Some(words)) => Trouble::waits(format!("the jail is being filled, again after: {words}")),
        (None, None) => Trouble::waits("the jail is being filled"),
    })
}

/// Why a pod that has not ended does not start; none if it tells nothing.
fn unfinished_trouble(pod: &PodView) -> Option<Trouble> {
    if has_ended(pod) { None } else { pod_trouble(pod) }
}

/// Whether a pod runs nothing any more.
pub fn has_ended(pod: &PodView) -> bool {
    matches!(pod.status.phase.as_deref(), Some("Failed" | "Succeeded"))
}

/// What the pod that ended badly last has said.
fn last_words(pods: &[&Arc<PodView>]) -> Option<String> {
    let mut ended: Vec<(&Arc<PodView>, &TerminatedView)> = pods
        .iter()
        .filter_map(|pod| {
            let ends =
                pod.status.container_statuses.iter().filter_map(|status| status.state.terminated.as_ref());
            Some((*pod, ends.into_iter().find(|end| end.exit_code != 0)?))
        })
        .collect();
    ended.sort_by_key(|(pod, end)| (end.started_at.clone(), pod.name_any()));
    let (pod, end) = ended.pop()?;
    let said = end.message.as_deref().map(str::trim).filter(|said| !said.is_empty());
    Some(said.map_or_else(
        || {
            let reason = end.reason.as_deref().unwrap_or("Error");
            format!("pod {} ended with exit code {} ({reason})", pod.name_any(), end.exit_code)
        },
        String::from,
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn job(status: Value) -> JobView {
        let metadata = json!({ "name": "c-populate-jail", "namespace": "slurm" });
        serde_json::from_value(json!({ "metadata": metadata, "status": status })).unwrap()
    }

    fn failed_pod(name: &str, started: &str, message: &str) -> Arc<PodView> {
        let end = json!({ "exitCode": 3, "message": message, "startedAt": started });
        Arc::new(
            serde_json::from_value(json!({
                "metadata": { "name": name },
                "status": {
                    "phase": "Failed",
                    "containerStatuses": [{ "name": "populate-jail", "state": { "terminated": end } }],
                },
            }))
            .unwrap(),
        )
    }

    fn told(state: State) -> (String, bool) {
        match state {
            State::NotReady(trouble) => (trouble.message, trouble.is_missing),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_job_that_was_given_up_tells_the_last_words_and_the_way_out() {
        let first = failed_pod("z", "2026-01-01T00:00:00Z", "the volume is full");
        let last = failed_pod("a", "2026-01-01T00:01:00Z", "the volume holds files of somebody else\n");
        let failed = job(json!({ "failed": 2, "conditions": [{ "type": "Failed", "status": "True" }] }));
        let (message, is_missing) = told(state(Some(&failed), &[&first, &last], None));
        assert!(is_missing, "somebody has to act");
        assert_eq!(
            message,
            "the jail could not be filled: the volume holds files of somebody else; put it right, then run it again: \
             kubectl delete job --namespace slurm c-populate-jail"
        );
    }

    #[test]
    fn a_job_that_is_tried_again_tells_why_and_one_that_runs_just_runs() {
        let pod = failed_pod("a", "2026-01-01T00:00:00Z", "");
        let (message, is_missing) = told(state(Some(&job(json!({ "failed": 1 }))), &[&pod], None));
        assert_eq!(message, "the jail is being filled, again after: pod a ended with exit code 3 (Error)");
        assert!(!is_missing);
        assert_eq!(told(state(Some(&job(json!({}))), &[], None)).0, "the jail is being filled");
        assert_eq!(state(Some(&job(json!({ "succeeded": 1 }))), &[&pod], None), State::Ready);
    }

    #[test]
    fn what_is_missing_before_a_pod_can_start_comes_first() {
        let claim = Trouble::missing("waiting for PVC jail-pvc: it does not exist");
        assert_eq!(told(state(None, &[], Some(claim.clone()))), (claim.message.clone(), true));
        assert_eq!(told(state(Some(&job(json!({}))), &[], Some(claim.clone()))).0, claim.message);
    }
}
