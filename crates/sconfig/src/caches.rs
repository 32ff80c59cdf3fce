//! What is known of the API server, without asking: JailedConfigs, metadata of ConfigMaps, and what slurmctld runs with.

use std::borrow::Cow;
use std::sync::Arc;

use api::nebius::slurm_cluster::ConfigurationStatus;
use api::nebius::{JailedConfig, SlurmCluster};
use engine::cache::{Cache, Selection};
use engine::view::{Guarded, MetaView, light_meta};
use engine::{Key, Scope};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Client, Resource, ResourceExt as _};
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

/// Finds JailedConfigs by their ConfigMap.
const BY_CONFIG_MAP: &str = "configmap";

/// What is read of a SlurmCluster.
#[derive(Clone, Debug, Deserialize)]
pub struct ClusterView {
    #[serde(deserialize_with = "light_meta")]
    metadata: ObjectMeta,
    #[serde(default)]
    status: ClusterStatusView,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct ClusterStatusView {
    configuration: Option<ConfigurationStatus>,
}

impl ClusterView {
    /// What slurmctld runs with.
    pub fn configuration(&self) -> Option<&ConfigurationStatus> {
        self.status.configuration.as_ref()
    }
}

impl Resource for ClusterView {
    type DynamicType = ();
    type Scope = <SlurmCluster as Resource>::Scope;

    fn kind((): &()) -> Cow<'_, str> {
        SlurmCluster::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        SlurmCluster::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        SlurmCluster::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        SlurmCluster::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// All caches. Cheap to clone.
#[derive(Clone)]
pub struct Caches {
    /// JailedConfigs.
    pub configs: Cache<Guarded<JailedConfig>>,
    /// Metadata of ConfigMaps.
    pub config_maps: Cache<MetaView<ConfigMap>>,
    /// SlurmClusters.
    pub clusters: Cache<ClusterView>,
}

impl Caches {
    /// Starts all watches, on one namespace.
    pub fn start(client: &Client, namespace: &str, stop: &CancellationToken) -> Self {
        let scope = Scope::Namespaces(vec![namespace.to_owned()]);
        let configs = Selection::all(scope.clone()).with_index(BY_CONFIG_MAP, config_map_of);
        Self {
            configs: Cache::start(client, configs, stop),
            config_maps: Cache::start(client, Selection::all(scope.clone()), stop),
            clusters: Cache::start(client, Selection::all(scope), stop),
        }
    }

    /// Waits for the first lists.
    pub async fn ready(&self) {
        tokio::join!(self.configs.ready(), self.config_maps.ready(), self.clusters.ready());
    }

    /// The JailedConfigs whose files come from this ConfigMap.
    pub fn configs_from(&self, config_map: &str) -> Vec<Arc<Guarded<JailedConfig>>> {
        self.configs.by_index(BY_CONFIG_MAP, config_map)
    }

    /// The version of a ConfigMap; none if it is not there.
    pub fn version_of(&self, config_map: &Key) -> Option<String> {
        self.config_maps.get(config_map)?.resource_version()
    }
}

fn config_map_of(config: &Guarded<JailedConfig>) -> Vec<String> {
    config.ok().map(|config| config.spec.config_map.name.clone()).into_iter().collect()
}
