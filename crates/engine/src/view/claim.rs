//! What controllers read of a PersistentVolumeClaim.

use std::borrow::Cow;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::Deserialize;

use super::light_meta;

/// A PersistentVolumeClaim as caches hold it.
#[derive(Clone, Debug, Deserialize)]
pub struct ClaimView {
    /// Name, labels, owners and the like.
    #[serde(deserialize_with = "light_meta")]
    pub metadata: ObjectMeta,
    /// What is asked for.
    #[serde(default)]
    pub spec: ClaimSpecView,
    /// How it is.
    #[serde(default)]
    pub status: ClaimStatusView,
}

/// What a claim asks for.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimSpecView {
    /// Who makes the volume; empty: nobody, it must be there; none: there was no default when the claim was made.
    pub storage_class_name: Option<Box<str>>,
    /// The volume, once there is one.
    pub volume_name: Option<Box<str>>,
}

/// How a claim is.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ClaimStatusView {
    /// Pending, Bound or Lost.
    pub phase: Option<Box<str>>,
}

impl ClaimView {
    /// Whether it has its volume.
    pub fn is_bound(&self) -> bool {
        self.status.phase.as_deref() == Some("Bound")
    }
}

impl Resource for ClaimView {
    type DynamicType = ();
    type Scope = <PersistentVolumeClaim as Resource>::Scope;

    fn kind((): &()) -> Cow<'_, str> {
        "PersistentVolumeClaim".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "persistentvolumeclaims".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
