//! A node, as slurmctld knows it.

use std::sync::Arc;

use crate::{NodeState, Number};

/// A node. Times are seconds since 1970, 0 when there is none; memory is in MiB.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Its NodeName.
    pub name: Arc<str>,
    /// Its state.
    pub state: NodeState,
    /// Why it is down or drained.
    pub reason: Arc<str>,
    /// When the reason was set.
    pub reason_time: u64,
    /// Who set the reason.
    pub reason_user: Arc<str>,
    /// Free text.
    pub comment: Arc<str>,
    /// Free text that jobs may filter by.
    pub extra: Arc<str>,
    /// Its NodeAddr.
    pub address: Arc<str>,
    /// Its NodeHostname.
    pub hostname: Arc<str>,
    /// Its partitions, with commas between them.
    pub partitions: Arc<str>,
    /// The features that it may have, with commas.
    pub features: Arc<str>,
    /// The features that it has, with commas.
    pub active_features: Arc<str>,
    /// Its generic resources.
    pub gres: Arc<str>,
    /// Those in use.
    pub gres_used: Arc<str>,
    /// Its trackable resources.
    pub tres: Arc<str>,
    /// Those in use.
    pub tres_used: Arc<str>,
    /// Where it stands in the topology.
    pub topology: Arc<str>,
    /// The reservation that it is part of.
    pub reservation: Arc<str>,
    /// The identity of the machine in its cloud.
    pub instance_id: Arc<str>,
    /// The type of the machine in its cloud.
    pub instance_type: Arc<str>,
    /// The version of its slurmd.
    pub version: Arc<str>,
    /// All CPUs.
    pub cpus: u32,
    /// The CPUs that jobs can have.
    pub effective_cpus: u32,
    /// The CPUs that jobs have.
    pub alloc_cpus: u32,
    /// All memory.
    pub real_memory: u64,
    /// The memory kept from jobs.
    pub specialized_memory: u64,
    /// The memory that jobs have.
    pub alloc_memory: u64,
    /// When the machine booted.
    pub boot_time: u64,
    /// When its slurmd started.
    pub slurmd_start_time: u64,
    /// What changes all the time.
    pub load: NodeLoad,
}

/// Figures that change with every look at a node, so a change of them is no news.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeLoad {
    /// Free memory in MiB as the operating system counts it.
    pub free_memory: Number,
    /// The load of the CPUs, times 100.
    pub cpu_load: u32,
    /// When it was last busy.
    pub last_busy: u64,
}

impl Node {
    /// Whether the other record says something new, apart from its load.
    pub fn differs_from(&self, other: &Self) -> bool {
        Self { load: other.load, ..self.clone() } != *other
    }
}

/// What to change of a node. Nothing is changed where there is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeUpdate {
    /// The state that it is to take.
    pub state: Option<NodeTarget>,
    /// Why.
    pub reason: Option<String>,
    /// Free text.
    pub comment: Option<String>,
    /// Free text that jobs may filter by.
    pub extra: Option<String>,
    /// Its features.
    pub features: Option<Vec<String>>,
    /// Its active features.
    pub active_features: Option<Vec<String>>,
    /// Its place in the topology, as `default:leaf-1`.
    pub topology: Option<String>,
}

/// A state that a node can be told to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeTarget {
    /// Take no more jobs; those that run go on. Slurm wants a reason.
    Drain,
    /// Take jobs again.
    Resume,
    /// Out of service; **jobs on it are killed**. Slurm wants a reason.
    Down,
    /// Take back the drain, without touching whether it is down.
    Undrain,
}

impl NodeTarget {
    /// Slurm's word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Drain => "DRAIN",
            Self::Resume => "RESUME",
            Self::Down => "DOWN",
            Self::Undrain => "UNDRAIN",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_the_load_alone_is_no_news() {
        let node = Node { name: "a".into(), ..Node::default() };
        let load = NodeLoad { free_memory: Number::Value(3), cpu_load: 7, last_busy: 1 };
        assert!(!node.differs_from(&Node { load, ..node.clone() }));
        assert!(node.differs_from(&Node { alloc_cpus: 1, ..node.clone() }));
        assert!(node.differs_from(&Node { reason: "broken".into(), ..node.clone() }));
    }
}
