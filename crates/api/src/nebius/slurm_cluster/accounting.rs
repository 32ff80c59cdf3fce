//! slurmdbd and its database.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{PersistentVolumeClaimSpec, ResourceRequirements};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AccountingSlurmConfig, NodeContainer, SlurmNode, SlurmdbdConfig};
use crate::common::{Open, yes};
use crate::crd::cel::rule;

/// slurmdbd and its database.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    rule(
        "!self.?enabled.orValue(false) || has(self.slurmdbd)",
        "slurmdbd is missing; accounting that is enabled needs slurmdbd.image",
    ).at(".slurmdbd"),
]))]
pub struct SlurmNodeAccounting {
    /// What all pods have.
    #[serde(flatten)]
    pub node: SlurmNode,
    /// Whether jobs are accounted for.
    #[serde(default)]
    pub enabled: bool,
    /// The container of slurmdbd.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slurmdbd: Option<NodeContainer>,
    /// The container of munge.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub munge: Option<NodeContainer>,
    /// A database that exists already. It wins over mariadbOperator when both are enabled.
    #[serde(rename = "externalDB", skip_serializing_if = "Option::is_none")]
    pub external_db: Option<ExternalDb>,
    /// A database that the MariaDB operator runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mariadb_operator: Option<MariaDbOperator>,
    /// A plain MariaDB that this operator runs. It is what accounting uses when neither externalDB nor mariadbOperator is
    /// enabled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mariadb: Option<MariaDb>,
    /// Settings for slurmdbd.conf.
    #[serde(default)]
    pub slurmdbd_config: SlurmdbdConfig,
    /// Settings of accounting for slurm.conf.
    #[serde(default)]
    pub slurm_config: AccountingSlurmConfig,
}

/// A database that exists already.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [rule(
    "!self.?enabled.orValue(false) || self.?host.orValue('') != ''",
    "externalDB that is enabled needs host; write where the database is",
).at(".host")]))]
pub struct ExternalDb {
    /// Whether slurmdbd uses it.
    #[serde(default)]
    pub enabled: bool,
    /// Its host.
    #[schemars(length(max = 253))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Its port.
    #[schemars(range(min = 0, max = 65_535))]
    #[serde(default = "database_port")]
    pub port: i32,
    /// The user that slurmdbd logs in as. Absent means `slurm`.
    #[schemars(length(max = 253))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Where the password is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password_secret_key_ref: Option<SecretKeyRef>,
    /// Certificates for an encrypted connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<DatabaseTls>,
    /// More of slurmdbd.conf's StorageParameters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_parameters: Option<BTreeMap<String, String>>,
}

const fn database_port() -> i32 {
    3306
}

/// A key of a Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretKeyRef {
    /// Name of the Secret, in the same namespace.
    #[schemars(length(max = 253))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Which of its keys.
    #[schemars(length(max = 253))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// Certificates for an encrypted connection to the database.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DatabaseTls {
    /// Secret with `ca.crt`, the certificate of the authority that signed the server's.
    #[schemars(length(max = 253))]
    #[serde(rename = "serverCASecretRef", skip_serializing_if = "Option::is_none")]
    pub server_ca_secret_ref: Option<String>,
    /// Secret with `tls.crt` and `tls.key`, the certificate that slurmdbd shows.
    #[schemars(length(max = 253))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_cert_secret_ref: Option<String>,
}

/// A database that the MariaDB operator runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MariaDbOperator {
    /// Whether slurmdbd uses it. The MariaDB operator must be installed.
    #[serde(default)]
    pub enabled: bool,
    /// Whether the Secret with the passwords cannot be deleted as long as the cluster exists. It cannot be changed.
    #[schemars(extend("x-kubernetes-validations" = [rule(
        "self == oldSelf",
        "protectedSecret cannot be changed once it is set; make a new cluster instead",
    )]))]
    #[serde(default)]
    pub protected_secret: bool,
    /// The container of the database.
    #[serde(flatten)]
    pub container: NodeContainer,
    /// Security context of the pods, as the MariaDB operator has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_security_context: Option<Open>,
    /// Security context of the container, as the MariaDB operator has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security_context: Option<Open>,
    /// How many database pods there are.
    #[schemars(range(min = 0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Metrics of the database.
    #[serde(default)]
    pub metrics: MariaDbMetrics,
    /// Replication between the pods, as the MariaDB operator has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replication: Option<Open>,
    /// The storage, as the MariaDB operator has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage: Option<Open>,
    /// Priority class of the pods.
    #[schemars(length(max = 253))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,
}

/// Metrics of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MariaDbMetrics {
    /// Whether the MariaDB operator runs an exporter for it.
    #[serde(default = "yes")]
    pub enabled: bool,
}

impl Default for MariaDbMetrics {
    fn default() -> Self {
        Self { enabled: true }
    }
}

/// A plain MariaDB that this operator runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MariaDb {
    /// The image. Absent means the one that the operator was installed with.
    #[schemars(length(max = 4096))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Resources of the container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// The claim of the database. Absent means 10Gi of the default storage class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage: Option<PersistentVolumeClaimSpec>,
}
