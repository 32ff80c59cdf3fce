//! The parts of a cluster after validation.

use std::collections::BTreeMap;

use api::common::{DrainOnDelete, PullPolicy};
use api::nebius::SssdSettings;
use api::nebius::slurm_cluster::{
    CgroupVersion, DatabaseTls, MariaDbOperator, OpenMetrics, SlurmdbdConfig, SshdServiceType, UserIsolation,
};
use k8s_openapi::api::core::v1::{PersistentVolumeClaimSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use slurm::conf::Value;

use super::shapes::{ContainerSettings, Mount, PodSettings, VolumeChoice};
use crate::Facts;

/// slurmctld.
#[derive(Clone, Debug, PartialEq)]
pub struct Controller {
    /// Its pod.
    pub pod: PodSettings,
    /// Container `slurmctld`.
    pub slurmctld: ContainerSettings,
    /// Container `munge`.
    pub munge: ContainerSettings,
    /// State of slurmctld.
    pub spool: VolumeChoice,
    /// The jail.
    pub jail: VolumeChoice,
    /// More volumes.
    pub custom_mounts: Vec<Mount>,
    /// Service account of the user. `None`: [`crate::Names::controller_service_account`].
    pub service_account: Option<String>,
    /// SSSD beside it.
    pub sssd: Option<SssdSidecar>,
    /// slurmctld's own metrics.
    pub open_metrics: Option<OpenMetrics>,
}

/// The Job that fills the jail.
#[derive(Clone, Debug, PartialEq)]
pub struct PopulateJail {
    /// Its pod.
    pub pod: PodSettings,
    /// The image whose content goes into the jail.
    pub image: String,
    /// When it is pulled.
    pub pull_policy: PullPolicy,
    /// What goes into the jail instead.
    pub snapshot: Option<VolumeChoice>,
    /// Whether a jail that is full already is filled again.
    pub overwrite: bool,
    /// AppArmor profile as the user wrote it.
    pub app_armor_profile: String,
}

/// The program that writes configuration files into the jail.
#[derive(Clone, Debug, PartialEq)]
pub struct SConfigController {
    /// How many there are, when they run. One of them works.
    pub size: i32,
    /// Each pod.
    pub pod: PodSettings,
    /// Its container. The image counts only where there is a command, too: the program is part of the operator's image.
    pub container: ContainerSettings,
    /// The user that it runs as.
    pub run_as_uid: i64,
    /// The group that it runs as.
    pub run_as_gid: i64,
    /// `reconfigureWaitTimeout`.
    pub wait_timeout: String,
    /// Service account of the user. `None`: [`crate::Names::sconfig_controller_service_account`].
    pub service_account: Option<String>,
}

/// The SSSD sidecar.
#[derive(Clone, Debug, PartialEq)]
pub struct SssdSidecar {
    /// Its container.
    pub container: ContainerSettings,
    /// What it reads.
    pub settings: SssdSettings,
}

/// Login pods.
#[derive(Clone, Debug, PartialEq)]
pub struct Login {
    /// Their number, when they run.
    pub size: i32,
    /// Each pod.
    pub pod: PodSettings,
    /// Container `sshd`.
    pub sshd: ContainerSettings,
    /// Container `munge`.
    pub munge: ContainerSettings,
    /// How users reach it.
    pub service: LoginService,
    /// ConfigMap of the user with sshd_config. `None`: [`crate::Names::ssh_configs`].
    pub sshd_config_map: Option<String>,
    /// The jail.
    pub jail: VolumeChoice,
    /// Volumes inside the jail.
    pub jail_sub_mounts: Vec<Mount>,
    /// Volumes outside of it.
    pub custom_mounts: Vec<Mount>,
    /// SSSD beside it.
    pub sssd: Option<SssdSidecar>,
    /// Limits between users.
    pub user_isolation: Option<UserIsolation>,
}

/// The Service by which users log in.
#[derive(Clone, Debug, PartialEq)]
pub struct LoginService {
    /// Its type.
    pub kind: SshdServiceType,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// A fixed address.
    pub load_balancer_ip: Option<String>,
    /// Who may reach it.
    pub source_ranges: Vec<String>,
    /// Its port on nodes. `None`: any free one.
    pub node_port: Option<i32>,
}

/// slurmdbd and its database; only where accounting is enabled.
#[derive(Clone, Debug, PartialEq)]
pub struct Accounting {
    /// Its pod, and that of a plain database.
    pub pod: PodSettings,
    /// Container `accounting`.
    pub slurmdbd: ContainerSettings,
    /// Container `munge`; that of slurmctld where the user wrote none.
    pub munge: ContainerSettings,
    /// Settings for slurmdbd.conf.
    pub config: SlurmdbdConfig,
    /// A database that exists.
    pub external: Option<ExternalDatabase>,
    /// What the MariaDB operator should run.
    pub mariadb_operator: Option<MariaDbOperator>,
    /// The plain MariaDB.
    pub plain: PlainDatabase,
}

/// The database that slurmdbd uses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Database<'a> {
    /// One that exists.
    External(&'a ExternalDatabase),
    /// One of the MariaDB operator.
    Operator(&'a MariaDbOperator),
    /// A StatefulSet of ours.
    Plain(&'a PlainDatabase),
}

impl Accounting {
    /// External if given, else the MariaDB operator's if enabled and served, else the plain one.
    #[must_use]
    pub fn database(&self, facts: &Facts) -> Database<'_> {
        match (&self.external, &self.mariadb_operator) {
            (Some(external), _) => Database::External(external),
            (None, Some(operator)) if facts.served.mariadb => Database::Operator(operator),
            _ => Database::Plain(&self.plain),
        }
    }
}

/// A database that exists.
#[derive(Clone, Debug, PartialEq)]
pub struct ExternalDatabase {
    /// Where it is.
    pub host: Value,
    /// Its port.
    pub port: u16,
    /// The user of slurmdbd.
    pub user: Value,
    /// The Secret and the key in it that hold the password.
    pub password: Option<(String, String)>,
    /// Secrets for an encrypted connection.
    pub tls: DatabaseTls,
    /// More StorageParameters.
    pub parameters: BTreeMap<String, String>,
}

/// A MariaDB that is a StatefulSet of ours.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlainDatabase {
    /// The image: the user's, else the operator's; none is a problem that a condition shows.
    pub image: Option<String>,
    /// Resources of its container.
    pub resources: Option<ResourceRequirements>,
    /// Its claim. `None`: 10Gi of the default storage class.
    pub storage: Option<PersistentVolumeClaimSpec>,
}

/// slurmrestd. It always runs; `enabled` gives users a Service.
#[derive(Clone, Debug, PartialEq)]
pub struct Rest {
    /// Whether users get a Service.
    pub enabled: bool,
    /// Its pods, when they run: 1 where it is not enabled.
    pub size: i32,
    /// Each pod. Where it is not enabled and its node filter does not exist, the placement of slurmctld.
    pub pod: PodSettings,
    /// Container `slurmrestd`; the image is empty where the user wrote none: see [`Rest::image`].
    pub container: ContainerSettings,
    /// Threads.
    pub threads: i32,
    /// Connections.
    pub connections: i32,
    /// The image of slurmctld.
    pub slurmctld_image: String,
    /// The image of the operator's settings.
    pub default_image: Option<String>,
}

impl Rest {
    /// The image: the user's, else slurmctld's if it holds slurmrestd, else the operator's. `None`: there is none, or it is
    /// not known yet; then there is no slurmrestd.
    #[must_use]
    pub fn image<'a>(&'a self, facts: &'a Facts) -> Option<&'a str> {
        if let Some(held) = &facts.held_images.slurmrestd {
            return Some(held);
        }
        if !self.container.image.is_empty() {
            return Some(&self.container.image);
        }
        let programs = facts.slurmctld_programs.as_ref()?;
        if programs.contains("slurmrestd") {
            return Some(&self.slurmctld_image);
        }
        self.default_image.as_deref()
    }
}

/// The workers of `slurmNodes.worker`, which become a NodeSet.
#[derive(Clone, Debug, PartialEq)]
pub struct Workers {
    /// Their number, when they run.
    pub size: i32,
    /// Each pod. Its `host_users` is always given.
    pub pod: PodSettings,
    /// How many may be away.
    pub max_unavailable: IntOrString,
    /// Container `slurmd`.
    pub slurmd: ContainerSettings,
    /// Container `munge`.
    pub munge: ContainerSettings,
    /// ConfigMap of the user with supervisord.conf. `None`: none is needed.
    pub supervisord_config_map: Option<String>,
    /// ConfigMap of the user with sshd_config. `None`: [`crate::Names::ssh_configs_worker`].
    pub sshd_config_map: Option<String>,
    /// Annotations of the pods.
    pub annotations: BTreeMap<String, String>,
    /// State of slurmd. A claim becomes an entry of the NodeSet's `customVolumeMounts` at its path, which wins there.
    pub spool: VolumeChoice,
    /// The jail; a claim as for the spool.
    pub jail: VolumeChoice,
    /// Volumes inside the jail.
    pub jail_sub_mounts: Vec<Mount>,
    /// Volumes outside of it.
    pub custom_mounts: Vec<Mount>,
    /// Size of `/dev/shm`.
    pub shared_memory: Quantity,
    /// The cgroup version.
    pub cgroup_version: CgroupVersion,
    /// Whether GDRCopy is passed in.
    pub gdr_copy: bool,
    /// Text for the nodes' `Extra`.
    pub extra: Option<String>,
    /// What happens to jobs when the cluster goes.
    pub drain_on_delete: Option<DrainOnDelete>,
}
