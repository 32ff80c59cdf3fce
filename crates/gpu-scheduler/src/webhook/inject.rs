//! The mutating webhook: checks a new pod, and gives every container its variables. Applied twice the patch changes nothing more.

use engine::admission::{Decision, Request};
use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, Patch, PatchOperation, RemoveOperation, ReplaceOperation};
use kube::core::DynamicObject;
use serde_json::Value;

use super::Config;
use super::env::{Existing, Wanted, wanted};
use super::problem::Problems;
use super::shape::Shape;
use super::verdict::validate_before_variables;

/// Checks a new pod of ours, and gives its containers their variables. Both in one answer: a second question about each pod would cost
/// the API server as much as the first. It is asked again when others changed the pod after us.
pub fn mutate(config: &Config, request: &Request) -> Decision {
    let Some(pod) = request.object.as_ref().filter(|_| request.kind.kind == "Pod") else {
        return Decision::allow();
    };
    let shape = Shape::of_pod(pod);
    if !gets_variables(config, &shape) {
        return Decision::allow();
    }
    let verdict = validate_before_variables(config, request);
    if verdict.denial().is_some() {
        return verdict;
    }
    let wanted = wanted(config, &shape, Some(pod));
    let mut patch = Vec::new();
    let mut kept = Vec::new();
    for (list, place, container) in shape.containers() {
        let at = Place { list, place };
        inject(config.existing, &wanted, container, &at, &mut patch, &mut kept);
    }
    let warnings = verdict.warnings().iter().cloned().chain(kept);
    warnings.fold(Decision::patch(Patch(patch)), Decision::warn)
}

fn gets_variables(config: &Config, shape: &Shape<'_>) -> bool {
    shape.scheduler() == config.scheduler && shape.map().is_some()
}

/// Refuses a pod of ours that [`mutate`] would still change. The API server does not ask a webhook again about a pod that was not
/// yet its own in the first round, and asks only once more about one that others change.
pub(super) fn left_out(config: &Config, pod: &DynamicObject, problems: &mut Problems) {
    let shape = Shape::of_pod(pod);
    if !gets_variables(config, &shape) {
        return;
    }
    let wanted = wanted(config, &shape, Some(pod));
    for (list, place, container) in shape.containers() {
        let mut patch = Vec::new();
        inject(config.existing, &wanted, container, &Place { list, place }, &mut patch, &mut Vec::new());
        if !patch.is_empty() {
            problems.invalid(
                shape.spec_path(&format!("{list}[{place}].env")),
                "lacks the variables that the GPU scheduler's webhook sets: it did not answer, or another webhook changed the pod \
                 after it; try again, or let that webhook's configuration come before ours by its name",
            );
        }
    }
}

/// A container of the pod.
struct Place {
    list: &'static str,
    place: usize,
}

impl Place {
    /// The pointer to its `env`, or to an entry of it.
    fn env(&self, entry: Option<usize>) -> PointerBuf {
        let place = self.place.to_string();
        let mut pointer = PointerBuf::from_tokens(["spec", self.list, &place, "env"]);
        if let Some(entry) = entry {
            pointer.push_back(entry);
        }
        pointer
    }
}

fn inject(
    existing: Existing,
    wanted: &[Wanted],
    container: &Value,
    at: &Place,
    patch: &mut Vec<PatchOperation>,
    kept: &mut Vec<String>,
) {
    let env = container["env"].as_array();
    let (mut missing, mut superfluous) = (Vec::new(), Vec::new());
    for one in wanted {
        let found = env.into_iter().flatten().enumerate().filter(|(_, entry)| entry["name"] == one.name);
        let mut found = found.map(|(place, entry)| (place, one.is(entry))).peekable();
        if found.peek().is_none() {
            missing.extend(one.entry.clone());
            continue;
        }
        match (existing, &one.entry) {
            (Existing::Override, Some(entry)) => {
                // Of several the last would win in the container, whatever the first says.
                if let Some((place, false)) = found.next() {
                    let (path, value) = (at.env(Some(place)), entry.clone());
                    patch.push(PatchOperation::Replace(ReplaceOperation { path, value }));
                }
                superfluous.extend(found.map(|(place, _)| place));
            }
            (Existing::Override, None) => superfluous.extend(found.map(|(place, _)| place)),
            (Existing::Keep, _) => {
                if found.any(|(_, same)| !same) {
                    let name = container["name"].as_str().unwrap_or_default();
                    kept.push(format!("container {name:?} keeps its own {}", one.name));
                }
            }
            // Refused already, with the reason; or ours.
            (Existing::Deny, _) => {}
        }
    }
    // From behind, so that places stay true.
    superfluous.sort_unstable();
    for place in superfluous.into_iter().rev() {
        patch.push(PatchOperation::Remove(RemoveOperation { path: at.env(Some(place)) }));
    }
    if missing.is_empty() {
        return;
    }
    if env.is_none() {
        patch.push(PatchOperation::Add(AddOperation { path: at.env(None), value: Value::Array(missing) }));
        return;
    }
    // In front, so that the container's own variables can refer to them.
    for value in missing.into_iter().rev() {
        patch.push(PatchOperation::Add(AddOperation { path: at.env(Some(0)), value }));
    }
}
