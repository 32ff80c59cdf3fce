//! From what a user wrote to what can be rendered.

mod build;
mod parts;
mod resolve;
mod shapes;

use std::collections::BTreeMap;

use api::nebius::SlurmCluster;
use api::nebius::slurm_cluster::{ClusterType, Maintenance, PartitionConfigType};
use k8s_openapi::api::core::v1::LocalObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

pub use parts::{
    Accounting, Controller, Database, ExternalDatabase, Login, LoginService, PlainDatabase, PopulateJail,
    Rest, SConfigController, SssdSidecar, Workers,
};
pub use shapes::{ContainerSettings, Mount, PodSettings, VolumeChoice};

use crate::slurm_files::Config;
use crate::{Component, Defaults, Names, Problem, Severity, check, labels};

/// A part that can be rendered, or why it cannot.
pub type Part<T> = Result<T, Vec<Problem>>;

/// A cluster after validation. What all parts use is plain; each part is valid or not by itself.
#[derive(Clone, Debug)]
pub struct ValidatedCluster {
    /// Names of its objects.
    pub names: Names,
    /// Settings of the operator.
    pub defaults: Defaults,
    /// Ports of the daemons.
    pub ports: Ports,
    /// Whether the workers of `slurmNodes.worker` have GPUs.
    pub cluster_type: ClusterType,
    /// What is stopped.
    pub maintenance: Maintenance,
    /// Credentials for the registries of all images.
    pub image_pull_secrets: Vec<LocalObjectReference>,
    /// The Secret of the user with SSH host keys. `None`: [`Names::sshd_keys`], which is generated.
    pub sshd_keys_secret: Option<String>,
    /// Public keys of root in login and worker pods, one line each.
    pub root_keys: Vec<String>,
    /// Whether login and worker pods run under [`Names::app_armor_profile`].
    pub default_app_armor_profile: bool,
    /// `workerFeatures`: feature, and the host list of the workers that have it.
    pub worker_features: BTreeMap<String, String>,
    /// Whether workers of NodeSets have lines in slurm.conf (partitions are structured, or the
    /// topology is of blocks) or register themselves.
    pub static_nodes: bool,
    /// The jail, for parts that have no volume of their own for it. `None`: nobody says which it is.
    pub jail: Option<VolumeChoice>,
    /// Slurm's configuration files.
    pub config: Part<Config>,
    /// slurmctld.
    pub controller: Part<Controller>,
    /// Login pods.
    pub login: Part<Login>,
    /// slurmdbd; `None` where accounting is off.
    pub accounting: Part<Option<Accounting>>,
    /// slurmrestd.
    pub rest: Part<Rest>,
    /// Workers of `slurmNodes.worker`; `None` where there is no such section.
    pub workers: Part<Option<Workers>>,
    /// The Job that fills the jail.
    pub populate_jail: Part<PopulateJail>,
    /// The program that writes configuration files into the jail.
    pub sconfig_controller: Part<SConfigController>,
    /// Warnings, and problems of what is not rendered here.
    pub remarks: Vec<Problem>,
}

/// Ports of the daemons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    /// slurmctld.
    pub slurmctld: u16,
    /// slurmd of `slurmNodes.worker`, and of NodeSets that say nothing else.
    pub slurmd: u16,
    /// slurmdbd.
    pub slurmdbd: u16,
    /// slurmrestd.
    pub slurmrestd: u16,
    /// sshd of login pods, in the container.
    pub sshd: u16,
}

/// Ports where the user names none.
pub const DEFAULT_PORTS: Ports =
    Ports { slurmctld: 6817, slurmd: 6818, slurmdbd: 6819, slurmrestd: 6820, sshd: 22 };

/// The port of the user, or else this one. 0 means none.
fn port(wanted: Option<i32>, default: u16) -> u16 {
    wanted.and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0).unwrap_or(default)
}

impl ValidatedCluster {
    /// Names of its objects.
    #[must_use]
    pub const fn names(&self) -> &Names {
        &self.names
    }

    /// How Slurm calls the cluster; none where the user's own text decides.
    #[must_use]
    pub fn slurm_name(&self) -> Option<&str> {
        let is_custom = self.config.as_ref().is_ok_and(|config| config.is_custom("clustername"));
        (!is_custom).then(|| self.names.cluster())
    }

    /// Why a part cannot be rendered; empty when it can.
    #[must_use]
    pub fn problems(&self, component: Component) -> &[Problem] {
        fn of<T>(part: &Part<T>) -> &[Problem] {
            part.as_ref().err().map(Vec::as_slice).unwrap_or_default()
        }
        match component {
            Component::Common => of(&self.config),
            Component::Controller => of(&self.controller),
            Component::Accounting | Component::Database => of(&self.accounting),
            Component::Rest => of(&self.rest),
            Component::Worker | Component::NodeSet => of(&self.workers),
            Component::Login => of(&self.login),
            Component::PopulateJail => of(&self.populate_jail),
            Component::SConfigController => of(&self.sconfig_controller),
        }
    }

    /// Whether a part cannot be rendered. Objects of such a part must not be pruned: what runs goes on running.
    #[must_use]
    pub fn is_broken(&self, component: Component) -> bool {
        self.problems(component).iter().any(|problem| problem.severity == Severity::Error)
    }

    /// Whether pods are stopped for maintenance.
    #[must_use]
    pub const fn in_maintenance(&self) -> bool {
        !matches!(self.maintenance, Maintenance::None | Maintenance::SkipPopulateJail)
    }

    /// Name, namespace and labels of an object of a part.
    #[must_use]
    pub fn metadata(&self, name: impl Into<String>, component: Component) -> ObjectMeta {
        ObjectMeta {
            name: Some(name.into()),
            namespace: Some(self.names.namespace().to_owned()),
            labels: Some(labels::object(self.names.cluster(), component)),
            ..ObjectMeta::default()
        }
    }

    /// The Secret with SSH host keys.
    #[must_use]
    pub fn sshd_keys(&self) -> String {
        self.sshd_keys_secret.clone().unwrap_or_else(|| self.names.sshd_keys())
    }
}

/// Checks a cluster and resolves its names.
///
/// # Errors
///
/// The object has no name or namespace, so that nothing could be rendered. Problems of parts are in the parts.
pub fn validate(cluster: &SlurmCluster, defaults: &Defaults) -> Result<ValidatedCluster, Vec<Problem>> {
    let (Some(name), Some(namespace)) = (&cluster.metadata.name, &cluster.metadata.namespace) else {
        let message = "the object has no name or no namespace; write both".to_owned();
        return Err(vec![Problem { path: "metadata".into(), message, severity: Severity::Error }]);
    };
    let spec = &cluster.spec;
    let nodes = &spec.slurm_nodes;
    let names = Names::new(name, namespace, &defaults.cluster_domain);
    let mut problems = Sorted::new(check::slurm_cluster(cluster));
    let build = build::Builder::new(spec, defaults);
    let features = spec.worker_features.iter().flatten();
    Ok(ValidatedCluster {
        ports: build::ports(spec),
        cluster_type: spec.cluster_type,
        maintenance: spec.maintenance,
        image_pull_secrets: spec.image_pull_secrets.clone().unwrap_or_default(),
        sshd_keys_secret: spec.secrets.sshd_keys_name.clone().filter(|name| !name.is_empty()),
        root_keys: build::root_keys(spec),
        default_app_armor_profile: spec.use_default_app_armor_profile,
        worker_features: features
            .map(|feature| (feature.name.clone(), feature.hostlist_expr.clone()))
            .collect(),
        // Slurm 24.11 does not start with a block of nodes that register themselves.
        static_nodes: spec.partition_configuration.config_type == PartitionConfigType::Structured
            || spec.slurm_config.topology_plugin == "topology/block",
        jail: build.jail(),
        config: problems.part(Component::Common, || Config::new(spec, &names, build::ports(spec))),
        controller: problems.part(Component::Controller, || build.controller(&nodes.controller)),
        login: problems.part(Component::Login, || build.login(&nodes.login)),
        accounting: problems.part(Component::Accounting, || {
            nodes.accounting.enabled.then(|| build.accounting(&nodes.accounting))
        }),
        rest: problems.part(Component::Rest, || build.rest(&nodes.rest)),
        workers: problems
            .part(Component::Worker, || nodes.worker.as_ref().map(|worker| build.workers(worker))),
        populate_jail: problems.part(Component::PopulateJail, || build.populate_jail(&spec.populate_jail)),
        sconfig_controller: problems.part(Component::SConfigController, || {
            build.sconfig_controller(spec.s_config_controller.as_ref())
        }),
        remarks: problems.remarks,
        names,
        defaults: defaults.clone(),
    })
}

/// Problems by the part that they are about.
struct Sorted {
    errors: BTreeMap<Component, Vec<Problem>>,
    remarks: Vec<Problem>,
}

impl Sorted {
    fn new(problems: Vec<Problem>) -> Self {
        let mut sorted = Self { errors: BTreeMap::new(), remarks: Vec::new() };
        for problem in problems {
            match part_of(&problem.path) {
                Some(part) if problem.severity == Severity::Error => {
                    sorted.errors.entry(part).or_default().push(problem);
                }
                _ => sorted.remarks.push(problem),
            }
        }
        sorted
    }

    fn part<T>(&mut self, part: Component, build: impl FnOnce() -> T) -> Part<T> {
        match self.errors.remove(&part) {
            Some(problems) => Err(problems),
            None => Ok(build()),
        }
    }
}

/// The part that a field is about; `None` for fields that nothing here is made of.
fn part_of(path: &str) -> Option<Component> {
    const PARTS: [(&str, Option<Component>); 10] = [
        ("spec.slurmNodes.controller", Some(Component::Controller)),
        ("spec.slurmNodes.login", Some(Component::Login)),
        // Written to slurm.conf, not to slurmdbd.conf.
        ("spec.slurmNodes.accounting.slurmConfig", Some(Component::Common)),
        ("spec.slurmNodes.accounting", Some(Component::Accounting)),
        ("spec.slurmNodes.rest", Some(Component::Rest)),
        ("spec.slurmNodes.worker", Some(Component::Worker)),
        ("spec.slurmNodes.exporter", None),
        ("spec.sConfigController", Some(Component::SConfigController)),
        ("spec.populateJail", Some(Component::PopulateJail)),
        // Each field that names a volume tells of it, too.
        ("spec.volumeSources", None),
    ];
    match PARTS.iter().find(|(prefix, _)| path.starts_with(prefix)) {
        Some((_, part)) => *part,
        None => Some(Component::Common),
    }
}
