//! SPANK plugins.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::crd::cel::rule;

/// SPANK plugins, written to plugstack.conf.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PlugStackConfig {
    /// Containers for jobs (pyxis and enroot).
    pub pyxis: Pyxis,
    /// Debug logs of NCCL.
    pub nccl_debug: NcclDebug,
    /// Your own plugins.
    #[schemars(length(max = 64))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custom_plugins: Option<Vec<CustomPlugin>>,
    /// Profiles of NCCL. Accepted as later versions of Soperator have it, not supported: a condition says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nccl_inspector_pre_conf: Option<NcclInspector>,
}

/// Containers for jobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Pyxis {
    /// Whether the plugin is there at all. Absent means that it is. The original does not have this field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Whether a job fails when the plugin cannot be loaded.
    pub required: bool,
    /// Directory where images are kept; it must end with `/`. Empty means that images are not kept.
    #[schemars(
        length(max = 4096),
        extend("x-kubernetes-validations" = [rule(
            "self == '' || self.endsWith('/')",
            "containerImageSave is a directory and must end with '/', such as /var/cache/enroot-container-images/; \
             write '' to keep no images",
        )])
    )]
    pub container_image_save: String,
    /// Whether images are mounted instead of unpacked. Absent means that they are unpacked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub use_squashfuse: Option<bool>,
    /// Program that fetches images. Absent means pyxis' own way.
    #[schemars(length(max = 4096))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub importer_path: Option<String>,
}

impl Default for Pyxis {
    fn default() -> Self {
        Self {
            enabled: None,
            required: true,
            container_image_save: "/var/cache/enroot-container-images/".into(),
            use_squashfuse: None,
            importer_path: None,
        }
    }
}

/// Debug logs of NCCL.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NcclDebug {
    /// Whether a job fails when the plugin cannot be loaded.
    pub required: bool,
    /// Whether jobs log by default; a user can ask for the other.
    pub enabled: bool,
    /// How much NCCL logs.
    pub log_level: NcclLogLevel,
    /// Whether logs go to files.
    pub output_to_file: bool,
    /// Whether logs go to the output of the job.
    pub output_to_std_out: bool,
    /// Directory of the files.
    #[schemars(length(max = 4096))]
    pub output_directory: String,
}

impl Default for NcclDebug {
    fn default() -> Self {
        Self {
            required: false,
            enabled: false,
            log_level: NcclLogLevel::Info,
            output_to_file: true,
            output_to_std_out: false,
            output_directory: "/opt/soperator-outputs/nccl_logs".into(),
        }
    }
}

/// How much NCCL logs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum NcclLogLevel {
    /// Its version.
    Version,
    /// Warnings.
    Warn,
    /// What it does.
    #[default]
    Info,
    /// Everything.
    Trace,
}

/// Profiles of NCCL; not supported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NcclInspector {
    /// Whether a job fails when the plugin cannot be loaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required: Option<bool>,
    /// Whether jobs are profiled by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// The shared object that NCCL loads.
    #[schemars(length(max = 4096))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profiler_plugin: Option<String>,
    /// Directory of the profiles.
    #[schemars(length(max = 4096))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dump_dir: Option<String>,
    /// Whether profiles have more detail.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dump_verbose: Option<bool>,
    /// Microseconds between two writes.
    #[schemars(range(min = 0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dump_thread_interval_microseconds: Option<i64>,
}

/// A SPANK plugin of yours.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CustomPlugin {
    /// Whether a job fails when the plugin cannot be loaded.
    #[serde(default)]
    pub required: bool,
    /// Path of the shared object.
    #[schemars(length(max = 4096))]
    pub path: String,
    /// Arguments, written as `key=value` in the order of their keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<BTreeMap<String, String>>,
}
