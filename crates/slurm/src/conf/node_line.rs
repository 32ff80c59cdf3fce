//! The lines of slurm.conf that are about nodes: `NodeName=`, `NodeSet=` and `DownNodes=`.

use std::fmt;

use super::text::Pairs;
use super::value::{Key, Name, Problem, Value, ValueError};
use crate::hostlist::HostList;
use crate::memory::Memory;
use crate::node_name::NodeName;
use crate::{key, value};

/// `NodeName=...`: nodes and what they have. What is `None` is not written, and Slurm's default holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeLine {
    /// The nodes.
    pub names: SomeNodes,
    /// What the machines call themselves, if it is not the node name. As many as there are nodes.
    pub host_names: Option<HostList>,
    /// Where slurmd listens: addresses or DNS names, one, or as many as there are nodes.
    pub address: Option<Value>,
    /// The port of slurmd.
    pub port: Option<u16>,
    /// Logical processors.
    pub cpus: Option<u32>,
    /// Boards.
    pub boards: Option<u16>,
    /// Sockets, on all boards together.
    pub sockets: Option<u16>,
    /// Cores of each socket.
    pub cores_per_socket: Option<u16>,
    /// Threads of each core.
    pub threads_per_core: Option<u16>,
    /// Memory.
    pub real_memory: Option<Memory>,
    /// Features that jobs can ask for.
    pub features: Vec<Name>,
    /// Generic resources.
    pub gres: Vec<Gres>,
    /// Nodes of less weight get jobs first.
    pub weight: Option<u32>,
    /// The state to begin with.
    pub state: Option<NodeLineState>,
    /// Other settings, as the user wrote them: see [`super::user_pairs`].
    pub extra: Vec<(Key, Value)>,
}

impl NodeLine {
    /// A line for these nodes, with nothing else on it.
    #[must_use]
    pub fn new(names: SomeNodes) -> Self {
        Self {
            names,
            host_names: None,
            address: None,
            port: None,
            cpus: None,
            boards: None,
            sockets: None,
            cores_per_socket: None,
            threads_per_core: None,
            real_memory: None,
            features: Vec::new(),
            gres: Vec::new(),
            weight: None,
            state: None,
            extra: Vec::new(),
        }
    }
}

/// One node or more. A line for none would be refused by Slurm, or mean something else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SomeNodes(HostList);

impl SomeNodes {
    /// Checks that there is a node.
    ///
    /// # Errors
    ///
    /// There is none.
    pub fn new(field: &str, nodes: HostList) -> Result<Self, ValueError> {
        if nodes.is_empty() {
            return Err(ValueError::Text { field: field.into(), problem: Problem::Empty });
        }
        Ok(Self(nodes))
    }

    /// The nodes.
    #[must_use]
    pub fn list(&self) -> &HostList {
        &self.0
    }
}

impl From<&NodeName> for SomeNodes {
    fn from(node: &NodeName) -> Self {
        Self(HostList::from_iter([node]))
    }
}

impl From<SomeNodes> for Value {
    fn from(nodes: SomeNodes) -> Self {
        nodes.0.into()
    }
}

/// `None` for no items, so that the key is not written.
pub(super) fn some_list<T>(items: Vec<T>) -> Option<Value>
where
    Value: From<T>,
{
    (!items.is_empty()).then(|| Value::list(items))
}

impl From<NodeLine> for Pairs {
    fn from(line: NodeLine) -> Self {
        Pairs::new(key!("NodeName"), line.names)
            .with_some(key!("NodeHostname"), line.host_names)
            .with_some(key!("NodeAddr"), line.address)
            .with_some(key!("Port"), line.port)
            .with_some(key!("CPUs"), line.cpus)
            .with_some(key!("Boards"), line.boards)
            .with_some(key!("Sockets"), line.sockets)
            .with_some(key!("CoresPerSocket"), line.cores_per_socket)
            .with_some(key!("ThreadsPerCore"), line.threads_per_core)
            .with_some(key!("RealMemory"), line.real_memory)
            .with_some(key!("Feature"), some_list(line.features))
            .with_some(key!("Gres"), some_list(line.gres))
            .with_some(key!("Weight"), line.weight)
            .with_some(key!("State"), line.state)
            .with_all(line.extra)
    }
}

/// The state of a node in slurm.conf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeLineState {
    /// The node comes and goes; it is not there until something starts it.
    Cloud,
    /// The node may come one day; nobody sees it until then.
    Future,
    /// Slurm finds out.
    Unknown,
    /// Not usable.
    Down,
    /// No new jobs.
    Drain,
    /// No new jobs, because it fails.
    Fail,
}

impl From<NodeLineState> for Value {
    fn from(state: NodeLineState) -> Self {
        match state {
            NodeLineState::Cloud => value!("CLOUD"),
            NodeLineState::Future => value!("FUTURE"),
            NodeLineState::Unknown => value!("UNKNOWN"),
            NodeLineState::Down => value!("DOWN"),
            NodeLineState::Drain => value!("DRAIN"),
            NodeLineState::Fail => value!("FAIL"),
        }
    }
}

/// Generic resources of a node: `gpu:8` or `gpu:h100:8`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gres {
    /// What they are: `gpu`.
    pub name: Name,
    /// Which of them: `h100`.
    pub kind: Option<Name>,
    /// How many.
    pub count: u64,
}

impl fmt::Display for Gres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.name)?;
        if let Some(kind) = &self.kind {
            write!(f, "{kind}:")?;
        }
        write!(f, "{}", self.count)
    }
}

impl From<Gres> for Value {
    fn from(gres: Gres) -> Self {
        Value::printed(&gres)
    }
}

/// `NodeSet=...`: a name for nodes, for use in `Nodes=` of partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSetLine {
    /// The name. It must not be that of a node.
    pub name: Name,
    /// Which nodes.
    pub members: Members,
}

/// Which nodes a node set has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Members {
    /// Those with a feature.
    Feature(Name),
    /// These.
    Nodes(HostList),
}

impl From<NodeSetLine> for Pairs {
    fn from(line: NodeSetLine) -> Self {
        let pairs = Pairs::new(key!("NodeSet"), line.name);
        match line.members {
            Members::Feature(feature) => pairs.with(key!("Feature"), feature),
            Members::Nodes(nodes) => pairs.with(key!("Nodes"), nodes),
        }
    }
}

/// `DownNodes=...`: nodes that are known not to work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DownNodesLine {
    /// The nodes.
    pub nodes: SomeNodes,
    /// Down, draining or failing; without it down.
    pub state: Option<NodeLineState>,
    /// Why.
    pub reason: Option<Value>,
}

impl From<DownNodesLine> for Pairs {
    fn from(line: DownNodesLine) -> Self {
        Pairs::new(key!("DownNodes"), line.nodes)
            .with_some(key!("State"), line.state)
            .with_some(key!("Reason"), line.reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::new("f", text).unwrap()
    }

    fn some(nodes: &str) -> SomeNodes {
        SomeNodes::new("f", HostList::parse(nodes).unwrap()).unwrap()
    }

    #[test]
    fn a_node_line_has_what_is_known() {
        let line = NodeLine {
            host_names: Some(HostList::parse("gpu-[0-3]").unwrap()),
            address: Some(Value::new("f", "gpu-[0-3].gpu.ns.svc").unwrap()),
            cpus: Some(16),
            sockets: Some(2),
            cores_per_socket: Some(4),
            threads_per_core: Some(2),
            real_memory: Some(Memory::from_mib(64_000)),
            features: vec![name("gpu"), name("h100")],
            gres: vec![
                Gres { name: name("gpu"), kind: Some(name("h100")), count: 8 },
                Gres { name: name("mps"), kind: None, count: 100 },
            ],
            weight: Some(10),
            state: Some(NodeLineState::Cloud),
            extra: vec![(key!("MemSpecLimit"), 512_u32.into())],
            ..NodeLine::new(some("gpu-[0-3]"))
        };
        assert_eq!(
            Pairs::from(line).to_string(),
            "NodeName=gpu-[0-3] NodeHostname=gpu-[0-3] NodeAddr=gpu-[0-3].gpu.ns.svc CPUs=16 Sockets=2 \
             CoresPerSocket=4 ThreadsPerCore=2 RealMemory=64000 Feature=gpu,h100 Gres=gpu:h100:8,mps:100 Weight=10 \
             State=CLOUD MemSpecLimit=512"
        );
        let node = NodeName::new("a").unwrap();
        assert_eq!(Pairs::from(NodeLine::new(SomeNodes::from(&node))).to_string(), "NodeName=a");
    }

    #[test]
    fn a_line_for_no_node_cannot_be_made() {
        let error = SomeNodes::new("spec.nodes", HostList::new()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "spec.nodes: an empty text cannot be written into a Slurm configuration file"
        );
    }

    #[test]
    fn node_sets_and_down_nodes_print_as_lines() {
        let by_feature = NodeSetLine { name: name("gpus"), members: Members::Feature(name("gpu")) };
        assert_eq!(Pairs::from(by_feature).to_string(), "NodeSet=gpus Feature=gpu");
        let nodes = HostList::parse("a-[0-7]").unwrap();
        let by_name = NodeSetLine { name: name("a"), members: Members::Nodes(nodes) };
        assert_eq!(Pairs::from(by_name).to_string(), "NodeSet=a Nodes=a-[0-7]");
        let down = DownNodesLine {
            state: Some(NodeLineState::Drain),
            reason: Some(Value::new("f", "bad disk").unwrap()),
            nodes: some("a-[0-7]"),
        };
        assert_eq!(Pairs::from(down).to_string(), "DownNodes=a-[0-7] State=DRAIN Reason=\"bad disk\"");
    }
}
