//! What apply would do, without doing it.

use std::fmt;

use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use serde_json::Value;

use super::{Applier, DesiredObject, Owner};

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
            let secret = object.kind.kind == "Secret";
            let fields = |object: Option<kube::api::DynamicObject>| {
                object.map(|mut object| {
                    object.managed_fields_mut().clear();
                    let meta = &mut object.metadata;
                    (meta.resource_version, meta.generation) = (None, None);
                    serde_json::to_value(object).unwrap_or_default()
                })
            };
            compare("", fields(live).as_ref(), fields(Some(after)).as_ref(), &mut changes);
            if secret {
                // What is in a secret is nobody's business; that it changes is.
                for (path, before, after) in &mut changes {
                    if path.starts_with("data") || path.starts_with("stringData") {
                        let mask =
                            |value: &mut Option<Value>| *value = value.take().map(|_| "(hidden)".into());
                        mask(before);
                        mask(after);
                    }
                }
            }
            if !changes.is_empty() {
                differences.push(Difference { object: object.name(), changes });
            }
        }
        Ok(differences)
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
