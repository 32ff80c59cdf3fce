//! Partitions: the queues of a cluster.

use crate::Number;

/// A partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Its name.
    pub name: String,
    /// Its state: UP, DOWN, DRAIN, INACTIVE, or a word that we do not know.
    pub state: String,
    /// Its nodes, as a host list.
    pub nodes: String,
    /// Its node sets, with commas between them.
    pub node_sets: String,
    /// How many nodes it has.
    pub total_nodes: u32,
    /// How many CPUs it has.
    pub total_cpus: u32,
    /// The longest time that a job may run, in minutes.
    pub max_time: Number,
    /// The time that a job gets that asks for none, in minutes.
    pub default_time: Number,
    /// The most nodes that a job may have.
    pub max_nodes: Number,
    /// The trackable resources that it has.
    pub tres: String,
}
