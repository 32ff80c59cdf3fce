//! topology.conf where nothing else writes it: all workers in one place, so that slurmctld starts.

use slurm::conf::{Below, BlockTopology, Name, Switch, TreeTopology};
use slurm::{HostList, NodeName};

use super::config::Config;
use crate::Facts;

/// The plugins whose file the operator writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TopologyPlugin {
    /// Switches.
    Tree,
    /// Blocks of this many nodes.
    Block(u32),
}

impl TopologyPlugin {
    pub(super) fn new(plugin: &str, block_size: i32) -> Option<Self> {
        match plugin {
            "topology/tree" => Some(Self::Tree),
            "topology/block" => Some(Self::Block(u32::try_from(block_size).unwrap_or(1).max(1))),
            _ => None,
        }
    }
}

/// The switch or block of workers whose place nobody knows.
const UNKNOWN: &str = "unknown";

pub(super) fn topology(config: &Config, facts: &Facts) -> Option<String> {
    let plugin = config.topology?;
    if let Some(text) = &facts.topology {
        return Some(text.clone());
    }
    let nodes = workers(config, facts);
    let unknown = Name::new("name", UNKNOWN).ok()?;
    let conf = match plugin {
        TopologyPlugin::Tree => {
            let below = Below::Nodes(nodes);
            TreeTopology::new([Switch { name: unknown, below }]).ok()?.to_conf()
        }
        TopologyPlugin::Block(size) => BlockTopology::new([(unknown, nodes)], [size]).ok()?.to_conf(),
    };
    Some(conf.to_string())
}

/// Every worker that there is, or that `slurmNodes.worker` asks for.
fn workers(config: &Config, facts: &Facts) -> HostList {
    let asked = (0..config.workers).filter_map(|ordinal| NodeName::new(format!("worker-{ordinal}")).ok());
    let mut all: std::collections::BTreeSet<NodeName> = asked.collect();
    all.extend(facts.node_sets.values().flat_map(|set| &set.workers).map(|worker| worker.node.clone()));
    all.iter().collect()
}
