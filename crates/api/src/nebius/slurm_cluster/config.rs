//! Settings for Slurm's own files.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings for slurm.conf. Each is written under the name that Slurm gives it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SlurmConfig {
    /// Memory in MiB that a job gets on each node when it asks for none.
    pub def_mem_per_node: i32,
    /// CPUs that a job gets for each GPU when it asks for none.
    #[serde(rename = "defCpuPerGPU")]
    pub def_cpu_per_gpu: i32,
    /// Seconds that the scheduler waits for a job to complete before it starts others.
    pub complete_wait: i32,
    /// Program that runs on a node after each job. Empty means none.
    pub epilog: String,
    /// Program that runs on a node before each job. Empty means none.
    pub prolog: String,
    /// Program that runs before each task, as its user. Absent means none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_prolog: Option<String>,
    /// Options of the task plugins.
    pub task_plugin_param: String,
    /// How many jobs slurmctld holds at once.
    pub max_job_count: i32,
    /// Seconds after which slurmctld forgets a finished job.
    pub min_job_age: i32,
    /// Seconds that a message between daemons may take.
    pub message_timeout: i32,
    /// `topology/tree` or `topology/block` make the operator write topology.conf; any other value leaves it to you.
    #[schemars(length(max = 256))]
    pub topology_plugin: String,
    /// Options of the topology plugin.
    pub topology_param: String,
    /// Nodes per block for topology/block. topology.blockSize wins over it.
    #[schemars(range(min = 1), extend("format" = "int32"))]
    pub topology_block_size: i32,
    /// Seconds after which an idle node is suspended. Absent means never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspend_time: Option<i32>,
    /// Seconds that a node may take from being resumed or rebooted until it registers. Absent means 1800.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resume_timeout: Option<i32>,
}

impl Default for SlurmConfig {
    fn default() -> Self {
        Self {
            def_mem_per_node: 1_048_576,
            def_cpu_per_gpu: 4,
            complete_wait: 5,
            epilog: String::new(),
            prolog: String::new(),
            task_prolog: None,
            task_plugin_param: String::new(),
            max_job_count: 20_000,
            min_job_age: 28_800,
            message_timeout: 60,
            topology_plugin: "topology/tree".into(),
            topology_param: "SwitchAsNodeRank".into(),
            topology_block_size: 18,
            suspend_time: None,
            resume_timeout: None,
        }
    }
}

/// Settings of the network topology.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TopologySettings {
    /// Nodes per block for topology/block. Absent means slurmConfig.topologyBlockSize.
    #[schemars(range(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_size: Option<i32>,
}

/// Settings for mpi.conf.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MpiConfig {
    /// Environment variables for PMIx, separated by `;`. Empty means none.
    pub pmix_env: String,
}

impl Default for MpiConfig {
    fn default() -> Self {
        Self { pmix_env: "OMPI_MCA_btl_tcp_if_include=eth0".into() }
    }
}

/// The program that Slurm runs on its nodes to see whether they are healthy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HealthCheckConfig {
    /// Seconds between two runs.
    #[schemars(range(min = 0))]
    pub health_check_interval: i32,
    /// Path of the program, as worker pods see it.
    #[schemars(length(max = 4096))]
    pub health_check_program: String,
    /// States of nodes that the program runs on.
    #[schemars(length(min = 1, max = 16))]
    pub health_check_node_state: Vec<HealthCheckNodeState>,
}

/// A state of nodes that the health check runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HealthCheckNodeState {
    /// Slurm's name of the state. CYCLE spreads the runs over the interval.
    pub state: HealthCheckState,
}

/// Slurm's names of states for the health check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum HealthCheckState {
    /// Nodes whose CPUs are all taken.
    Alloc,
    /// Nodes in any state.
    Any,
    /// Spread over the interval.
    Cycle,
    /// Idle nodes.
    Idle,
    /// Idle nodes that are not drained.
    NondrainedIdle,
    /// Nodes with some CPUs taken.
    Mixed,
}
