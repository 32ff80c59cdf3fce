//! A Slurm cluster, wherever it runs, that node sets join.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::crd::cel::rule;

/// Where the cluster's REST API is, and how to log in to it.
#[derive(Clone, Debug, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "slinky.slurm.net",
    version = "v1alpha1",
    kind = "Cluster",
    plural = "clusters",
    namespaced,
    schema = "manual",
    status = "ClusterStatus",
    derive = "PartialEq",
    printcolumn(name = "READY", type_ = "string", json_path = ".status.isReady"),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSpec {
    /// Base URL of the cluster's slurmrestd, such as `http://slurm-restapi:6820`.
    #[schemars(
        length(min = 1, max = 2048),
        extend("x-kubernetes-validations" = [rule(
            "self.matches('^https?://[^/]+')",
            "spec.server must be the base URL of a slurmrestd, such as http://slurm-restapi:6820",
        )])
    )]
    pub server: String,
    /// The token that the operator shows to the REST API.
    pub token: ClusterToken,
}

/// The token that the operator shows to the REST API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterToken {
    /// Name of a Secret in the same namespace. It holds the JWT under the key `auth-token`.
    #[schemars(length(min = 1, max = 253))]
    pub secret_ref: String,
}

/// What the operator sees of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterStatus {
    /// Whether the REST API answers. Absent means no.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_ready: Option<bool>,
    /// How Slurm calls the cluster. Answers of any other cluster are not believed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slurm_cluster_name: Option<String>,
    /// The generation of the spec that this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// What is known about the cluster, one entry per aspect.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
}

crate::crd::root_schema!(
    Cluster,
    ClusterSpec,
    ClusterStatus,
    "A Slurm cluster that node sets join. It may run anywhere, as long as its REST API can be reached."
);
