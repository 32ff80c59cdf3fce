//! Custom resource definitions made from the types.
//!
//! [`schema`] turns a type into a structural schema, [`core_types`] knows what Kubernetes says about its own types and
//! k8s-openapi leaves out, [`cel`] writes validation rules, [`embedded`] finds the types of Kubernetes in a finished schema.

pub mod cel;
pub mod core_types;
pub mod embedded;
pub mod schema;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

use crate::{nebius, slinky};

/// Every definition, ordered by group and then by plural name.
pub fn crds() -> Vec<CustomResourceDefinition> {
    vec![
        slinky::Cluster::crd(),
        slinky::NodeSet::crd(),
        nebius::ActiveCheck::crd(),
        nebius::JailedConfig::crd(),
        nebius::NodeConfigurator::crd(),
        nebius::NodeSet::crd(),
        nebius::SlurmCluster::crd(),
        nebius::TopologyConfig::crd(),
    ]
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
