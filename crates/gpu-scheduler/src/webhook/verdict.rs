//! Everything that is wrong, told when the object is sent.

use engine::admission::{Decision, Request};
use kube::core::DynamicObject;
use kube::core::admission::Operation;
use serde_json::Value;

use super::env::{Existing, wanted};
use super::inject;
use super::problem::{Known, Problem, Problems, Severity};
use super::shape::{Shape, clues_of};
use super::workload::Kind;
use super::{Config, frozen, requests, unsupported, workload};
use crate::index::{self, IndexError, Owner};
use crate::map::{Map, Mode};
use crate::names::{ASSIGNMENT, GANG, INDEX, MAP};

/// Problems that are told one by one; of more, only the number.
const MOST: usize = 20;
/// Pods that a kubelet shows; nobody schedules them.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// Decides about pods, about changes of pods, and about what makes pods. By now a new pod has its variables.
pub fn validate(config: &Config, request: &Request) -> Decision {
    let mut found = wrong(config, request);
    let is_new = request.operation == Operation::Create && request.kind.kind == "Pod";
    let is_right = found.iter().all(|problem| problem.severity == Severity::Warning);
    if let Some(pod) = request.object.as_ref().filter(|_| is_new && is_right) {
        let mut problems = Problems::default();
        inject::left_out(config, pod, &mut problems);
        found.extend(problems.into_vec());
    }
    decision(&found)
}

/// The same, of a new pod that has no variables yet.
pub(super) fn validate_before_variables(config: &Config, request: &Request) -> Decision {
    decision(&wrong(config, request))
}

fn wrong(config: &Config, request: &Request) -> Vec<Problem> {
    // Deletes have no object, and are not ours to judge.
    let Some(object) = &request.object else { return Vec::new() };
    let is_going = object.metadata.deletion_timestamp.is_some();
    let old = request.old_object.as_ref().filter(|_| request.operation == Operation::Update);
    let namespace = request.namespace.as_deref().unwrap_or_default();
    let kind = request.kind.kind.as_str();
    match (kind, old) {
        ("Pod", Some(old)) => {
            let mut problems = Problems::default();
            frozen::check(config, object, old, &mut problems);
            let changes = problems.into_vec();
            // Of a pod that has its place, or goes, nothing else is asked. One that goes holds its devices to the end.
            if changes.is_empty() && !is_bound(object) && !is_going {
                fresh(config, kind, namespace, object, Some(old))
            } else {
                changes
            }
        }
        _ if is_going => Vec::new(),
        _ => fresh(config, kind, namespace, object, old),
    }
}

/// What is wrong with the object. What was wrong before a change stays possible, with a warning: nobody must be kept from
/// scaling, or from taking a finalizer away.
fn fresh(
    config: &Config,
    kind: &str,
    namespace: &str,
    object: &DynamicObject,
    old: Option<&DynamicObject>,
) -> Vec<Problem> {
    let before = old.map(|old| problems(config, kind, namespace, old)).unwrap_or_default();
    let mut found = problems(config, kind, namespace, object);
    let known = Known::of(&before);
    for problem in &mut found {
        if known.has(problem) {
            problem.severity = Severity::Warning;
        }
    }
    found
}

fn is_bound(pod: &DynamicObject) -> bool {
    pod.data["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty())
}

fn problems(config: &Config, kind: &str, namespace: &str, object: &DynamicObject) -> Vec<Problem> {
    let mut problems = Problems::default();
    if kind == "Pod" {
        of_pod(config, namespace, object, &mut problems);
    } else if let Some(kind) = Kind::of(kind) {
        of_template(config, namespace, kind, &object.data, &mut problems);
    }
    problems.into_vec()
}

fn of_pod(config: &Config, namespace: &str, pod: &DynamicObject, problems: &mut Problems) {
    let shape = Shape::of_pod(pod);
    let Some(map) = common(config, namespace, &shape, Some(pod), problems) else { return };
    if is_bound(pod) && shape.annotation(MIRROR).is_none() {
        problems.invalid(
            "spec.nodeName",
            "goes past the GPU scheduler, and the pod would have no device; remove it, the map names the node",
        );
    }
    let compat = config.mode == Mode::Compat;
    match index::of(&clues_of(pod, &shape)) {
        Ok(index) if map.entry(index).is_none() => {
            let text = format!("the map has no line for index {index}, which is this pod's; add it");
            problems.invalid_unless(compat, shape.annotation_path(MAP), text);
        }
        Ok(_) => {}
        // Told already, with the value.
        Err(IndexError::Unreadable { key: INDEX, .. }) => {}
        Err(error) => problems.invalid_unless(compat, "metadata.name", error.to_string()),
    }
}

fn of_template(config: &Config, namespace: &str, kind: Kind, data: &Value, problems: &mut Problems) {
    let shape = kind.template(data);
    if let Some(map) = common(config, namespace, &shape, None, problems) {
        workload::check(config, kind, data, &shape, &map, problems);
    }
}

/// What pods and templates have in common. Returns the map, if it is ours and can be read.
fn common(
    config: &Config,
    namespace: &str,
    shape: &Shape<'_>,
    pod: Option<&DynamicObject>,
    problems: &mut Problems,
) -> Option<Map> {
    for key in ASSIGNMENT.into_iter().filter(|key| shape.annotation(key).is_some()) {
        let text = "is written by the GPU scheduler alone, when it binds the pod; remove it";
        problems.invalid(shape.annotation_path(key), text);
    }
    if shape.scheduler() != config.scheduler {
        return None;
    }
    if shape.annotation(GANG).is_some_and(|value| value != "true" && value != "false") {
        problems.invalid(shape.annotation_path(GANG), "is neither \"true\" nor \"false\"");
    }
    if shape.annotation(INDEX).is_some()
        && let Err(error) = index::of(&shape.clues("", true, Owner::Other))
    {
        problems.invalid(shape.annotation_path(INDEX), error.to_string());
    }
    unsupported::check(shape, problems);
    existing(config, shape, pod, problems);
    let path = shape.annotation_path(MAP);
    let Some(text) = shape.map() else {
        let text = format!(
            "is missing, and schedulerName is {:?}: write a line such as 0=node1:0,1 for each pod",
            config.scheduler
        );
        problems.invalid(path, text);
        return None;
    };
    let map = match Map::parse(text, config.mode) {
        Ok(map) => map,
        Err(error) => {
            problems.invalid(path, error.to_string());
            return None;
        }
    };
    map.warnings().iter().for_each(|warning| problems.warn(path.clone(), warning.to_string()));
    if map.is_empty() {
        problems.invalid(path, "none of its lines can be read; write a line such as 0=node1:0,1");
        return None;
    }
    for (index, entry) in map.entries() {
        if let Some(refusal) = config.rules.refusal(namespace, entry) {
            problems.forbidden(path.clone(), format!("index {index}: {refusal}"));
        }
    }
    requests::check(config, shape, &map, problems);
    Some(map)
}

/// Variables that users set themselves, where that is refused.
fn existing(config: &Config, shape: &Shape<'_>, pod: Option<&DynamicObject>, problems: &mut Problems) {
    if config.existing != Existing::Deny {
        return;
    }
    let wanted = wanted(config, shape, pod);
    for (list, place, container) in shape.containers() {
        for (number, entry) in container["env"].as_array().into_iter().flatten().enumerate() {
            if let Some(one) = wanted.iter().find(|one| entry["name"] == one.name && !one.is(entry)) {
                let path = shape.spec_path(&format!("{list}[{place}].env[{number}]"));
                let text = format!("sets {}, which the GPU scheduler sets; remove it", one.name);
                problems.invalid(path, text);
            }
        }
    }
}

fn decision(found: &[Problem]) -> Decision {
    let of = |severity| found.iter().filter(move |problem| problem.severity == severity);
    let errors: Vec<&Problem> = of(Severity::Forbidden).chain(of(Severity::Invalid)).collect();
    let decision = if errors.is_empty() {
        Decision::allow()
    } else {
        let code = if errors[0].severity == Severity::Forbidden { 403 } else { 422 };
        Decision::deny(all(&errors)).with_code(code)
    };
    of(Severity::Warning).take(MOST).fold(decision, |decision, warning| decision.warn(warning.to_string()))
}

fn all(errors: &[&Problem]) -> String {
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
