//! Settings of accounting for Slurm's own files.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings for slurmdbd.conf.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SlurmdbdConfig {
    /// Whether events are archived before they are purged.
    pub archive_events: YesNo,
    /// Whether jobs are archived before they are purged.
    pub archive_jobs: YesNo,
    /// Whether reservations are archived before they are purged.
    pub archive_resvs: YesNo,
    /// Whether job steps are archived before they are purged.
    pub archive_steps: YesNo,
    /// Whether suspensions are archived before they are purged.
    pub archive_suspend: YesNo,
    /// Whether transactions are archived before they are purged.
    #[serde(rename = "archiveTXN")]
    pub archive_txn: YesNo,
    /// Whether usage is archived before it is purged.
    pub archive_usage: YesNo,
    /// How much slurmdbd logs.
    pub debug_level: SlurmdbdDebugLevel,
    /// Seconds to wait for a connection.
    #[schemars(range(min = 0, max = 32_767))]
    pub tcp_timeout: i32,
    /// When events are purged, such as `1month` or `30days`.
    #[schemars(length(max = 64))]
    pub purge_event_after: String,
    /// When jobs are purged.
    #[schemars(length(max = 64))]
    pub purge_job_after: String,
    /// When reservations are purged.
    #[schemars(length(max = 64))]
    pub purge_resv_after: String,
    /// When job steps are purged.
    #[schemars(length(max = 64))]
    pub purge_step_after: String,
    /// When suspensions are purged.
    #[schemars(length(max = 64))]
    pub purge_suspend_after: String,
    /// When transactions are purged.
    #[schemars(length(max = 64))]
    #[serde(rename = "purgeTXNAfter")]
    pub purge_txn_after: String,
    /// When usage is purged.
    #[schemars(length(max = 64))]
    pub purge_usage_after: String,
    /// What users cannot see of each other, such as `jobs,usage`.
    #[schemars(length(max = 1024))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub private_data: Option<String>,
    /// A part of slurmdbd that logs more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub debug_flags: Option<SlurmdbdDebugFlags>,
}

impl Default for SlurmdbdConfig {
    fn default() -> Self {
        Self {
            archive_events: YesNo::Yes,
            archive_jobs: YesNo::Yes,
            archive_resvs: YesNo::Yes,
            archive_steps: YesNo::No,
            archive_suspend: YesNo::No,
            archive_txn: YesNo::No,
            archive_usage: YesNo::Yes,
            debug_level: SlurmdbdDebugLevel::Info,
            tcp_timeout: 2,
            purge_event_after: "1month".into(),
            purge_job_after: "12month".into(),
            purge_resv_after: "1month".into(),
            purge_step_after: "1month".into(),
            purge_suspend_after: "1month".into(),
            purge_txn_after: "12month".into(),
            purge_usage_after: "24month".into(),
            private_data: None,
            debug_flags: None,
        }
    }
}

/// Yes or no, as Slurm's files have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum YesNo {
    /// Yes.
    Yes,
    /// No.
    No,
}

/// How much slurmdbd logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the names are Slurm's")]
pub enum SlurmdbdDebugLevel {
    Quiet,
    Fatal,
    Error,
    Info,
    Verbose,
    Debug,
    Debug2,
    Debug3,
    Debug4,
    Debug5,
}

/// A part of slurmdbd that logs more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs, reason = "the names are Slurm's")]
pub enum SlurmdbdDebugFlags {
    AuditRPCs,
    #[serde(rename = "DB_ARCHIVE")]
    DbArchive,
    #[serde(rename = "DB_ASSOC")]
    DbAssoc,
    #[serde(rename = "DB_EVENT")]
    DbEvent,
    #[serde(rename = "DB_JOB")]
    DbJob,
    #[serde(rename = "DB_QOS")]
    DbQos,
    #[serde(rename = "DB_QUERY")]
    DbQuery,
    #[serde(rename = "DB_RESERVATION")]
    DbReservation,
    #[serde(rename = "DB_RESOURCE")]
    DbResource,
    #[serde(rename = "DB_STEP")]
    DbStep,
    #[serde(rename = "DB_TRES")]
    DbTres,
    #[serde(rename = "DB_USAGE")]
    DbUsage,
    Network,
}

/// Settings of accounting for slurm.conf.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AccountingSlurmConfig {
    /// The resources that are accounted for, separated by commas.
    #[schemars(
        length(max = 1024),
        regex(pattern = r"^((Billing|CPU|Mem|VMem|Node|Energy|Pages|FS/Disk|FS/Lustre|Gres/gpu)(,|$))+$")
    )]
    #[serde(rename = "accountingStorageTRES")]
    pub accounting_storage_tres: String,
    /// What else is stored, such as `job_comment,job_script`.
    #[schemars(length(max = 1024))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accounting_store_flags: Option<String>,
    /// Plugin that accounts for the network.
    #[schemars(length(max = 1024))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acct_gather_interconnect_type: Option<String>,
    /// Plugin that accounts for file systems.
    #[schemars(length(max = 1024))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acct_gather_filesystem_type: Option<String>,
    /// Plugin that makes profiles of jobs.
    #[schemars(length(max = 1024))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acct_gather_profile_type: Option<String>,
    /// Plugin that accounts for jobs while they run.
    pub job_acct_gather_type: JobAcctGatherType,
    /// Seconds between two samples of a running job. 0 takes one when the job ends.
    #[schemars(range(min = 0))]
    pub job_acct_gather_frequency: i32,
    /// An option of that plugin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_acct_gather_params: Option<JobAcctGatherParams>,
    /// Weight of waiting time in the priority of a job.
    #[schemars(range(min = 0, max = 32_767))]
    pub priority_weight_age: i32,
    /// Weight of past use in the priority of a job.
    #[schemars(range(min = 0, max = 32_767))]
    pub priority_weight_fairshare: i32,
    /// Weight of the quality of service in the priority of a job.
    #[schemars(range(min = 0, max = 32_767))]
    #[serde(rename = "priorityWeightQOS")]
    pub priority_weight_qos: i32,
    /// Weights of resources in the priority of a job, such as `CPU=1000,Mem=2000`.
    #[schemars(length(max = 1024))]
    #[serde(rename = "priorityWeightTRES", skip_serializing_if = "Option::is_none")]
    pub priority_weight_tres: Option<String>,
}

impl Default for AccountingSlurmConfig {
    fn default() -> Self {
        Self {
            accounting_storage_tres: "CPU,Mem,Node,VMem,Gres/gpu".into(),
            accounting_store_flags: None,
            acct_gather_interconnect_type: None,
            acct_gather_filesystem_type: None,
            acct_gather_profile_type: None,
            job_acct_gather_type: JobAcctGatherType::Cgroup,
            job_acct_gather_frequency: 0,
            job_acct_gather_params: None,
            priority_weight_age: 0,
            priority_weight_fairshare: 0,
            priority_weight_qos: 0,
            priority_weight_tres: None,
        }
    }
}

/// Plugin that accounts for jobs while they run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs, reason = "the names are Slurm's")]
pub enum JobAcctGatherType {
    #[serde(rename = "jobacct_gather/linux")]
    Linux,
    #[serde(rename = "jobacct_gather/cgroup")]
    Cgroup,
    #[serde(rename = "jobacct_gather/none")]
    None,
}

/// An option of the plugin that accounts for jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs, reason = "the names are Slurm's")]
pub enum JobAcctGatherParams {
    NoShared,
    UsePss,
    OverMemoryKill,
    DisableGPUAcct,
}
