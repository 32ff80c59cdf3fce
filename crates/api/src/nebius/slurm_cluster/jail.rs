//! The Job that fills the jail.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::NodeVolume;
use crate::common::PullPolicy;
use crate::nebius::unconfined;

/// The Job that fills the jail, the root file system that users see.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PopulateJail {
    /// The image whose content goes into the jail.
    #[schemars(length(max = 4096))]
    pub image: String,
    /// When the image is pulled.
    #[serde(default)]
    pub image_pull_policy: PullPolicy,
    /// Which entry of k8sNodeFilters says where the Job may run.
    #[schemars(length(max = 253))]
    pub k8s_node_filter_name: String,
    /// A volume whose content goes into the jail instead of the image's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jail_snapshot_volume: Option<NodeVolume>,
    /// Whether a jail that holds something already is filled again over it.
    #[serde(default)]
    pub overwrite: bool,
    /// AppArmor profile of the container.
    #[schemars(length(max = 512))]
    #[serde(default = "unconfined")]
    pub app_armor_profile: String,
    /// Priority class of the pod.
    #[schemars(length(max = 253))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority_class: Option<String>,
    /// Whether the pod uses the users of the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_users: Option<bool>,
}
