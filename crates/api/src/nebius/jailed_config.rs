//! Files in the jail that come from a ConfigMap.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::crd::cel::rule;

/// Which files, from where, and what follows.
#[derive(Clone, Debug, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "slurm.nebius.ai",
    version = "v1alpha1",
    kind = "JailedConfig",
    plural = "jailedconfigs",
    namespaced,
    schema = "manual",
    status = "JailedConfigStatus",
    derive = "PartialEq",
    printcolumn(
        name = "Files Written",
        type_ = "string",
        json_path = ".status.conditions[?(@.type == 'FilesWritten')].reason"
    ),
    printcolumn(
        name = "Reconfiguration Status",
        type_ = "string",
        json_path = ".status.conditions[?(@.type == 'UpdateActionsCompleted')].reason"
    ),
    printcolumn(name = "Jailed Path", type_ = "string", json_path = ".spec.items[0].path"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct JailedConfigSpec {
    /// The ConfigMap that holds the files.
    pub config_map: ConfigMapName,
    /// Which keys of the ConfigMap become which files. Without it every key is taken as a path, which then must be
    /// absolute.
    #[schemars(length(max = 256))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub items: Option<Vec<JailedFile>>,
    /// Permissions of files that have none of their own, as a decimal number. Absent means 420, which is octal 0644.
    #[schemars(range(min = 0, max = 511))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_mode: Option<i32>,
    /// What is done after files changed: `Reconfigure` makes Slurm read its configuration again.
    #[schemars(length(max = 16))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_actions: Option<Vec<UpdateAction>>,
}

/// A ConfigMap in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigMapName {
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// A key of a ConfigMap and the file that it becomes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JailedFile {
    /// The key.
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
    /// The file, as an absolute path inside the jail.
    #[schemars(
        length(min = 1, max = 4096),
        extend("x-kubernetes-validations" = [rule(
            "self.startsWith('/') && !self.matches('(^|/)[.]{1,2}(/|$)')",
            "path must be absolute and without '.' and '..' parts, such as /etc/slurm/slurm.conf",
        )])
    )]
    pub path: String,
    /// Permissions of the file, as a decimal number. Absent means defaultMode.
    #[schemars(range(min = 0, max = 511))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<i32>,
}

/// What is done after files changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum UpdateAction {
    /// Slurm reads its configuration again.
    Reconfigure,
}

/// How far the files are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JailedConfigStatus {
    /// What is known about the files, one entry per aspect: `FilesWritten` and `UpdateActionsCompleted`.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
    /// Paths in the jail that are there because of this object, or are about to be: they go when it goes.
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<Vec<String>>,
}

/// Types of the conditions of a JailedConfig, and their reasons.
pub mod jailed_config_condition {
    /// Whether all files are in the jail.
    pub const FILES_WRITTEN: &str = "FilesWritten";
    /// Whether what follows a change is done.
    pub const UPDATE_ACTIONS_COMPLETED: &str = "UpdateActionsCompleted";

    /// Reason: nothing happened yet.
    pub const INIT: &str = "Init";
    /// Reason: the files changed and are written again.
    pub const REFRESH: &str = "Refresh";
    /// Reason: done.
    pub const SUCCESS: &str = "Success";
    /// Reason: the ConfigMap or a key is missing.
    pub const NOT_FOUND: &str = "NotFound";
    /// Reason: files could not be written.
    pub const NOT_WRITTEN: &str = "NotWritten";
    /// Reason: no action was asked for.
    pub const MISSING_ACTION: &str = "MissingAction";
    /// Reason: Slurm does not take the files. The original does not have it.
    pub const REFUSED: &str = "Refused";
    /// Reason: another JailedConfig has the same path. The original does not have it.
    pub const CONFLICT: &str = "Conflict";
}

crate::crd::root_schema!(
    JailedConfig,
    JailedConfigSpec,
    JailedConfigStatus,
    "Files in the jail that come from a ConfigMap, and what is done after they changed."
);
