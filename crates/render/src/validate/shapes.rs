//! Shapes that several parts share, resolved: names are replaced by what they stand for.

use std::collections::BTreeMap;

use api::common::PullPolicy;
use api::nebius::slurm_cluster::{NodeContainer, ProcMount};
use api::nebius::{Placement, Probes};
use k8s_openapi::api::core::v1::{
    Container, EnvVar, LocalObjectReference, PersistentVolumeClaimSpec, Volume,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// What every pod of a part has.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodSettings {
    /// Where it may run.
    pub placement: Placement,
    /// Its priority class.
    pub priority_class: Option<String>,
    /// Whether it uses the users of the host. `None`: as Kubernetes does.
    pub host_users: Option<bool>,
    /// Init containers of the user; they run after ours.
    pub init_containers: Vec<Container>,
    /// Credentials for registries.
    pub image_pull_secrets: Vec<LocalObjectReference>,
}

/// A container of the user's, with its defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct ContainerSettings {
    /// The image. Never empty, but for slurmrestd and the plain database, whose image may come from elsewhere.
    pub image: String,
    /// When it is pulled.
    pub pull_policy: PullPolicy,
    /// Replaces the command of `slurm-agent`. Empty means ours.
    pub command: Vec<String>,
    /// Replaces the arguments of `slurm-agent`. Empty means ours.
    pub args: Vec<String>,
    /// The port of the daemon; the daemon's own where the user wrote none or 0.
    pub port: u16,
    /// What it asks for; limits follow from it.
    pub resources: BTreeMap<String, Quantity>,
    /// The whole of limits.conf. `None`: ours.
    pub limits: Option<String>,
    /// AppArmor profile as the user wrote it: `unconfined`, `runtime/default`, `localhost/<name>`.
    pub app_armor_profile: String,
    /// More environment variables.
    pub env: Vec<EnvVar>,
    /// Probes of the user, which replace ours.
    pub probes: Probes,
    /// How `/proc` is mounted. `None`: as the part does by default.
    pub proc_mount: Option<ProcMount>,
}

impl ContainerSettings {
    pub(super) fn new(container: &NodeContainer, port: u16) -> Self {
        Self {
            image: container.image.clone(),
            pull_policy: container.image_pull_policy,
            command: container.command.clone().unwrap_or_default(),
            args: container.args.clone().unwrap_or_default(),
            port: super::port(container.port, port),
            resources: container.resources.clone().unwrap_or_default(),
            limits: container.security_limits_config.clone().filter(|text| !text.is_empty()),
            app_armor_profile: container.app_armor_profile.clone(),
            env: container.custom_env.clone().unwrap_or_default(),
            probes: container.probes.clone(),
            proc_mount: container.proc_mount,
        }
    }
}

/// A volume of the user's.
#[derive(Clone, Debug, PartialEq)]
pub enum VolumeChoice {
    /// A volume as a pod has it. Its name is that of the entry of `volumeSources`: give it the name that the pod uses.
    Source(Box<Volume>),
    /// A claim for each pod.
    Claim(Box<PersistentVolumeClaimSpec>),
}

/// A volume of the user's, and where it is mounted.
#[derive(Clone, Debug, PartialEq)]
pub struct Mount {
    /// Name of the volume in the pod.
    pub name: String,
    /// Where; for a mount inside the jail the path inside it.
    pub path: String,
    /// The directory of the volume. `None`: all of it.
    pub sub_path: Option<String>,
    /// Whether it cannot be written.
    pub read_only: bool,
    /// The volume.
    pub volume: VolumeChoice,
}
