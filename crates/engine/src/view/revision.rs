//! What controllers read of a ControllerRevision.

use std::borrow::Cow;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::light_meta;

/// A ControllerRevision as caches hold it. Its data is kept as text: as JSON values it would take many times the room.
#[derive(Clone, Debug, Deserialize)]
pub struct RevisionView {
    /// Name, labels, owners and the like.
    #[serde(deserialize_with = "light_meta")]
    pub metadata: ObjectMeta,
    /// Its number; the newest has the highest.
    #[serde(default)]
    pub revision: i64,
    #[serde(default, deserialize_with = "text")]
    data: Box<str>,
}

fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Box<str>, D::Error> {
    Ok(Value::deserialize(deserializer)?.to_string().into())
}

impl RevisionView {
    /// What it holds. It never changes during the life of the object.
    pub fn data(&self) -> Value {
        // It was JSON when it came.
        serde_json::from_str(&self.data).unwrap_or_default()
    }
}

impl Resource for RevisionView {
    type DynamicType = ();
    type Scope = <ControllerRevision as Resource>::Scope;

    fn kind((): &()) -> Cow<'_, str> {
        "ControllerRevision".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "apps".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "controllerrevisions".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn its_data_comes_back_as_it_was() {
        let data = json!({ "spec": { "template": { "a": [1, null] } } });
        let view: RevisionView =
            serde_json::from_value(json!({ "metadata": { "name": "a-1" }, "revision": 7, "data": data }))
                .unwrap();
        assert_eq!((view.revision, view.data()), (7, data));
        let bare: RevisionView = serde_json::from_value(json!({ "metadata": {} })).unwrap();
        assert_eq!((bare.revision, bare.data()), (0, Value::Null));
    }
}
