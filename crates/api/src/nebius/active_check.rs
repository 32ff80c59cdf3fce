//! A check that runs as a job, once or again and again.

use k8s_openapi::api::core::v1::{EnvVar, Volume, VolumeMount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Placement, StatusMetadata, unconfined};
use crate::crd::cel::rule;

/// What is checked, when, and what follows.
#[derive(Clone, Debug, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "slurm.nebius.ai",
    version = "v1alpha1",
    kind = "ActiveCheck",
    plural = "activechecks",
    namespaced,
    schema = "manual",
    status = "ActiveCheckStatus",
    derive = "PartialEq",
    printcolumn(name = "Type", type_ = "string", json_path = ".spec.checkType"),
    printcolumn(name = "Init", type_ = "boolean", json_path = ".spec.runAfterCreation"),
    printcolumn(name = "Suspend", type_ = "boolean", json_path = ".spec.suspend"),
    printcolumn(name = "Schedule", type_ = "string", json_path = ".spec.schedule"),
    printcolumn(name = "K8s Status", type_ = "string", json_path = ".status.k8sJobsStatus.lastJobStatus"),
    printcolumn(
        name = "Slurm Status",
        type_ = "string",
        json_path = ".status.slurmJobsStatus.lastRunStatus"
    ),
    printcolumn(
        name = "Slurm Submit Time",
        type_ = "date",
        json_path = ".status.slurmJobsStatus.lastRunSubmitTime"
    ),
    printcolumn(name = "Slurm ID", type_ = "string", json_path = ".status.slurmJobsStatus.lastRunId"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    rule(
        "self.?checkType.orValue('k8sJob') != 'k8sJob' || has(self.k8sJobSpec) || has(self.podTemplateNameRef)",
        "spec.k8sJobSpec is missing; checkType k8sJob needs it (or write checkType: slurmJob)",
    ).at(".k8sJobSpec"),
    rule(
        "self.?checkType.orValue('k8sJob') != 'slurmJob' || has(self.podTemplateNameRef) || \
         (has(self.slurmJobSpec) && (has(self.slurmJobSpec.sbatchScript) || has(self.slurmJobSpec.sbatchScriptRefName)))",
        "spec.slurmJobSpec needs sbatchScript or sbatchScriptRefName, because checkType is slurmJob",
    ).at(".slurmJobSpec"),
]))]
pub struct ActiveCheckSpec {
    /// Name of the container, and beginning of the names of the Jobs.
    #[schemars(
        length(min = 1, max = 63),
        extend("x-kubernetes-validations" = [rule(
            "self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
            "spec.name must be of a-z, 0-9 and '-', because a container and Jobs are named after it",
        )])
    )]
    pub name: String,
    /// Name of the SlurmCluster, in the same namespace, that is checked.
    #[schemars(length(min = 1, max = 253))]
    pub slurm_cluster_ref_name: String,
    /// ActiveChecks, in the same namespace, that must have succeeded before the first run. Only those with runAfterCreation
    /// count.
    #[schemars(length(max = 128), inner(length(max = 253)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depends_on: Option<Vec<String>>,
    /// When it runs, as cron has it.
    #[schemars(length(min = 1, max = 256))]
    #[serde(default = "schedule")]
    pub schedule: String,
    /// Whether the schedule is off.
    #[serde(default = "crate::common::yes")]
    pub suspend: bool,
    /// How many seconds a run may take.
    #[schemars(range(min = 0))]
    #[serde(default = "active_deadline_seconds")]
    pub active_deadline_seconds: i64,
    /// How many Jobs that succeeded are kept.
    #[schemars(range(min = 0))]
    #[serde(default = "successful_jobs_history_limit")]
    pub successful_jobs_history_limit: i32,
    /// How many Jobs that failed are kept.
    #[schemars(range(min = 0))]
    #[serde(default = "failed_jobs_history_limit")]
    pub failed_jobs_history_limit: i32,
    /// Whether it also runs once as soon as the cluster is there.
    #[serde(default = "crate::common::yes")]
    pub run_after_creation: bool,
    /// Which nodes the pods run on.
    #[serde(flatten)]
    pub placement: Placement,
    /// Name of a PodTemplate, in the same namespace, that is merged over the pod that the operator makes.
    #[schemars(length(max = 253))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_template_name_ref: Option<String>,
    /// The check as a Kubernetes Job. Used by checkType k8sJob.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub k8s_job_spec: Option<K8sJobSpec>,
    /// The check as a Slurm job. Used by checkType slurmJob.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slurm_job_spec: Option<SlurmJobSpec>,
    /// Whether the check is a Kubernetes Job (`k8sJob`) or a Slurm job (`slurmJob`).
    #[serde(default)]
    pub check_type: CheckType,
    /// What follows when it succeeds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub success_reactions: Option<Reactions>,
    /// What follows when it fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_reactions: Option<Reactions>,
}

fn schedule() -> String {
    "0 0 1 1 *".into()
}

const fn active_deadline_seconds() -> i64 {
    1800
}

const fn successful_jobs_history_limit() -> i32 {
    3
}

const fn failed_jobs_history_limit() -> i32 {
    16
}

/// What a check runs as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum CheckType {
    /// A Kubernetes Job.
    #[default]
    #[serde(rename = "k8sJob")]
    K8sJob,
    /// A Slurm job.
    #[serde(rename = "slurmJob")]
    SlurmJob,
}

/// A container of a check.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckContainer {
    /// The image.
    #[schemars(length(max = 4096))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The command, instead of the image's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    /// The arguments, instead of the image's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args: Option<Vec<String>>,
    /// Environment variables.
    #[schemars(
        length(max = 256),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<Vec<EnvVar>>,
    /// Where volumes are mounted.
    #[schemars(
        length(max = 256),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["mountPath"])
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_mounts: Option<Vec<VolumeMount>>,
    /// Volumes of the pod.
    #[schemars(
        length(max = 256),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volumes: Option<Vec<Volume>>,
    /// AppArmor profile, such as `localhost/name`.
    #[schemars(length(max = 512))]
    #[serde(default = "unconfined")]
    pub app_armor_profile: String,
}

/// A check as a Kubernetes Job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct K8sJobSpec {
    /// The container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_container: Option<CheckContainer>,
    /// ConfigMap with the script, under the key `script.sh`.
    #[schemars(length(max = 253))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script_ref_name: Option<String>,
}

/// A check as a Slurm job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SlurmJobSpec {
    /// The container that submits the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_container: Option<CheckContainer>,
    /// The container of munge.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub munge_container: Option<CheckContainer>,
    /// ConfigMap with the batch script, under the key `sbatch.sh`.
    #[schemars(length(max = 253))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sbatch_script_ref_name: Option<String>,
    /// The batch script itself.
    #[schemars(length(max = 524_288))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sbatch_script: Option<String>,
    /// Whether each worker gets a job of its own.
    #[serde(default)]
    pub each_worker_jobs: bool,
    /// How many jobs there are at most in one run. 0 means no limit.
    #[schemars(range(min = 0))]
    #[serde(default)]
    pub max_number_of_jobs: i64,
}

/// What follows the end of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Reactions {
    /// Drain the Slurm nodes that were checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain_slurm_node: Option<DrainSlurmNode>,
    /// Write a comment to the Slurm nodes that were checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment_slurm_node: Option<CommentSlurmNode>,
    /// Reserve the Slurm nodes that were checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub add_reservation: Option<ReservationReaction>,
    /// Remove the reservation of the Slurm nodes that were checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remove_reservation: Option<ReservationReaction>,
}

/// How nodes are drained.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DrainSlurmNode {
    /// Beginning of the reason that Slurm shows.
    #[schemars(length(max = 1024))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain_reason_prefix: Option<String>,
}

/// How nodes are commented on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommentSlurmNode {
    /// Beginning of the comment.
    #[schemars(length(max = 1024))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment_prefix: Option<String>,
}

/// Which reservation of a node is meant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReservationReaction {
    /// Beginning of the reservation's name; the node's name follows.
    #[schemars(length(max = 253))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
}

/// What came of the check.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ActiveCheckStatus {
    /// What all such statuses have.
    #[serde(flatten)]
    pub metadata: StatusMetadata,
    /// The last Kubernetes Job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub k8s_jobs_status: Option<K8sJobsStatus>,
    /// The last Slurm jobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slurm_jobs_status: Option<SlurmJobsStatus>,
}

/// The last Kubernetes Job of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct K8sJobsStatus {
    /// When the state changed last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// When a Job was made last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_job_schedule_time: Option<Time>,
    /// When a Job succeeded last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_job_successful_time: Option<Time>,
    /// Name of the last Job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_job_name: Option<String>,
    /// `Active`, `Pending`, `Complete`, `Failed`, `Suspended` or `Unknown`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_job_status: Option<String>,
}

/// The last Slurm jobs of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SlurmJobsStatus {
    /// When the state changed last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// Ids of the jobs of the last run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_run_id: Option<String>,
    /// Name of the jobs of the last run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_run_name: Option<String>,
    /// `InProgress`, `Complete`, `Failed` or `Error`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_run_status: Option<String>,
    /// Jobs of the last run that failed, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_run_fail_jobs_and_reasons: Option<Vec<JobAndReason>>,
    /// Jobs of the last run whose outcome could not be learned, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_run_error_jobs_and_reasons: Option<Vec<JobAndReason>>,
    /// When the last run was submitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_run_submit_time: Option<Time>,
}

/// A Slurm job and why it failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobAndReason {
    /// Id of the job.
    #[serde(rename = "jobID", skip_serializing_if = "Option::is_none")]
    pub job_id: Option<String>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

crate::crd::root_schema!(
    ActiveCheck,
    ActiveCheckSpec,
    ActiveCheckStatus,
    "A check of a cluster that runs as a Kubernetes Job or as a Slurm job, once or again and again."
);
