//! The program that writes configuration files into the jail.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{NodeContainer, SlurmNode};
use crate::common::DURATION;
use crate::crd::cel::rule;

/// The program that writes configuration files into the jail.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [rule(
    "!has(self.reconfigureWaitTimeout) || !has(self.reconfigurePollInterval) || \
     duration(self.reconfigureWaitTimeout) > duration(self.reconfigurePollInterval)",
    "reconfigureWaitTimeout must be longer than reconfigurePollInterval; raise the first or lower the second",
).at(".reconfigureWaitTimeout")]))]
pub struct SConfigController {
    /// Its pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<SlurmNode>,
    /// Its container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<NodeContainer>,
    /// The user that it runs as. Absent, and 1001, mean the jail's root, with no right but to write files.
    #[schemars(range(min = 0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_as_uid: Option<i64>,
    /// The group that it runs as. Absent, and 1001, mean the jail's root.
    #[schemars(range(min = 0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_as_gid: Option<i64>,
    /// How often it asks Slurm whether all nodes have a new configuration, such as `20s`.
    #[schemars(regex(pattern = DURATION), length(max = 64))]
    #[serde(default = "poll_interval")]
    pub reconfigure_poll_interval: String,
    /// How long it waits for that, such as `1m`. Longer than reconfigurePollInterval.
    #[schemars(regex(pattern = DURATION), length(max = 64))]
    #[serde(default = "wait_timeout")]
    pub reconfigure_wait_timeout: String,
    /// Whether its pods use the users of the host. node.hostUsers wins over it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_users: Option<bool>,
    /// Service account of its pods. Absent means one that the operator makes.
    #[schemars(length(max = 253))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account_name: Option<String>,
}

fn poll_interval() -> String {
    "20s".into()
}

fn wait_timeout() -> String {
    "1m".into()
}
