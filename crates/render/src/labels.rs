//! Labels, selectors and annotations of what belongs to a cluster.

use std::collections::BTreeMap;

/// A part of a cluster, as the label `app.kubernetes.io/component` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Component {
    /// What all parts use.
    Common,
    /// slurmctld.
    Controller,
    /// slurmdbd and its database.
    Accounting,
    /// slurmrestd.
    Rest,
    /// Workers of `slurmNodes.worker`.
    Worker,
    /// Workers of NodeSets.
    NodeSet,
    /// Login pods.
    Login,
    /// The database of accounting.
    Database,
    /// The Job that fills the jail.
    PopulateJail,
    /// The program that writes configuration files into the jail.
    SConfigController,
}

impl Component {
    /// As labels and names write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Common => "common",
            Self::Controller => "controller",
            Self::Accounting => "accounting",
            Self::Rest => "rest",
            Self::Worker => "worker",
            Self::NodeSet => "nodeset",
            Self::Login => "login",
            Self::Database => "mariadb-operator",
            Self::PopulateJail => "populate-jail",
            Self::SConfigController => "sconfigcontroller",
        }
    }
}

/// `slurmcluster`.
pub const NAME: &str = "app.kubernetes.io/name";
/// The cluster.
pub const INSTANCE: &str = "app.kubernetes.io/instance";
/// The [`Component`].
pub const COMPONENT: &str = "app.kubernetes.io/component";
/// `slurm-operator`.
pub const PART_OF: &str = "app.kubernetes.io/part-of";
/// `slurm-operator`; the engine writes it, too, with the name of its field manager.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// The NodeSet of a worker's pod.
pub const NODE_SET: &str = "slurm.nebius.ai/nodeset";
/// `true` on the pod of every worker.
pub const WORKER: &str = "slurm.nebius.ai/worker";
/// `true` on Secrets that must not be deleted as long as their cluster exists.
pub const PROTECTED: &str = "slurm.nebius.ai/webhook";

/// Annotation of a protected Secret: its cluster.
pub const CLUSTER: &str = "slurm.nebius.ai/cluster";
/// Annotation by which a NodeSet names its cluster.
pub const PARENTAL_CLUSTER: &str = "slurm.nebius.ai/parental-cluster-ref";
/// Annotation of a generated Secret by which a user asks for a new one; the value is any date.
pub const ROTATE: &str = "slurm.nebius.ai/rotate";
/// Annotation of a generated Secret: the value of [`ROTATE`] that was followed last.
pub const ROTATED: &str = "slurm.nebius.ai/rotated";
/// Annotation of running pods (never of templates): the hash of the effective set. Writing it makes the kubelet look at once.
pub const CONFIG_HASH: &str = "slurm.nebius.ai/config-hash";
/// Annotation of a pod template: a hash of what restarts the pods when it changes.
pub const RESTART_HASH: &str = "slurm.nebius.ai/restart-hash";
/// Annotation of a worker's pod that has a line in slurm.conf: what stands behind `NodeName=` and its addresses, as it was
/// when the pod was made.
pub const NODE_LINE: &str = "slurm.nebius.ai/node-line";
/// Annotation of a worker's pod: what stands behind `NodeName=` in its lines of gres.conf, one line each, as it was when the
/// pod was made.
pub const GRES_LINES: &str = "slurm.nebius.ai/gres-lines";
/// Annotation of the Job that fills the jail: what it was made for ([`crate::PopulateMark`]).
pub const POPULATE_MARK: &str = "slurm.nebius.ai/populate-jail";
/// Label that unites JailedConfigs: those with the same value are written as one.
pub const JAILED_AGGREGATION: &str = "slurm.nebius.ai/jailed-aggregation";
/// Value of [`JAILED_AGGREGATION`] of the configuration that the operator writes.
pub const JAILED_COMMON: &str = "common";
/// `true` as an annotation of the pod of a worker that has GPUs.
pub const GPUS: &str = "slurm.nebius.ai/gpus";
/// Annotation that tells kubectl which container is meant.
pub const DEFAULT_CONTAINER: &str = "kubectl.kubernetes.io/default-container";

/// Value of [`NAME`].
pub const NAME_VALUE: &str = "slurmcluster";
/// Value of [`PART_OF`] and [`MANAGED_BY`].
pub const OPERATOR: &str = "slurm-operator";

/// Labels of an object of a cluster.
#[must_use]
pub fn object(cluster: &str, component: Component) -> BTreeMap<String, String> {
    let mut labels = selector(cluster, component);
    labels.insert(PART_OF.into(), OPERATOR.into());
    labels.insert(MANAGED_BY.into(), OPERATOR.into());
    labels
}

/// Labels that select the pods of a part.
#[must_use]
pub fn selector(cluster: &str, component: Component) -> BTreeMap<String, String> {
    BTreeMap::from([
        (NAME.into(), NAME_VALUE.into()),
        (INSTANCE.into(), cluster.into()),
        (COMPONENT.into(), component.as_str().into()),
    ])
}

/// Labels that select the pods of one NodeSet; sets of one cluster never overlap.
#[must_use]
pub fn node_set_selector(cluster: &str, node_set: &str) -> BTreeMap<String, String> {
    let mut labels = selector(cluster, Component::NodeSet);
    labels.insert(NODE_SET.into(), node_set.into());
    labels
}
