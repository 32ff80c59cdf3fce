//! What apply would do, without doing it.

use std::collections::BTreeSet;
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt as _;
use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::Value;

use super::{Applier, DesiredObject, HASH_ANNOTATION, Kind, Owner, key_of, slot};
use crate::key::Key;

/// Stands for what is in a secret.
const HIDDEN: &str = "(hidden)";

/// How one object would change.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Which object.
    pub object: String,
    /// Each line: path, old value, new value.
    pub changes: Vec<(String, Option<Value>, Option<Value>)>,
}

impl fmt::Display for Difference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "{}", self.object)?;
        for (path, before, after) in &self.changes {
            if let Some(before) = before {
                writeln!(out, "- {path}: {before}")?;
            }
            if let Some(after) = after {
                writeln!(out, "+ {path}: {after}")?;
            }
        }
        Ok(())
    }
}

impl Applier {
    /// Asks the API server what apply would change; nothing is written.
    pub async fn diff(
        &self,
        owner: &Owner,
        objects: Vec<DesiredObject>,
    ) -> Result<Vec<Difference>, kube::Error> {
        let mut differences = Vec::new();
        for mut object in objects {
            object.stamp(&owner.reference, self.manager).map_err(kube::Error::SerdeError)?;
            let api = self.api(&object.kind, &object.key);
            let live = api.get_opt(&object.key.name).await?;
            let params = PatchParams { dry_run: true, ..PatchParams::apply(self.manager).force() };
            let after = api.patch(&object.key.name, &params, &Patch::Apply(&object.body)).await?;
            let mut changes = Vec::new();
            compare("", live.map(fields).as_ref(), Some(&fields(after)), &mut changes);
            if object.kind.kind == "Secret" {
                hide(&mut changes);
            }
            if !changes.is_empty() {
                differences.push(Difference { object: object.name(), changes });
            }
        }
        Ok(differences)
    }

    /// What apply would delete because it is not among the objects, in the order of kinds and names. What `spared` names stays.
    pub fn superfluous(
        &self,
        owner: &Owner,
        objects: &[DesiredObject],
        spared: impl Fn(&Kind, &ObjectMeta) -> bool,
    ) -> Vec<String> {
        let desired: BTreeSet<(String, Key)> = objects.iter().map(slot).collect();
        let mut found = Vec::new();
        for known in self.known.iter() {
            let kind = known.kind();
            for meta in self.prunable(known, owner) {
                let key = key_of(&meta);
                if !desired.contains(&(kind.plural.clone(), key.clone())) && !spared(&kind, &meta) {
                    found.push(format!("{} {key}", kind.kind));
                }
            }
        }
        found
    }
}

/// What users see of an object.
fn fields(mut object: DynamicObject) -> Value {
    object.managed_fields_mut().clear();
    let meta = &mut object.metadata;
    (meta.resource_version, meta.generation) = (None, None);
    // It says only that something else differs.
    meta.annotations.get_or_insert_default().remove(HASH_ANNOTATION);
    serde_json::to_value(object).unwrap_or_default()
}

/// What is in a secret is nobody's business; that it changes is.
fn hide(changes: &mut [(String, Option<Value>, Option<Value>)]) {
    for (path, before, after) in changes {
        if path.starts_with("data") || path.starts_with("stringData") {
            for value in [before, after] {
                *value = value.take().map(|_| HIDDEN.into());
            }
        }
    }
}

fn compare(
    path: &str,
    before: Option<&Value>,
    after: Option<&Value>,
    changes: &mut Vec<(String, Option<Value>, Option<Value>)>,
) {
    match (before, after) {
        (Some(before), Some(after)) if before == after => {}
        // A new object is told field by field, so that what must be hidden can be.
        (None, Some(Value::Object(after))) if path.is_empty() => {
            for (name, value) in after {
                compare(name, None, Some(value), changes);
            }
        }
        (Some(Value::Object(before)), Some(Value::Object(after))) => {
            for name in before.keys().chain(after.keys().filter(|name| !before.contains_key(*name))) {
                let (before, after) = (before.get(name), after.get(name));
                let path = format!("{path}.{name}");
                compare(path.trim_start_matches('.'), before, after, changes);
            }
        }
        _ => changes.push((path.to_string(), before.cloned(), after.cloned())),
    }
}
