//! What the operator knows of the API server, without asking: one watch per kind, shared by all its controllers.

mod foreign;
mod optional;

use api::nebius::{JailedConfig, NodeSet, SlurmCluster};
use api::slinky;
use engine::Scope;
use engine::apply::{Applier, MANAGED_BY_LABEL};
use engine::cache::{Cache, Selection};
use engine::optional_kinds::{OptionalKind, OptionalKinds, Overrides};
use engine::view::{ClaimView, Guarded, JobView, MetaView, NodeView, PodView, RevisionView, WorkloadView};
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret, Service, ServiceAccount};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::Client;
use render::labels;
use tokio_util::sync::CancellationToken;

use crate::slinky_nodeset::keys;

pub use foreign::{AppArmorProfile, ForeignStatus, Grant, MariaDb};
pub use optional::OptionalCache;

/// Finds pods by their cluster: `namespace/cluster`.
pub const BY_CLUSTER: &str = "cluster";
/// Finds pods by the Kubernetes node that they run on.
pub const BY_NODE: &str = "node";
/// Finds revisions by their NodeSet, also those that nobody owns: `namespace/set`.
pub const BY_NODE_SET: &str = "nodeset";

/// Finds Clusters of Slinky by the Secret with their token: `namespace/secret`.
pub const BY_SECRET: &str = "secret";

/// The API groups whose kinds are watched. The definitions of the other may not be installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Groups {
    /// `slurm.nebius.ai`.
    pub nebius: bool,
    /// `slinky.slurm.net`.
    pub slinky: bool,
}

impl Groups {
    /// `slurm.nebius.ai` alone.
    pub const NEBIUS: Self = Self { nebius: true, slinky: false };

    /// The groups that these controllers work on.
    pub fn of(controllers: &[&str]) -> Self {
        let slinky = |name: &&str| name.starts_with("slinky-");
        Self { nebius: controllers.iter().any(|name| !slinky(name)), slinky: controllers.iter().any(slinky) }
    }
}

/// All caches. Cheap to clone.
#[derive(Clone)]
pub struct Caches {
    /// Clusters.
    pub clusters: Cache<Guarded<SlurmCluster>>,
    /// Sets of workers.
    pub node_sets: Cache<Guarded<NodeSet>>,
    /// Files for the jail. Those below `/etc/slurm` are part of Slurm's configuration.
    pub jailed_configs: Cache<Guarded<JailedConfig>>,
    /// Clusters of Slinky.
    pub slinky_clusters: Cache<Guarded<slinky::Cluster>>,
    /// Sets of workers of Slinky.
    pub slinky_node_sets: Cache<Guarded<slinky::NodeSet>>,
    /// Pods of these sets. The original labels all pods that it makes, as we do those that we make or adopt.
    pub slinky_pods: Cache<PodView>,
    /// Revisions of these sets. StatefulSets' have the same label, so those are among them.
    pub slinky_revisions: Cache<RevisionView>,
    /// Pods of clusters.
    pub pods: Cache<PodView>,
    /// Kubernetes nodes.
    pub nodes: Cache<NodeView>,
    /// Metadata of Namespaces.
    pub namespaces: Cache<MetaView<Namespace>>,
    /// ControllerRevisions that we made for sets of workers.
    pub revisions: Cache<RevisionView>,
    /// Claims, also those of users.
    pub claims: Cache<ClaimView>,
    /// Metadata of Secrets, also of those of users.
    pub secrets: Cache<MetaView<Secret>>,
    /// Metadata of ConfigMaps, also of those of users.
    pub config_maps: Cache<MetaView<ConfigMap>>,
    /// Services that we made.
    pub services: Cache<MetaView<Service>>,
    /// ServiceAccounts that we made.
    pub service_accounts: Cache<MetaView<ServiceAccount>>,
    /// Roles that we made.
    pub roles: Cache<MetaView<Role>>,
    /// RoleBindings that we made.
    pub role_bindings: Cache<MetaView<RoleBinding>>,
    /// Jobs that we made.
    pub jobs: Cache<JobView>,
    /// PodDisruptionBudgets that we made.
    pub budgets: Cache<MetaView<PodDisruptionBudget>>,
    /// StatefulSets that we made.
    pub stateful_sets: Cache<WorkloadView<StatefulSet>>,
    /// Deployments that we made.
    pub deployments: Cache<WorkloadView<Deployment>>,
    /// Databases of the MariaDB operator that we made.
    pub mariadbs: OptionalCache<MariaDb>,
    /// Rights in these databases.
    pub grants: OptionalCache<Grant>,
    /// AppArmor profiles that we made.
    pub profiles: OptionalCache<AppArmorProfile>,
    /// Which optional kinds are served.
    pub optional_kinds: OptionalKinds,
}

impl Caches {
    /// Starts all watches. What only another group needs is not watched, and stays empty.
    pub fn start(
        client: &Client,
        scope: &Scope,
        groups: Groups,
        overrides: Overrides,
        stop: &CancellationToken,
    ) -> Self {
        // In no namespace there is nothing to watch, and nothing to wait for.
        let served = |served: bool| if served { scope.clone() } else { Scope::Namespaces(Vec::new()) };
        let (both, slinky, scope) = (scope, served(groups.slinky), &served(groups.nebius));
        let ours = format!("{MANAGED_BY_LABEL}={}", crate::MANAGER);
        let kinds = OptionalKinds::start(client, overrides, stop);
        macro_rules! all {
            () => {
                Cache::start(client, Selection::all(scope.clone()), stop)
            };
        }
        macro_rules! both {
            () => {
                Cache::start(client, Selection::all(both.clone()), stop)
            };
        }
        macro_rules! ours {
            () => {
                Cache::start(client, Selection::all(scope.clone()).with_labels(&ours), stop)
            };
        }
        macro_rules! optional {
            ($kind:ident) => {
                OptionalCache::start(client, &kinds, OptionalKind::$kind, scope, &ours, stop)
            };
        }
        let pods = Selection::all(scope.clone())
            .with_labels(&format!("{}={}", labels::NAME, labels::NAME_VALUE))
            .with_index(BY_CLUSTER, |pod: &PodView| cluster_of_pod(pod).into_iter().collect())
            .with_index(BY_NODE, node_of_pod);
        let revisions = Selection::all(scope.clone())
            .with_labels(&ours)
            .with_index(BY_NODE_SET, |revision: &RevisionView| {
                set_of_revision(revision).into_iter().collect()
            });
        let slinky_clusters = Selection::all(slinky.clone()).with_index(BY_SECRET, secret_of_cluster);
        let slinky_pods =
            Selection::all(slinky.clone()).with_labels(keys::POD_NAME).with_index(BY_NODE, node_of_pod);
        let slinky_revisions = Selection::all(slinky.clone()).with_labels(keys::HASH);
        Self {
            clusters: all!(),
            node_sets: all!(),
            jailed_configs: all!(),
            slinky_clusters: Cache::start(client, slinky_clusters, stop),
            slinky_node_sets: Cache::start(client, Selection::all(slinky), stop),
            slinky_pods: Cache::start(client, slinky_pods, stop),
            slinky_revisions: Cache::start(client, slinky_revisions, stop),
            pods: Cache::start(client, pods, stop),
            nodes: Cache::start_cluster_scoped(client, Selection::all(Scope::All), stop),
            namespaces: Cache::start_cluster_scoped(client, Selection::all(Scope::All), stop),
            revisions: Cache::start(client, revisions, stop),
            claims: both!(),
            secrets: both!(),
            config_maps: all!(),
            services: ours!(),
            service_accounts: ours!(),
            roles: ours!(),
            role_bindings: ours!(),
            jobs: ours!(),
            budgets: Cache::start(client, Selection::all(both.clone()).with_labels(&ours), stop),
            stateful_sets: ours!(),
            deployments: ours!(),
            mariadbs: optional!(MariaDb),
            grants: optional!(Grant),
            profiles: optional!(AppArmorProfile),
            optional_kinds: kinds,
        }
    }

    /// Waits for the first lists. Before that nobody may draw a conclusion from what is not there.
    pub async fn ready(&self) {
        tokio::join!(
            self.clusters.ready(),
            self.node_sets.ready(),
            self.jailed_configs.ready(),
            self.slinky_clusters.ready(),
            self.slinky_node_sets.ready(),
            self.slinky_pods.ready(),
            self.slinky_revisions.ready(),
            self.pods.ready(),
            self.revisions.ready(),
            self.claims.ready(),
            self.secrets.ready(),
            self.config_maps.ready(),
            self.services.ready(),
            self.service_accounts.ready(),
            self.roles.ready(),
            self.role_bindings.ready(),
            self.jobs.ready(),
            self.budgets.ready(),
            self.stateful_sets.ready(),
            self.deployments.ready(),
            self.optional_kinds.ready(),
        );
    }

    /// The same for what is in no namespace, and what only controllers need: who may see a namespace may not see that.
    pub async fn ready_beyond_namespaces(&self) {
        tokio::join!(self.nodes.ready(), self.namespaces.ready());
    }

    /// Whether a write on behalf of this owner has not come back yet: what is known is then older than what we did.
    pub fn awaits(&self, owner: &str) -> bool {
        self.clusters.awaits(owner)
            || self.node_sets.awaits(owner)
            || self.jailed_configs.awaits(owner)
            || self.slinky_clusters.awaits(owner)
            || self.slinky_node_sets.awaits(owner)
            || self.slinky_pods.awaits(owner)
            || self.slinky_revisions.awaits(owner)
            || self.pods.awaits(owner)
            || self.revisions.awaits(owner)
            || self.claims.awaits(owner)
            || self.secrets.awaits(owner)
            || self.config_maps.awaits(owner)
            || self.services.awaits(owner)
            || self.service_accounts.awaits(owner)
            || self.roles.awaits(owner)
            || self.role_bindings.awaits(owner)
            || self.jobs.awaits(owner)
            || self.budgets.awaits(owner)
            || self.stateful_sets.awaits(owner)
            || self.deployments.awaits(owner)
            || self.mariadbs.awaits(owner)
            || self.grants.awaits(owner)
            || self.profiles.awaits(owner)
    }

    /// An applier that knows everything that clusters are made of.
    pub fn applier(&self, client: &Client) -> Applier {
        Applier::new(client.clone(), crate::MANAGER)
            .with_known(self.node_sets.clone())
            .with_known(self.jailed_configs.clone())
            .with_known(self.secrets.clone())
            .with_known(self.config_maps.clone())
            .with_known(self.services.clone())
            .with_known(self.service_accounts.clone())
            .with_known(self.roles.clone())
            .with_known(self.role_bindings.clone())
            .with_known(self.jobs.clone())
            .with_known(self.budgets.clone())
            .with_known(self.stateful_sets.clone())
            .with_known(self.deployments.clone())
            .with_known(self.mariadbs.clone())
            .with_known(self.grants.clone())
            .with_known(self.profiles.clone())
    }

    /// The pods of a cluster, sorted by name.
    pub fn pods_of(&self, cluster: &engine::Key) -> Vec<std::sync::Arc<PodView>> {
        self.pods.by_index(BY_CLUSTER, &cluster.to_string())
    }
}

/// `namespace/secret` of a Cluster of Slinky.
fn secret_of_cluster(cluster: &Guarded<slinky::Cluster>) -> Vec<String> {
    let secret = |cluster: &slinky::Cluster| {
        let namespace = cluster.metadata.namespace.as_deref()?;
        Some(engine::Key::new(namespace, &cluster.spec.token.secret_ref).to_string())
    };
    cluster.ok().and_then(secret).into_iter().collect()
}

/// `namespace/cluster` of a pod.
fn cluster_of_pod(pod: &PodView) -> Option<String> {
    let cluster = pod.metadata.labels.as_ref()?.get(labels::INSTANCE)?;
    Some(engine::Key::new(pod.metadata.namespace.as_deref()?, cluster).to_string())
}

/// The Kubernetes node of a pod; a function of its own, so that other caches of pods can have the same index.
pub fn node_of_pod(pod: &PodView) -> Vec<String> {
    pod.spec.node_name.as_deref().map(String::from).into_iter().collect()
}

/// `namespace/set` of a revision.
fn set_of_revision(revision: &RevisionView) -> Option<String> {
    let set = revision.metadata.labels.as_ref()?.get(labels::NODE_SET)?;
    Some(engine::Key::new(revision.metadata.namespace.as_deref()?, set).to_string())
}
