//! What is around a worker, and may let it go although Slurm says nothing good of it.

use api::{nebius, slinky};
use engine::Key;
use engine::error::chain;
use engine::objects::{get, get_global};
use engine::view::MetaView;
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::{Client, Resource};
use nodeset::Api;

use super::worker::Worker;
use crate::slurm_links::LinkKey;
use crate::worker_pods::is_forced;

/// What is around a worker. What could not be looked up holds the worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Around {
    /// Its Kubernetes node does not exist any more, and so nothing runs on it.
    pub node_is_gone: bool,
    /// The user gave up the care for jobs: on the set, the cluster or the Namespace.
    pub forced: bool,
    /// The cluster or the Namespace is gone or goes: Slurm cannot be expected to answer again.
    pub slurm_ends: bool,
}

impl Around {
    /// Looks.
    pub async fn look(client: &Client, worker: &Worker, cluster: Option<&LinkKey>) -> Self {
        let set = worker.set.as_ref();
        let cluster = cluster.map(|link| &link.cluster);
        let node = async {
            let Some(name) = worker.kube_node.as_deref() else { return Seen::Unknown };
            seen(get_global::<MetaView<Node>>(client, name).await)
        };
        let namespace =
            async { seen(get_global::<MetaView<Namespace>>(client, &worker.pod.namespace).await) };
        // Both APIs have a kind for a set and one for a cluster.
        let (set, cluster, node, namespace) = match worker.api {
            Api::Nebius => {
                let set = named::<MetaView<nebius::NodeSet>>(client, set);
                let cluster = named::<MetaView<nebius::SlurmCluster>>(client, cluster);
                tokio::join!(set, cluster, node, namespace)
            }
            Api::Slinky => {
                let set = named::<MetaView<slinky::NodeSet>>(client, set);
                let cluster = named::<MetaView<slinky::Cluster>>(client, cluster);
                tokio::join!(set, cluster, node, namespace)
            }
        };
        Self {
            node_is_gone: node == Seen::Gone,
            forced: [set, cluster, namespace]
                .iter()
                .any(|seen| matches!(seen, Seen::There { forced: true, .. })),
            slurm_ends: cluster == Seen::Gone
                || [cluster, namespace].iter().any(|seen| matches!(seen, Seen::There { ends: true, .. })),
        }
    }

    /// Whether the worker may go whatever Slurm says.
    pub const fn releases(self) -> bool {
        self.node_is_gone || self.forced
    }
}

/// An object that was looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    Unknown,
    Gone,
    There { forced: bool, ends: bool },
}

async fn named<K>(client: &Client, key: Option<&Key>) -> Seen
where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned,
{
    match key {
        Some(key) => seen(get::<K>(client, key).await),
        None => Seen::Unknown,
    }
}

fn seen<K: Resource>(looked: Result<Option<K>, kube::Error>) -> Seen {
    match looked {
        Ok(None) => Seen::Gone,
        Ok(Some(object)) => {
            Seen::There { forced: is_forced(&object), ends: object.meta().deletion_timestamp.is_some() }
        }
        Err(error) => {
            tracing::warn!(error = chain(&error), "an object around a worker could not be looked up");
            Seen::Unknown
        }
    }
}
