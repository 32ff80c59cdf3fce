//! A set of Slurm worker pods made from a template.

use k8s_openapi::api::core::v1::{PersistentVolumeClaimSpec, PersistentVolumeClaimStatus, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::{JobCare, RetentionPolicy};
use crate::crd::cel::{COUNT_OR_PERCENT, ORDINAL_PADDING, SET_NAME, rule};

/// What the pods of the set are, and how they change.
#[derive(Clone, Debug, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "slinky.slurm.net",
    version = "v1alpha1",
    kind = "NodeSet",
    plural = "nodesets",
    shortname = "nodesets",
    shortname = "nss",
    namespaced,
    schema = "manual",
    status = "NodeSetStatus",
    derive = "PartialEq",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn(name = "REPLICAS", type_ = "integer", json_path = ".status.replicas"),
    printcolumn(name = "UPDATED", type_ = "integer", json_path = ".status.updatedReplicas"),
    printcolumn(name = "READY", type_ = "integer", json_path = ".status.readyReplicas"),
    printcolumn(name = "IDLE", type_ = "integer", json_path = ".status.slurmIdle", priority = 1),
    printcolumn(name = "ALLOCATED", type_ = "integer", json_path = ".status.slurmAllocated", priority = 1),
    printcolumn(name = "DOWN", type_ = "integer", json_path = ".status.slurmDown", priority = 1),
    printcolumn(name = "DRAIN", type_ = "integer", json_path = ".status.slurmDrain", priority = 1),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    rule(
        "!has(self.selector.matchLabels) || (has(self.template.metadata) && has(self.template.metadata.labels) && \
         self.selector.matchLabels.all(key, key in self.template.metadata.labels && \
         self.template.metadata.labels[key] == self.selector.matchLabels[key]))",
        "spec.selector.matchLabels must also be labels of the pods; write the same labels to \
         spec.template.metadata.labels",
    ).at(".selector"),
    ORDINAL_PADDING,
]))]
pub struct NodeSetSpec {
    /// Name of the Cluster, in the same namespace, that the nodes join. It cannot be changed: make a new NodeSet instead.
    #[schemars(
        length(min = 1, max = 253),
        extend("x-kubernetes-validations" = [rule(
            "self == oldSelf",
            "spec.clusterName cannot be changed; make a new NodeSet for the other cluster",
        )])
    )]
    pub cluster_name: String,
    /// How many pods there should be.
    #[schemars(range(min = 0))]
    #[serde(default = "one")]
    pub replicas: i32,
    /// The pods that belong to the set. The labels of the template must match it.
    #[schemars(extend("x-kubernetes-validations" = [rule(
        "(has(self.matchLabels) && size(self.matchLabels) > 0) || \
         (has(self.matchExpressions) && size(self.matchExpressions) > 0)",
        "spec.selector must not be empty; write matchLabels that spec.template.metadata.labels have too",
    )]))]
    pub selector: LabelSelector,
    /// Name of the headless Service that gives the pods their host names. It cannot be changed.
    #[schemars(
        length(min = 1, max = 63),
        extend("x-kubernetes-validations" = [rule(
            "self == oldSelf",
            "spec.serviceName cannot be changed; make a new NodeSet with the other Service",
        )])
    )]
    pub service_name: String,
    /// The pods to make.
    pub template: PodTemplateSpec,
    /// Claims that each pod gets for itself, named after the claim and the pod.
    #[schemars(length(max = 64))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_claim_templates: Option<Vec<VolumeClaimTemplate>>,
    /// How pods change when the template does.
    #[serde(default)]
    pub update_strategy: UpdateStrategy,
    /// How many old revisions of the template are kept besides those in use.
    #[schemars(range(min = 0))]
    #[serde(default)]
    pub revision_history_limit: i32,
    /// What becomes of the claims of volumeClaimTemplates. Without it all of them stay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistent_volume_claim_retention_policy: Option<ClaimRetentionPolicy>,
    /// How many seconds a pod must be ready before it counts as available. Absent means 0.
    #[schemars(range(min = 0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_ready_seconds: Option<i32>,
    /// What both groups' node sets have.
    #[serde(flatten)]
    pub care: JobCare,
}

const fn one() -> i32 {
    1
}

/// A claim that each pod gets for itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [rule(
    "has(self.metadata) && has(self.metadata.name) && self.metadata.name != ''",
    "metadata.name is missing; write the name that volumeMounts of the containers use",
)]))]
pub struct VolumeClaimTemplate {
    /// `v1`, or nothing.
    #[schemars(extend("enum" = ["v1"]))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// `PersistentVolumeClaim`, or nothing.
    #[schemars(extend("enum" = ["PersistentVolumeClaim"]))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Name, labels and annotations of the claim. The name is what volumeMounts of the containers use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<ObjectMeta>,
    /// The storage that the claim asks for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spec: Option<PersistentVolumeClaimSpec>,
    /// Accepted because Kubernetes writes it into claims, and ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<PersistentVolumeClaimStatus>,
}

/// How pods change when the template does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdateStrategy {
    /// `RollingUpdate` drains and replaces pods by itself. `OnDelete` replaces a pod after somebody deleted it.
    /// `InPlaceIfPossible` changes images inside the running pod where that is all that changed, after its jobs are done,
    /// and else does what RollingUpdate does.
    #[serde(default, rename = "type")]
    pub type_: UpdateStrategyType,
    /// Limits of an update that runs by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rolling_update: Option<RollingUpdate>,
    /// Stops an update where it is, until it is false or gone. Pods that were drained for it stay as they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
}

/// Kinds of update.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum UpdateStrategyType {
    /// Drain and replace pods.
    #[default]
    RollingUpdate,
    /// Replace a pod after somebody deleted it.
    OnDelete,
    /// Change images in the running pod where that is all that changed.
    InPlaceIfPossible,
}

/// Limits of an update that runs by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RollingUpdate {
    /// How many pods may be away because of the update: a number, or a percentage of replicas, rounded up. Absent means 1.
    #[schemars(
        extend("maxLength" = 16),
        extend("x-kubernetes-validations" = [COUNT_OR_PERCENT])
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<IntOrString>,
    /// Only pods whose ordinal is at least this change. Absent means all.
    #[schemars(range(min = 0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<i32>,
}

/// What becomes of claims when pods go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimRetentionPolicy {
    /// When the NodeSet is deleted.
    pub when_deleted: RetentionPolicy,
    /// When a pod goes because there are fewer replicas.
    pub when_scaled: RetentionPolicy,
}

/// What the operator sees of the set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeSetStatus {
    /// Pods that exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Pods made from the newest template.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated_replicas: Option<i32>,
    /// Pods that are ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<i32>,
    /// Pods that have been ready for minReadySeconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available_replicas: Option<i32>,
    /// Pods that are not available.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unavailable_replicas: Option<i32>,
    /// Slurm nodes that are idle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slurm_idle: Option<i32>,
    /// Slurm nodes that run jobs, on some or all of their CPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slurm_allocated: Option<i32>,
    /// Slurm nodes that are down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slurm_down: Option<i32>,
    /// Slurm nodes that take no new jobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slurm_drain: Option<i32>,
    /// The generation of the spec that this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Hash of the newest template; pods made from it have it as a label.
    #[serde(default)]
    pub node_set_hash: String,
    /// How often the name of a revision was taken already.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i32>,
    /// What is known about the set, one entry per aspect.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
    /// spec.selector as text, for the scale subresource.
    #[serde(default)]
    pub selector: String,
}

crate::crd::root_schema!(
    NodeSet,
    NodeSetSpec,
    NodeSetStatus,
    "A set of Slurm worker pods made from one template. Pods with running jobs are drained before they go.",
    [SET_NAME]
);
