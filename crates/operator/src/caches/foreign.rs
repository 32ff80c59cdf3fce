//! Kinds of other operators, as far as we read them.

use std::borrow::Cow;

use engine::optional_kinds::OptionalKind;
use engine::view::{ConditionView, light_meta};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::NamespaceResourceScope;
use serde::Deserialize;

macro_rules! foreign {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Deserialize)]
        pub struct $name {
            /// Name, labels, owners and the like.
            #[serde(deserialize_with = "light_meta")]
            pub metadata: ObjectMeta,
            /// How it is.
            #[serde(default)]
            pub status: ForeignStatus,
        }

        impl Resource for $name {
            type DynamicType = ();
            type Scope = NamespaceResourceScope;

            fn kind((): &()) -> Cow<'_, str> {
                OptionalKind::$name.kind().into()
            }

            fn group((): &()) -> Cow<'_, str> {
                OptionalKind::$name.group().into()
            }

            fn version((): &()) -> Cow<'_, str> {
                OptionalKind::$name.version().into()
            }

            fn plural((): &()) -> Cow<'_, str> {
                OptionalKind::$name.plural().into()
            }

            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

/// How an object of another operator is.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ForeignStatus {
    /// What its operator says about it.
    pub conditions: Vec<ConditionView>,
}

impl ForeignStatus {
    /// The condition Ready, if there is one.
    pub fn ready(&self) -> Option<&ConditionView> {
        self.conditions.iter().find(|condition| &*condition.type_ == "Ready")
    }
}

foreign! {
    /// A database of the MariaDB operator.
    MariaDb
}
foreign! {
    /// Rights of a user in such a database.
    Grant
}
foreign! {
    /// A profile of the security profiles operator.
    AppArmorProfile
}
