//! What slurmdbd keeps: who may use the cluster, and what ran on it.

use crate::{JobId, JobState, Number};

/// A user in the accounting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The name of the user.
    pub name: String,
    /// What the user may administer: None, Operator, Administrator.
    pub admin_level: String,
    /// The account that pays unless another is named.
    pub default_account: String,
}

/// An account in the accounting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// Whose it is.
    pub organization: String,
}

/// That a user (or all of an account) may use a cluster for an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Association {
    /// The cluster.
    pub cluster: String,
    /// The account.
    pub account: String,
    /// The user; empty when it is about the account itself.
    pub user: String,
    /// The partition; empty when it is about all.
    pub partition: String,
    /// The account above.
    pub parent_account: String,
    /// Whether it is the user's default.
    pub is_default: bool,
    /// Its share.
    pub shares: u64,
    /// The qualities of service that it may use, with commas between them.
    pub qos: String,
}

/// A quality of service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Qos {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// Its number.
    pub id: u64,
    /// Its priority.
    pub priority: Number,
}

/// A cluster in the accounting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountedCluster {
    /// Its name.
    pub name: String,
    /// The host of its controller; empty while it is not registered.
    pub controller_host: String,
    /// The port of its controller.
    pub controller_port: u64,
    /// Its nodes, as a host list.
    pub nodes: String,
}

/// A job in the accounting. Times are seconds since 1970, 0 when there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountedJob {
    /// Its number.
    pub id: JobId,
    /// The cluster that it ran on.
    pub cluster: String,
    /// Its name.
    pub name: String,
    /// Its state.
    pub state: JobState,
    /// Who started it.
    pub user: String,
    /// The account that paid.
    pub account: String,
    /// The partition.
    pub partition: String,
    /// The nodes that it had, as a host list.
    pub nodes: String,
    /// When it was submitted.
    pub submit_time: u64,
    /// When it started.
    pub start_time: u64,
    /// When it ended.
    pub end_time: u64,
    /// The status with which it ended.
    pub exit_status: Number,
}
