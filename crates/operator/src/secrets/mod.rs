//! Generated Secrets: made once, kept, and made anew when somebody asks for it. A Secret that a user brought is never
//! touched.

mod material;

use std::collections::BTreeMap;

use engine::Key;
use engine::events::EventType;
use kube::{Resource, ResourceExt as _};
use render::{GeneratedSecret, Material, ValidatedCluster, labels};

pub use material::{KeyProblem, draw};

use crate::context::Context;
use crate::error::Error;
use crate::owner::{annotation, label};

/// The generated Secrets of a cluster, by what they hold.
pub type Names = BTreeMap<GeneratedSecret, String>;

/// Content for those that do not exist yet.
pub async fn for_missing(
    context: &Context,
    namespace: &str,
    names: &Names,
) -> Result<BTreeMap<GeneratedSecret, Material>, Error> {
    let missing = names.iter().filter(|(_, name)| context.secret(&Key::new(namespace, name)).is_none());
    let missing: Vec<GeneratedSecret> = missing.map(|(secret, _)| *secret).collect();
    if missing.is_empty() {
        return Ok(BTreeMap::new());
    }
    // An RSA key takes long to find: others are not to wait for it.
    let drawing = move || missing.into_iter().map(|secret| Ok((secret, draw(secret)?))).collect();
    let drawn: Result<_, KeyProblem> = tokio::task::spawn_blocking(drawing).await.map_err(Error::Task)?;
    Ok(drawn?)
}

/// Makes those anew for which somebody asks by an annotation. Returns whether there were any.
pub async fn rotate<K: Resource<DynamicType = ()>>(
    context: &Context,
    owner: (&K, &str),
    cluster: &ValidatedCluster,
    names: &Names,
) -> Result<bool, Error> {
    let (object, uid) = owner;
    let mut rotated = false;
    for (secret, name) in names {
        let key = Key::new(cluster.names().namespace(), name);
        let Some(seen) = context.secret(&key) else { continue };
        let Some(wanted) = wanted_rotation(&*seen) else { continue };
        let kind = *secret;
        let material = tokio::task::spawn_blocking(move || draw(kind)).await.map_err(Error::Task)??;
        let data = secret.object(cluster, name, &material).data.unwrap_or_default();
        let marks = BTreeMap::from([(labels::ROTATED.to_string(), wanted.to_string())]);
        let version = engine::objects::change_secret(&context.client, &*seen, &data, &marks)
            .await
            .map_err(|error| Error::call(format!("Secret {key} could not be rotated"), error))?;
        if let Some(version) = version {
            context.caches.secrets.wrote(key, &version, uid);
        }
        let note = format!("Secret {name} has new content, as asked for by {}={wanted}", labels::ROTATE);
        context.tell(object, EventType::Normal, "SecretRotated", &note);
        tracing::info!(secret = name, "a generated secret was rotated");
        rotated = true;
    }
    Ok(rotated)
}

/// The value of the annotation that asks for new content, if it was not followed yet and the Secret is ours.
fn wanted_rotation(secret: &impl Resource) -> Option<&str> {
    let wanted = annotation(secret, labels::ROTATE)?;
    let ours = label(secret, labels::MANAGED_BY) == Some(crate::MANAGER);
    (ours && annotation(secret, labels::ROTATED) != Some(wanted)).then_some(wanted)
}

/// A mark for pods that changes with every rotation, so that kubelets look at the new content at once. None as long as
/// nothing was ever rotated.
pub fn rotation_mark(context: &Context, namespace: &str, names: &Names) -> Option<String> {
    let mut mark = Vec::new();
    for name in names.values() {
        if let Some(secret) = context.secret(&Key::new(namespace, name))
            && annotation(&*secret, labels::ROTATED).is_some()
        {
            mark.push(format!("{name}-{}", secret.resource_version().unwrap_or_default()));
        }
    }
    if mark.is_empty() { None } else { Some(mark.join(",")) }
}

#[cfg(test)]
mod tests {
    use engine::view::MetaView;
    use k8s_openapi::api::core::v1::Secret;
    use serde_json::json;

    use super::*;

    fn secret(managed_by: &str, annotations: &[(&str, &str)]) -> MetaView<Secret> {
        let annotations: BTreeMap<_, _> = annotations.iter().copied().collect();
        serde_json::from_value(json!({
            "metadata": { "labels": { labels::MANAGED_BY: managed_by }, "annotations": annotations },
        }))
        .unwrap()
    }

    #[test]
    fn a_rotation_is_done_once_per_date() {
        let asked = [(labels::ROTATE, "2026-11-16")];
        assert_eq!(wanted_rotation(&secret(crate::MANAGER, &asked)), Some("2026-11-16"));
        let done = [(labels::ROTATE, "2026-11-16"), (labels::ROTATED, "2026-11-16")];
        assert_eq!(wanted_rotation(&secret(crate::MANAGER, &done)), None);
        let again = [(labels::ROTATE, "2026-12-01"), (labels::ROTATED, "2026-11-16")];
        assert_eq!(wanted_rotation(&secret(crate::MANAGER, &again)), Some("2026-12-01"));
        assert_eq!(wanted_rotation(&secret(crate::MANAGER, &[])), None);
    }

    #[test]
    fn a_secret_that_the_user_brought_is_never_rotated() {
        assert_eq!(wanted_rotation(&secret("Helm", &[(labels::ROTATE, "2026-11-16")])), None);
    }
}
