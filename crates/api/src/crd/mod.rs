//! Custom resource definitions made from the types.
//!
//! [`schema`] turns a type into a structural schema, [`core_types`] knows what Kubernetes says about its own types and
//! k8s-openapi leaves out, [`cel`] writes validation rules, [`embedded`] finds the types of Kubernetes in a finished schema.

pub mod cel;
pub mod core_types;
pub mod embedded;
pub mod schema;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::{CustomResourceExt, Resource};

use crate::{nebius, slinky};

/// A kind, without its definition, which takes a while to make.
#[derive(Clone, Debug)]
pub struct Kind {
    /// Group and version, such as `slurm.nebius.ai/v1`.
    pub api_version: String,
    /// Its name, such as `SlurmCluster`.
    pub name: String,
    /// Makes the definition.
    pub crd: fn() -> CustomResourceDefinition,
}

impl Kind {
    fn of<K: Resource<DynamicType = ()> + CustomResourceExt>() -> Self {
        Self { api_version: K::api_version(&()).into(), name: K::kind(&()).into(), crd: crd_of::<K> }
    }
}

/// The definition, without the null that kube lets optional numbers-or-texts be: the API server drops a null of ours.
fn crd_of<K: CustomResourceExt>() -> CustomResourceDefinition {
    let mut crd = K::crd();
    for version in &mut crd.spec.versions {
        if let Some(schema) = version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut()) {
            take_null_away(schema);
        }
    }
    crd
}

fn take_null_away(schema: &mut JSONSchemaProps) {
    schema.nullable = None;
    schema.properties.iter_mut().flat_map(|all| all.values_mut()).for_each(take_null_away);
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        take_null_away(items);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        take_null_away(values);
    }
}

/// Every kind, ordered by group and then by plural name.
pub fn kinds() -> Vec<Kind> {
    vec![
        Kind::of::<slinky::Cluster>(),
        Kind::of::<slinky::NodeSet>(),
        Kind::of::<nebius::ActiveCheck>(),
        Kind::of::<nebius::JailedConfig>(),
        Kind::of::<nebius::NodeConfigurator>(),
        Kind::of::<nebius::NodeSet>(),
        Kind::of::<nebius::SlurmCluster>(),
        Kind::of::<nebius::TopologyConfig>(),
    ]
}

/// Every definition, in the order of [`kinds`].
pub fn crds() -> Vec<CustomResourceDefinition> {
    kinds().into_iter().map(|kind| (kind.crd)()).collect()
}

/// The API groups that [`crds`] covers.
pub fn group_names() -> [&'static str; 2] {
    [slinky::GROUP, nebius::GROUP]
}

/// The file that a definition is kept in, such as `slurm.nebius.ai_nodesets.yaml`.
pub fn file_name(crd: &CustomResourceDefinition) -> String {
    format!("{}_{}.yaml", crd.spec.group, crd.spec.names.plural)
}

/// Gives a kind the schema of its spec and status, made by [`schema::root`].
macro_rules! root_schema {
    ($kind:ident, $spec:ty, $status:ty, $description:expr) => {
        $crate::crd::root_schema!($kind, $spec, $status, $description, []);
    };
    ($kind:ident, $spec:ty, $status:ty, $description:expr, [$($rule:expr),* $(,)?]) => {
        impl schemars::JsonSchema for $kind {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($kind).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                $crate::crd::schema::root::<$spec, $status>($description, &[$($rule),*])
            }
        }
    };
}
pub(crate) use root_schema;
