//! From rendered objects to those that the engine applies.

use engine::Key;
use engine::apply::{DesiredObject, Kind, Policy};
use render::{Object, Rendered};

/// The object as the engine wants it.
pub fn desired(rendered: &Rendered) -> Result<DesiredObject, serde_json::Error> {
    let object = match &rendered.object {
        Object::ConfigMap(object) => DesiredObject::new(object),
        Object::Deployment(object) => DesiredObject::new(object),
        Object::Job(object) => DesiredObject::new(object),
        Object::PodDisruptionBudget(object) => DesiredObject::new(object),
        Object::Role(object) => DesiredObject::new(object),
        Object::RoleBinding(object) => DesiredObject::new(object),
        Object::Secret(object) => DesiredObject::new(object),
        Object::Service(object) => DesiredObject::new(object),
        Object::ServiceAccount(object) => DesiredObject::new(object),
        Object::StatefulSet(object) => DesiredObject::new(object),
        Object::NodeSet(object) => DesiredObject::new(object),
        Object::JailedConfig(object) => DesiredObject::new(object),
        Object::Dynamic(object) => {
            let (group, version) = object.api_version.split_once('/').unwrap_or(("", object.api_version));
            let kind = Kind {
                group: group.into(),
                version: version.into(),
                api_version: object.api_version.into(),
                kind: object.kind.into(),
                plural: object.plural.into(),
            };
            let meta = &object.metadata;
            let key = Key::new(
                meta.namespace.as_deref().unwrap_or_default(),
                meta.name.as_deref().unwrap_or_default(),
            );
            DesiredObject::dynamic(kind, key, rendered.object.to_value())
        }
    }?;
    Ok(object.with_policy(match rendered.policy {
        render::Policy::Apply => Policy::Apply,
        render::Policy::CreateOnce => Policy::CreateOnce,
        render::Policy::RecreateOnImmutable => Policy::Recreate { orphan: true },
        render::Policy::ReplaceOnImmutable => Policy::Recreate { orphan: false },
    }))
}
