//! What schema and CEL rules cannot say about objects of our kinds.
//!
//! Each kind has a pure check: an object in, [`Problem`]s out. [`webhooks`] answers the API server with them, and
//! `soperator validate` asks [`check`] without a cluster.

mod active_check;
mod cluster;
mod cron;
mod guards;
mod jailed_config;
mod labels;
mod node_configurator;
mod node_set;
mod topology_config;
mod webhooks;

#[cfg(test)]
mod tests;

use api::{nebius, slinky};
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use active_check::active_check;
pub use cluster::slinky_cluster;
pub use guards::{Guards, NODE_SETS, SECRETS, SLINKY_NODE_SETS, WORKER_PODS};
pub use jailed_config::jailed_config;
pub use node_configurator::node_configurator;
pub use node_set::{node_set, slinky_node_set};
pub use render::check::problem::{Problem, Severity};
pub use render::check::slurm_cluster;
pub use topology_config::topology_config;
pub use webhooks::{PATHS, webhooks};

/// Checks an object of any of our kinds, with its defaults filled in. Objects of other kinds have no problems.
#[must_use]
pub fn check(api_version: &str, kind: &str, object: &Value) -> Vec<Problem> {
    KINDS
        .iter()
        .find(|known| known.api_version == api_version && known.kind == kind)
        .map(|known| (known.check)(object))
        .unwrap_or_default()
}

/// A kind, the path of its webhook, and its check.
struct Kind {
    api_version: &'static str,
    kind: &'static str,
    path: &'static str,
    check: fn(&Value) -> Vec<Problem>,
}

const KINDS: &[Kind] = &[
    Kind {
        api_version: "slinky.slurm.net/v1alpha1",
        kind: "Cluster",
        path: "/validate-slinky-slurm-net-v1alpha1-cluster",
        check: |object| typed::<slinky::Cluster>(object, slinky_cluster),
    },
    Kind {
        api_version: "slinky.slurm.net/v1alpha1",
        kind: "NodeSet",
        path: "/validate-slinky-slurm-net-v1alpha1-nodeset",
        check: |object| typed::<slinky::NodeSet>(object, slinky_node_set),
    },
    Kind {
        api_version: "slurm.nebius.ai/v1alpha1",
        kind: "ActiveCheck",
        path: "/validate-slurm-nebius-ai-v1alpha1-activecheck",
        check: |object| typed::<nebius::ActiveCheck>(object, active_check),
    },
    Kind {
        api_version: "slurm.nebius.ai/v1alpha1",
        kind: "JailedConfig",
        path: "/validate-slurm-nebius-ai-v1alpha1-jailedconfig",
        check: |object| typed::<nebius::JailedConfig>(object, jailed_config),
    },
    Kind {
        api_version: "slurm.nebius.ai/v1alpha1",
        kind: "NodeConfigurator",
        path: "/validate-slurm-nebius-ai-v1alpha1-nodeconfigurator",
        check: |object| typed::<nebius::NodeConfigurator>(object, node_configurator),
    },
    Kind {
        api_version: "slurm.nebius.ai/v1alpha1",
        kind: "NodeSet",
        path: "/validate-slurm-nebius-ai-v1alpha1-nodeset",
        check: |object| typed::<nebius::NodeSet>(object, node_set),
    },
    Kind {
        api_version: "slurm.nebius.ai/v1",
        kind: "SlurmCluster",
        path: "/validate-slurm-nebius-ai-v1-slurmcluster",
        check: |object| typed::<nebius::SlurmCluster>(object, slurm_cluster),
    },
    Kind {
        api_version: "slurm.nebius.ai/v1alpha1",
        kind: "TopologyConfig",
        path: "/validate-slurm-nebius-ai-v1alpha1-topologyconfig",
        check: |object| typed::<nebius::TopologyConfig>(object, topology_config),
    },
];

fn typed<K: DeserializeOwned>(object: &Value, check: fn(&K) -> Vec<Problem>) -> Vec<Problem> {
    match serde_json::from_value(object.clone()) {
        Ok(object) => check(&object),
        Err(error) => {
            let message = format!("the object cannot be read: {error}");
            vec![Problem { path: String::new(), message, severity: Severity::Error }]
        }
    }
}
