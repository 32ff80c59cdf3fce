//! What of a cluster is there now.

use std::sync::Arc;

use api::nebius::{JailedConfig, NodeSet};
use engine::Key;
use engine::view::{Guarded, JobView, PodView, WorkloadView};
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use kube::ResourceExt as _;
use render::{Component, Names, labels};

use crate::caches::{Caches, MariaDb};
use crate::owner::{label, set_of_pod, sets_of};

/// What of a cluster is there now.
pub struct Live {
    /// slurmctld.
    pub controller: Option<Arc<WorkloadView<StatefulSet>>>,
    /// Login pods.
    pub login: Option<Arc<WorkloadView<StatefulSet>>>,
    /// The plain database.
    pub database: Option<Arc<WorkloadView<StatefulSet>>>,
    /// The database of the MariaDB operator.
    pub mariadb: Option<Arc<MariaDb>>,
    /// slurmdbd.
    pub accounting: Option<Arc<WorkloadView<Deployment>>>,
    /// slurmrestd.
    pub rest: Option<Arc<WorkloadView<Deployment>>>,
    /// The Job that fills the jail.
    pub populate_jail: Option<Arc<JobView>>,
    /// The program that writes configuration files into the jail.
    pub sconfig_controller: Option<Arc<WorkloadView<Deployment>>>,
    /// Slurm's configuration for the jail.
    pub jailed_config: Option<Arc<Guarded<JailedConfig>>>,
    /// Its NodeSets that can be read.
    pub sets: Vec<Arc<Guarded<NodeSet>>>,
    /// All its pods.
    pub pods: Vec<Arc<PodView>>,
}

impl Live {
    /// Looks into the caches.
    pub fn of(caches: &Caches, cluster: &Key, names: &Names) -> Self {
        let key = |name: String| Key::new(&cluster.namespace, &name);
        Self {
            controller: caches.stateful_sets.get(&key(names.controller())),
            login: caches.stateful_sets.get(&key(names.login())),
            database: caches.stateful_sets.get(&key(names.database())),
            mariadb: caches.mariadbs.get(&key(names.database())),
            accounting: caches.deployments.get(&key(names.accounting())),
            rest: caches.deployments.get(&key(names.rest())),
            populate_jail: caches.jobs.get(&key(names.populate_jail())),
            sconfig_controller: caches.deployments.get(&key(names.sconfig_controller())),
            jailed_config: caches.jailed_configs.get(&key(names.slurm_configs())),
            sets: sets_of(caches, cluster),
            pods: caches.pods_of(cluster),
        }
    }

    /// The pods of a part, sorted by name.
    pub fn pods_of(&self, component: Component) -> Vec<&Arc<PodView>> {
        let of_it = |pod: &&Arc<PodView>| label(&***pod, labels::COMPONENT) == Some(component.as_str());
        self.pods.iter().filter(of_it).collect()
    }

    /// The pods of workers.
    pub fn workers(&self) -> impl Iterator<Item = &Arc<PodView>> {
        self.pods.iter().filter(|pod| set_of_pod(&***pod).is_some())
    }

    /// The pod of slurmctld.
    pub fn controller_pod(&self, names: &Names) -> Option<&Arc<PodView>> {
        self.pods.iter().find(|pod| pod.name_any() == names.controller_pod())
    }

    /// The NodeSets, as far as they can be read.
    pub fn node_sets(&self) -> impl Iterator<Item = &NodeSet> {
        self.sets.iter().filter_map(|set| set.ok())
    }
}
