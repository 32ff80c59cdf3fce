//! Whole objects of our own kinds, which may be malformed.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::DeserializeGuard;
use kube::core::error_boundary::InvalidObject;
use serde::{Deserialize, Deserializer};

use super::meta::LAST_APPLIED;

/// An object that our types can read, or why they cannot. Its metadata is light, as that of all views.
///
/// It is boxed: a watch hands each object through dozens of functions by value, and a large one would fill a thread's stack.
#[derive(Clone, Debug)]
pub struct Guarded<K>(Box<Result<K, InvalidObject>>);

impl<K> Guarded<K> {
    /// The object, or why it cannot be read.
    ///
    /// # Errors
    ///
    /// The object is malformed.
    pub fn get(&self) -> Result<&K, &InvalidObject> {
        self.0.as_ref().as_ref()
    }

    /// The object, if it can be read.
    pub fn ok(&self) -> Option<&K> {
        self.get().ok()
    }
}

impl<'de, K: Resource + Deserialize<'de>> Deserialize<'de> for Guarded<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut guarded = Self(Box::new(DeserializeGuard::deserialize(deserializer)?.0));
        let meta = match &mut *guarded.0 {
            Ok(object) => object.meta_mut(),
            Err(invalid) => &mut invalid.metadata,
        };
        meta.managed_fields = None;
        if let Some(annotations) = &mut meta.annotations {
            annotations.remove(LAST_APPLIED);
        }
        Ok(guarded)
    }
}

impl<K: Resource> Resource for Guarded<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(of: &Self::DynamicType) -> Cow<'_, str> {
        K::kind(of)
    }

    fn group(of: &Self::DynamicType) -> Cow<'_, str> {
        K::group(of)
    }

    fn version(of: &Self::DynamicType) -> Cow<'_, str> {
        K::version(of)
    }

    fn plural(of: &Self::DynamicType) -> Cow<'_, str> {
        K::plural(of)
    }

    fn meta(&self) -> &ObjectMeta {
        match self.get() {
            Ok(object) => object.meta(),
            Err(invalid) => &invalid.metadata,
        }
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        match &mut *self.0 {
            Ok(object) => object.meta_mut(),
            Err(invalid) => &mut invalid.metadata,
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_malformed_object_still_has_its_name() {
        let bad: Guarded<ConfigMap> =
            serde_json::from_value(json!({ "metadata": { "name": "a" }, "data": 7 })).unwrap();
        assert!(bad.ok().is_none());
        assert_eq!(bad.meta().name.as_deref(), Some("a"));
        assert!(bad.get().unwrap_err().error.contains("map"), "{:?}", bad.get());
    }

    #[test]
    fn bulky_metadata_is_left_out_and_the_object_is_small_to_move() {
        let view: Guarded<ConfigMap> = serde_json::from_value(json!({
            "metadata": { "annotations": { LAST_APPLIED: "{}" }, "managedFields": [{ "manager": "m" }] },
        }))
        .unwrap();
        assert_eq!(view.meta().managed_fields, None);
        assert_eq!(view.meta().annotations.as_ref().map(|all| all.len()), Some(0));
        assert_eq!(size_of::<Guarded<ConfigMap>>(), size_of::<usize>());
    }
}
