//! Changes of pods: what the scheduler wrote is its own, and what it decided by stays as it was.

use kube::core::DynamicObject;

use super::Config;
use super::problem::Problems;
use super::shape::Shape;
use crate::names::{ASSIGNMENT, GANG, INDEX, MAP};

/// Refuses changes that nobody may make.
pub(super) fn check(config: &Config, new: &DynamicObject, old: &DynamicObject, problems: &mut Problems) {
    let (new, old) = (Shape::of_pod(new), Shape::of_pod(old));
    let ours = old.scheduler() == config.scheduler;
    for key in ASSIGNMENT {
        let (now, before) = (new.annotation(key), old.annotation(key));
        if now != before && (ours || now.is_some()) {
            problems.invalid(
                new.annotation_path(key),
                "is written by the GPU scheduler alone, when it binds the pod; leave it as it is",
            );
        }
    }
    let bound = old.spec["nodeName"].as_str().is_some_and(|node| !node.is_empty());
    if !(ours && bound) {
        return;
    }
    for key in [MAP, INDEX, GANG] {
        if new.annotation(key) != old.annotation(key) {
            problems.invalid(
                new.annotation_path(key),
                "cannot change any more: the pod is bound by it; delete the pod and create it with the new one",
            );
        }
    }
}
