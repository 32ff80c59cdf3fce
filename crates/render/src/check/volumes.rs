//! Volumes, which have exactly one source.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Volume;
use serde_json::Value;

use super::problem::Problems;

/// Checks that each volume says what it is made of, and says it once: a pod with none of it would get an empty directory, and
/// one with two would be refused. Gives the names of those that cannot be used.
pub(super) fn one_source(problems: &mut Problems, volumes: &[Volume]) -> BTreeSet<String> {
    let mut unusable = BTreeSet::new();
    for (index, volume) in volumes.iter().enumerate() {
        // What was read from JSON can be written to it.
        let Ok(Value::Object(fields)) = serde_json::to_value(volume) else { continue };
        let sources: Vec<&str> = fields.keys().map(String::as_str).filter(|key| *key != "name").collect();
        let path = format!("spec.volumeSources[{index}]");
        match sources.as_slice() {
            [_] => continue,
            [] => problems.error(path, "has no source; write one, such as persistentVolumeClaim or emptyDir"),
            many => problems.error(path, format!("has several sources ({}); write one", many.join(", "))),
        }
        unusable.insert(volume.name.clone());
    }
    unusable
}
