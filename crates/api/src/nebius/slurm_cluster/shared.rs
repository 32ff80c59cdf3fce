//! Shapes that several parts of a cluster share.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, EnvVar, PersistentVolumeClaimSpec, Probe};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::PullPolicy;
use crate::crd::cel::{Rule, rule};
use crate::nebius::unconfined;

/// What the pods of all parts have.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SlurmNode {
    /// How many pods there are.
    #[schemars(range(min = 0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<i32>,
    /// Init containers that run after ours.
    #[schemars(
        length(max = 64),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custom_init_containers: Option<Vec<Container>>,
    /// The entry of k8sNodeFilters that says where pods may run.
    #[schemars(length(max = 253))]
    pub k8s_node_filter_name: String,
    /// Priority class of the pods.
    #[schemars(length(max = 253))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority_class: Option<String>,
    /// Whether pods use the host's users. False gives them a user namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_users: Option<bool>,
}

/// A container of the cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeContainer {
    /// The image.
    #[schemars(length(max = 4096))]
    pub image: String,
    /// Instead of the operator's command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    /// Instead of the operator's arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args: Option<Vec<String>>,
    /// When the image is pulled.
    #[serde(default)]
    pub image_pull_policy: PullPolicy,
    /// The port to listen on. Absent means Slurm's own.
    #[schemars(range(min = 0, max = 65_535))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<i32>,
    /// What the container asks for, such as `cpu` and `nvidia.com/gpu`. Limits follow from it.
    #[schemars(length(max = 64))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<BTreeMap<String, Quantity>>,
    /// Text of limits.conf. Absent means our own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security_limits_config: Option<String>,
    /// AppArmor profile, such as `localhost/name`.
    #[serde(default = "unconfined")]
    #[schemars(length(max = 512))]
    pub app_armor_profile: String,
    /// More environment variables.
    #[schemars(
        length(max = 256),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custom_env: Option<Vec<EnvVar>>,
    /// Instead of the operator's liveness probe.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub liveness_probe: Option<Probe>,
    /// Instead of the operator's readiness probe.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub readiness_probe: Option<Probe>,
    /// Whether parts of `/proc` are masked (`Default`) or not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proc_mount: Option<ProcMount>,
}

/// What a container of 1.23 has besides its image; later versions added nothing to sections that are no longer there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContainerBasics {
    /// Instead of the operator's command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    /// Instead of the operator's arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args: Option<Vec<String>>,
    /// When the image is pulled.
    #[serde(default)]
    pub image_pull_policy: PullPolicy,
    /// The port to listen on. Absent means Slurm's own.
    #[schemars(range(min = 0, max = 65_535))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<i32>,
    /// What the container asks for, such as `cpu` and `nvidia.com/gpu`. Limits follow from it.
    #[schemars(length(max = 64))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<BTreeMap<String, Quantity>>,
    /// Text of limits.conf. Absent means our own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security_limits_config: Option<String>,
    /// AppArmor profile, such as `localhost/name`.
    #[serde(default = "unconfined")]
    #[schemars(length(max = 512))]
    pub app_armor_profile: String,
}

impl Default for ContainerBasics {
    fn default() -> Self {
        Self {
            command: None,
            args: None,
            image_pull_policy: PullPolicy::default(),
            port: None,
            resources: None,
            security_limits_config: None,
            app_armor_profile: unconfined(),
        }
    }
}

/// A container of slurmNodes.worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BasicContainer {
    /// The image.
    #[schemars(length(max = 4096))]
    pub image: String,
    /// All that is not the image.
    #[serde(flatten)]
    pub basics: ContainerBasics,
}

impl From<BasicContainer> for NodeContainer {
    fn from(container: BasicContainer) -> Self {
        let BasicContainer { image, basics } = container;
        Self {
            image,
            command: basics.command,
            args: basics.args,
            image_pull_policy: basics.image_pull_policy,
            port: basics.port,
            resources: basics.resources,
            security_limits_config: basics.security_limits_config,
            app_armor_profile: basics.app_armor_profile,
            custom_env: None,
            liveness_probe: None,
            readiness_probe: None,
            proc_mount: None,
        }
    }
}

/// How `/proc` is mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ProcMount {
    /// With parts of it masked.
    Default,
    /// As it is.
    Unmasked,
}

const ONE_VOLUME: Rule = rule(
    "has(self.volumeSourceName) != has(self.volumeClaimTemplateSpec)",
    "write exactly one of volumeSourceName (of spec.volumeSources) and volumeClaimTemplateSpec",
);

/// A volume: one of spec.volumeSources, or a claim of its own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [ONE_VOLUME]))]
pub struct NodeVolume {
    /// Which entry of spec.volumeSources it is.
    #[schemars(length(max = 253))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_source_name: Option<String>,
    /// The claim that each pod gets for itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_claim_template_spec: Option<PersistentVolumeClaimSpec>,
}

/// A volume and where it is mounted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [ONE_VOLUME]))]
pub struct NodeVolumeMount {
    /// Name of the volume in the pod.
    #[schemars(length(max = 253))]
    pub name: String,
    /// Where it is mounted. For jailSubMounts this is a path inside the jail.
    #[schemars(length(max = 4096))]
    pub mount_path: String,
    /// The directory of the volume that is mounted. Empty means all of it.
    #[schemars(length(max = 4096))]
    #[serde(default)]
    pub sub_path: String,
    /// Whether it is mounted read-only.
    #[serde(default)]
    pub read_only: bool,
    /// Which entry of spec.volumeSources it is.
    #[schemars(length(max = 253))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_source_name: Option<String>,
    /// The claim that each pod gets for itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_claim_template_spec: Option<PersistentVolumeClaimSpec>,
}

/// The SSSD sidecar, which gives pods the users of a directory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Sssd {
    /// The SSSD sidecar, which gives pods the users of a directory. Absent means none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sssd: Option<NodeContainer>,
    /// How much SSSD logs, from 0 to 10.
    #[schemars(range(min = 0, max = 10))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sssd_debug_level: Option<i32>,
    /// Secret with `sssd.conf`.
    #[schemars(length(max = 253))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sssd_conf_secret_ref_name: Option<String>,
    /// ConfigMap with the certificate of the authority that signed the LDAP server's.
    #[schemars(length(max = 253))]
    #[serde(rename = "sssdLdapCAConfigMapRefName", skip_serializing_if = "Option::is_none")]
    pub sssd_ldap_ca_config_map_ref_name: Option<String>,
}
