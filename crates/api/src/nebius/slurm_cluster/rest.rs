//! slurmrestd for users.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{NodeContainer, SlurmNode};

/// slurmrestd for users. The operator runs one for itself in any case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SlurmRest {
    /// What all pods have.
    #[serde(flatten)]
    pub node: SlurmNode,
    /// Whether users get a Service for it.
    #[serde(default)]
    pub enabled: bool,
    /// Threads that answer requests.
    #[schemars(range(min = 2, max = 1024))]
    #[serde(default = "thread_count")]
    pub thread_count: i32,
    /// Connections that are served at once.
    #[schemars(range(min = 2))]
    #[serde(default = "max_connections")]
    pub max_connections: i32,
    /// The container of slurmrestd.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rest: Option<NodeContainer>,
}

const fn thread_count() -> i32 {
    3
}

const fn max_connections() -> i32 {
    10
}
