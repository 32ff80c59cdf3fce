//! topology.conf where nothing else writes it: all workers in one place, so that slurmctld starts and runs jobs on them.

use slurm::conf::{Below, BlockTopology, Name, Switch, TreeTopology};
use slurm::{HostList, NodeName};

use super::config::Config;
use super::nodes;
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
/// A node that never is. Both Slurms pass over it, while one refuses a switch without nodes, and the other no switch at all.
const NOBODY: &str = "none";

/// Blocks of no nodes: Slurm 24.11 refuses a block that has none, and 26.05 refuses that there is no block. There is no
/// topology then until the first node comes.
pub(super) fn is_impossible(config: &Config, facts: &Facts) -> bool {
    let is_block = matches!(config.topology, Some(TopologyPlugin::Block(_)));
    is_block && facts.topology.is_none() && known(facts).is_empty()
}

fn known(facts: &Facts) -> HostList {
    let workers = facts.node_sets.values().flat_map(|set| &set.workers);
    nodes(workers.filter(|worker| worker.is_known()).map(|worker| &worker.node))
}

pub(super) fn topology(config: &Config, facts: &Facts) -> Option<String> {
    let plugin = config.topology?;
    if let Some(text) = &facts.topology {
        return Some(text.clone());
    }
    if is_impossible(config, facts) {
        return None;
    }
    let mut nodes = known(facts);
    let count = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
    if nodes.is_empty() {
        nodes.push(&NodeName::new(NOBODY).ok()?);
    }
    let unknown = Name::new("name", UNKNOWN).ok()?;
    let conf = match plugin {
        TopologyPlugin::Tree => {
            let below = Below::Nodes(nodes);
            TreeTopology::new([Switch { name: unknown, below }]).ok()?.to_conf()
        }
        TopologyPlugin::Block(size) => {
            // Slurm 24.11 refuses a block with fewer nodes than that.
            let size = size.min(count).max(1);
            BlockTopology::new([(unknown, nodes)], [size]).ok()?.to_conf()
        }
    };
    Some(conf.to_string())
}
