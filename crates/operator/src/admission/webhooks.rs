//! The checks as answers to the API server.

use engine::admission::{Decision, OnFailure, Request, Webhooks};
use render::check::problem::{Problem, Severity};
use serde_json::Value;

use super::{KINDS, Kind};

/// Problems that are told one by one; of more, only the number.
const MOST: usize = 20;

/// The paths of [`webhooks`], as the originals name them: one for each kind.
pub const PATHS: [&str; KINDS.len()] = {
    let mut paths = [""; KINDS.len()];
    let mut index = 0;
    while index < paths.len() {
        paths[index] = KINDS[index].path;
        index += 1;
    }
    paths
};

/// The webhooks of all kinds.
#[must_use]
pub fn webhooks() -> Webhooks {
    KINDS.iter().fold(Webhooks::new(), |webhooks, kind| {
        webhooks.on(kind.path, OnFailure::Deny, move |request| decide(kind, request))
    })
}

/// Refuses an object with all that is wrong with it.
///
/// What was wrong before a change stays possible, with a warning: an object from before this version must not become one
/// that nobody can scale, or delete for want of a finalizer's removal.
fn decide(kind: &Kind, request: &Request) -> Decision {
    let value = |object: Option<&_>| object.and_then(|object| serde_json::to_value(object).ok());
    // Deletes and connects have no object, and are not ours to judge.
    let Some(object) = value(request.object.as_ref()) else { return Decision::allow() };
    if !object["metadata"]["deletionTimestamp"].is_null() {
        return Decision::allow();
    }
    let before: Vec<Problem> =
        value(request.old_object.as_ref()).map(|old: Value| (kind.check)(&old)).unwrap_or_default();
    let (errors, warnings): (Vec<_>, Vec<_>) = (kind.check)(&object)
        .into_iter()
        .partition(|problem| problem.severity == Severity::Error && !before.contains(problem));
    let decision =
        if errors.is_empty() { Decision::allow() } else { Decision::deny(all(&errors)).with_code(422) };
    warnings.iter().take(MOST).fold(decision, |decision, warning| decision.warn(warning.to_string()))
}

fn all(errors: &[Problem]) -> String {
    if let [only] = errors {
        return only.to_string();
    }
    let mut text = format!("{} problems:", errors.len());
    for error in errors.iter().take(MOST) {
        text.push_str(&format!("\n- {error}"));
    }
    if errors.len() > MOST {
        text.push_str(&format!("\n- and {} more", errors.len() - MOST));
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn decision(operation: &str, object: &Value, old: Option<&Value>) -> Decision {
        let request: Request = serde_json::from_value(json!({
            "uid": "u", "operation": operation, "userInfo": {},
            "kind": { "group": "slinky.slurm.net", "version": "v1alpha1", "kind": "Cluster" },
            "resource": { "group": "slinky.slurm.net", "version": "v1alpha1", "resource": "clusters" },
            "object": object, "oldObject": old,
        }))
        .unwrap();
        decide(&KINDS[0], &request)
    }

    fn cluster(server: &str) -> Value {
        json!({
            "apiVersion": "slinky.slurm.net/v1alpha1", "kind": "Cluster", "metadata": { "name": "a" },
            "spec": { "server": server, "token": { "secretRef": "t" } },
        })
    }

    #[test]
    fn a_bad_object_is_refused_unless_it_was_bad_before_or_goes() {
        let (good, bad) = (cluster("http://a:6820"), cluster("http://a?x=1"));
        assert_eq!(decision("CREATE", &good, None), Decision::allow());
        let message = (KINDS[0].check)(&bad)[0].to_string();
        assert!(message.starts_with("spec.server: "), "{message}");
        assert_eq!(decision("CREATE", &bad, None), Decision::deny(&message).with_code(422));
        assert_eq!(decision("UPDATE", &bad, Some(&good)), Decision::deny(&message).with_code(422));
        assert_eq!(decision("UPDATE", &bad, Some(&bad)), Decision::allow().warn(&message));
        let mut going = bad.clone();
        going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert_eq!(decision("UPDATE", &going, Some(&bad)), Decision::allow());
    }

    #[test]
    fn all_problems_are_told_and_endless_lists_are_cut() {
        let problem = |number: usize| Problem {
            path: format!("spec.x[{number}]"),
            message: "no".into(),
            severity: Severity::Error,
        };
        assert_eq!(all(&[problem(0)]), "spec.x[0]: no");
        assert_eq!(all(&[problem(0), problem(1)]), "2 problems:\n- spec.x[0]: no\n- spec.x[1]: no");
        let many: Vec<Problem> = (0..MOST + 3).map(problem).collect();
        assert!(all(&many).ends_with("\n- and 3 more"));
    }

    #[test]
    fn every_kind_has_its_path() {
        for known in api::kinds() {
            let group = known.api_version.replace(['.', '/'], "-");
            let path = format!("/validate-{group}-{}", known.name.to_lowercase());
            assert!(PATHS.contains(&path.as_str()), "{path}");
        }
        assert_eq!(PATHS.len(), api::kinds().len());
    }
}
