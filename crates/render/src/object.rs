//! Rendered objects.

use api::nebius::{JailedConfig, NodeSet};
use k8s_openapi::Metadata;
use k8s_openapi::Resource;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service, ServiceAccount};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use crate::Component;

/// One object as it should be.
#[derive(Clone, Debug, PartialEq)]
pub struct Rendered {
    /// The part that it belongs to.
    pub component: Component,
    /// The object, with name, namespace and labels; without owner.
    pub object: Object,
    /// How it is brought about.
    pub policy: Policy,
}

impl Rendered {
    /// An object that is kept as it is here.
    pub fn apply(component: Component, object: impl Into<Object>) -> Self {
        Self { component, object: object.into(), policy: Policy::Apply }
    }

    /// An object that is made once and then left alone.
    pub fn create_once(component: Component, object: impl Into<Object>) -> Self {
        Self { component, object: object.into(), policy: Policy::CreateOnce }
    }

    /// An object whose fields cannot be changed: where it should differ it is deleted, with what it owns, and made again.
    pub fn replace(component: Component, object: impl Into<Object>) -> Self {
        Self { component, object: object.into(), policy: Policy::ReplaceOnImmutable }
    }

    /// An object with fields that cannot be changed, such as the claims of a StatefulSet. Its pods stay.
    pub fn recreate(component: Component, object: impl Into<Object>) -> Self {
        Self { component, object: object.into(), policy: Policy::RecreateOnImmutable }
    }
}

/// How an object is brought about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Kept as desired.
    Apply,
    /// Made if it is missing, and never touched again.
    CreateOnce,
    /// As `Apply`; where the API server refuses a change, it is deleted, without what it owns, and made again.
    RecreateOnImmutable,
    /// The same, and what it owns goes with it.
    ReplaceOnImmutable,
}

/// An object of a kind that another project defines.
#[derive(Clone, Debug, PartialEq)]
pub struct Dynamic {
    /// Group and version, such as `k8s.mariadb.com/v1alpha1`.
    pub api_version: &'static str,
    /// The kind.
    pub kind: &'static str,
    /// The plural that URLs have.
    pub plural: &'static str,
    /// Name, namespace, labels and annotations.
    pub metadata: ObjectMeta,
    /// The object without `apiVersion`, `kind` and `metadata`.
    pub body: Value,
}

macro_rules! objects {
    ($($kind:ident),*) => {
        /// An object of any kind that a cluster has.
        #[derive(Clone, Debug, PartialEq)]
        #[allow(clippy::large_enum_variant, missing_docs, reason = "few live at once; the names are those of the kinds")]
        pub enum Object {
            $($kind($kind),)*
            NodeSet(NodeSet),
            JailedConfig(JailedConfig),
            Dynamic(Dynamic),
        }

        $(impl From<$kind> for Object {
            fn from(object: $kind) -> Self {
                Self::$kind(object)
            }
        })*

        impl Object {
            /// Group and version.
            #[must_use]
            pub fn api_version(&self) -> &'static str {
                match self {
                    $(Self::$kind(_) => <$kind as Resource>::API_VERSION,)*
                    Self::NodeSet(_) | Self::JailedConfig(_) => OUR_VERSION,
                    Self::Dynamic(object) => object.api_version,
                }
            }

            /// The kind.
            #[must_use]
            pub fn kind(&self) -> &'static str {
                match self {
                    $(Self::$kind(_) => <$kind as Resource>::KIND,)*
                    Self::NodeSet(_) => "NodeSet",
                    Self::JailedConfig(_) => "JailedConfig",
                    Self::Dynamic(object) => object.kind,
                }
            }

            /// Name, namespace, labels and annotations.
            #[must_use]
            pub fn metadata(&self) -> &ObjectMeta {
                match self {
                    $(Self::$kind(object) => Metadata::metadata(object),)*
                    Self::NodeSet(object) => &object.metadata,
                    Self::JailedConfig(object) => &object.metadata,
                    Self::Dynamic(object) => &object.metadata,
                }
            }

            /// The whole object as JSON, with `apiVersion` and `kind`.
            #[must_use]
            pub fn to_value(&self) -> Value {
                let body = match self {
                    $(Self::$kind(object) => serde_json::to_value(object),)*
                    Self::NodeSet(object) => serde_json::to_value(object),
                    Self::JailedConfig(object) => serde_json::to_value(object),
                    Self::Dynamic(object) => Ok(object.to_value()),
                };
                // Types of Kubernetes always become JSON.
                body.unwrap_or_default()
            }
        }
    };
}

objects!(
    ConfigMap,
    Deployment,
    Job,
    PodDisruptionBudget,
    Role,
    RoleBinding,
    Secret,
    Service,
    ServiceAccount,
    StatefulSet
);

/// Group and version of our own kinds.
const OUR_VERSION: &str = "slurm.nebius.ai/v1alpha1";

impl From<NodeSet> for Object {
    fn from(object: NodeSet) -> Self {
        Self::NodeSet(object)
    }
}

impl From<JailedConfig> for Object {
    fn from(object: JailedConfig) -> Self {
        Self::JailedConfig(object)
    }
}

impl From<Dynamic> for Object {
    fn from(object: Dynamic) -> Self {
        Self::Dynamic(object)
    }
}

impl Object {
    /// The name of the object.
    #[must_use]
    pub fn name(&self) -> &str {
        self.metadata().name.as_deref().unwrap_or_default()
    }
}

impl Dynamic {
    fn to_value(&self) -> Value {
        let mut value = self.body.clone();
        if let Value::Object(fields) = &mut value {
            fields.insert("apiVersion".into(), self.api_version.into());
            fields.insert("kind".into(), self.kind.into());
            fields.insert("metadata".into(), serde_json::to_value(&self.metadata).unwrap_or_default());
        }
        value
    }
}
