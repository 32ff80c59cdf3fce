//! How nodes are connected: topology.conf for one tree or one set of blocks, topology.yaml (Slurm 25.05 and newer) for several.
//!
//! A topology that exists is one that Slurm accepts: slurmctld ends with an error when a switch is missing, comes twice or is part of a
//! circle.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::text::{ConfFile, Pairs};
use super::value::{Name, Value};
use crate::hostlist::HostList;
use crate::key;

/// Why switches or blocks are no topology.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TopologyError {
    /// A name comes twice.
    #[error("`{0}` comes twice")]
    Duplicate(String),
    /// A switch has no node and no switch below it, which Slurm 24.11 refuses.
    #[error("switch `{0}` has neither nodes nor switches below it")]
    EmptySwitch(String),
    /// A switch below another that is not there.
    #[error("switch `{above}` has `{below}` below it, which is not there")]
    Missing {
        /// The upper switch.
        above: String,
        /// The name that nothing has.
        below: String,
    },
    /// A switch below two others.
    #[error("switch `{0}` is below two switches")]
    TwoParents(String),
    /// Switches that are below themselves.
    #[error("switch `{0}` is below itself")]
    Circle(String),
    /// Sizes of blocks that Slurm refuses.
    #[error("block size {size} is not {base} times a power of two")]
    BlockSize {
        /// The size.
        size: u32,
        /// The smallest one.
        base: u32,
    },
    /// No size, or a size of zero.
    #[error("a block topology needs block sizes of at least 1")]
    NoBlockSize,
}

/// A switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switch {
    /// Its name.
    pub name: Name,
    /// What is below it.
    pub below: Below,
}

/// What is below a switch. Slurm refuses both at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Below {
    /// Nodes: it is a leaf.
    Nodes(HostList),
    /// Other switches.
    Switches(BTreeSet<Name>),
}

/// Switches that form one tree or several, sorted by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeTopology {
    switches: BTreeMap<Name, Below>,
}

impl TreeTopology {
    /// Checks that the switches form trees.
    ///
    /// # Errors
    ///
    /// They do not, or a switch has nothing below it.
    pub fn new(switches: impl IntoIterator<Item = Switch>) -> Result<Self, TopologyError> {
        let mut found = BTreeMap::new();
        for Switch { name, below } in switches {
            let empty = match &below {
                Below::Nodes(nodes) => nodes.is_empty(),
                Below::Switches(switches) => switches.is_empty(),
            };
            if empty {
                return Err(TopologyError::EmptySwitch(name.to_string()));
            }
            if found.insert(name.clone(), below).is_some() {
                return Err(TopologyError::Duplicate(name.to_string()));
            }
        }
        check_tree(&found)?;
        Ok(Self { switches: found })
    }

    /// The text of topology.conf.
    #[must_use]
    pub fn to_conf(&self) -> ConfFile {
        let mut conf = ConfFile::new();
        for (name, below) in &self.switches {
            let line = Pairs::new(key!("SwitchName"), name);
            conf.push(match below {
                Below::Nodes(nodes) => line.with(key!("Nodes"), nodes.sorted()),
                Below::Switches(switches) => line.with(key!("Switches"), Value::list(switches)),
            });
        }
        conf
    }
}

fn check_tree(switches: &BTreeMap<Name, Below>) -> Result<(), TopologyError> {
    let mut parents: BTreeMap<&Name, &Name> = BTreeMap::new();
    for (above, below) in switches {
        let Below::Switches(children) = below else { continue };
        for child in children {
            if !switches.contains_key(child) {
                return Err(TopologyError::Missing { above: above.to_string(), below: child.to_string() });
            }
            if parents.insert(child, above).is_some() {
                return Err(TopologyError::TwoParents(child.to_string()));
            }
        }
    }
    // With one parent each, a switch is in a circle if the way up never ends.
    let mut ends: BTreeSet<&Name> = BTreeSet::new();
    for name in switches.keys() {
        let mut way = BTreeSet::from([name]);
        let mut here = name;
        while let Some(above) = parents.get(here).filter(|above| !ends.contains(*above)) {
            if !way.insert(above) {
                return Err(TopologyError::Circle(name.to_string()));
            }
            here = above;
        }
        ends.append(&mut way);
    }
    Ok(())
}

/// Nodes in blocks, sorted by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockTopology {
    blocks: BTreeMap<Name, HostList>,
    sizes: Vec<u32>,
}

impl BlockTopology {
    /// Checks the blocks and their planned sizes: the first is how many nodes a block has, each other that times a power of two.
    ///
    /// Slurm 24.11 wants at least the first size of nodes in every block; newer ones do not.
    ///
    /// # Errors
    ///
    /// A block comes twice, or the sizes are not what Slurm accepts.
    pub fn new(
        blocks: impl IntoIterator<Item = (Name, HostList)>,
        sizes: impl IntoIterator<Item = u32>,
    ) -> Result<Self, TopologyError> {
        let mut found = BTreeMap::new();
        for (name, nodes) in blocks {
            if found.insert(name.clone(), nodes).is_some() {
                return Err(TopologyError::Duplicate(name.to_string()));
            }
        }
        let sizes: Vec<u32> = sizes.into_iter().collect();
        check_sizes(&sizes)?;
        Ok(Self { blocks: found, sizes })
    }

    /// The text of topology.conf.
    #[must_use]
    pub fn to_conf(&self) -> ConfFile {
        let mut conf = ConfFile::new();
        for (name, nodes) in &self.blocks {
            conf.push(Pairs::new(key!("BlockName"), name).with(key!("Nodes"), nodes.sorted()));
        }
        conf.set(key!("BlockSizes"), Value::list(self.sizes.iter().copied()));
        conf
    }
}

/// Whether Slurm takes these block sizes.
pub(super) fn check_sizes(sizes: &[u32]) -> Result<(), TopologyError> {
    let Some(base) = sizes.iter().copied().min().filter(|base| *base > 0) else {
        return Err(TopologyError::NoBlockSize);
    };
    match sizes.iter().find(|size| *size % base != 0 || !(*size / base).is_power_of_two()) {
        Some(size) => Err(TopologyError::BlockSize { size: *size, base }),
        None => Ok(()),
    }
}

/// topology.yaml: named topologies, for partitions that differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopologyYaml {
    topologies: BTreeMap<Name, Topology>,
    default: Option<Name>,
}

/// One topology of topology.yaml.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Topology {
    /// Switches.
    Tree(TreeTopology),
    /// Blocks.
    Block(BlockTopology),
    /// No structure.
    Flat,
}

impl TopologyYaml {
    /// A file with the topology that holds where nothing else is said.
    #[must_use]
    pub fn new(name: Name, topology: Topology) -> Self {
        Self { topologies: BTreeMap::from([(name.clone(), topology)]), default: Some(name) }
    }

    /// Adds a topology.
    ///
    /// # Errors
    ///
    /// There is one of that name.
    pub fn add(&mut self, name: Name, topology: Topology) -> Result<&mut Self, TopologyError> {
        let text = name.to_string();
        match self.topologies.insert(name, topology) {
            Some(_) => Err(TopologyError::Duplicate(text)),
            None => Ok(self),
        }
    }
}

impl fmt::Display for TopologyYaml {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, topology) in &self.topologies {
            writeln!(f, "- topology: {}", quoted(name))?;
            writeln!(f, "  cluster_default: {}", self.default.as_ref() == Some(name))?;
            match topology {
                Topology::Flat => writeln!(f, "  flat: true")?,
                Topology::Tree(tree) => {
                    writeln!(f, "  tree:\n    switches:")?;
                    for (name, below) in &tree.switches {
                        writeln!(f, "      - switch: {}", quoted(name))?;
                        match below {
                            Below::Nodes(nodes) => writeln!(f, "        nodes: {}", quoted(&nodes.sorted()))?,
                            Below::Switches(switches) => {
                                writeln!(f, "        children: {}", quoted(&Value::list(switches).as_str()))?;
                            }
                        }
                    }
                }
                Topology::Block(block) => {
                    writeln!(f, "  block:\n    block_sizes: {:?}\n    blocks:", block.sizes)?;
                    for (name, nodes) in &block.blocks {
                        writeln!(f, "      - block: {}", quoted(name))?;
                        writeln!(f, "        nodes: {}", quoted(&nodes.sorted()))?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// As a YAML text between quotes, so that `1`, `yes` and `a: b` stay texts. Names have no quotes, backslashes and control characters.
fn quoted(text: &impl fmt::Display) -> String {
    format!("\"{text}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::new("f", text).unwrap()
    }

    fn leaf(switch: &str, nodes: &str) -> Switch {
        Switch { name: name(switch), below: Below::Nodes(HostList::parse(nodes).unwrap()) }
    }

    fn spine(switch: &str, below: &[&str]) -> Switch {
        Switch {
            name: name(switch),
            below: Below::Switches(below.iter().map(|switch| name(switch)).collect()),
        }
    }

    fn example() -> TreeTopology {
        let switches = [
            spine("root", &["s1", "unknown"]),
            leaf("unknown", "worker-2"),
            leaf("l2", "worker-3,worker-1"),
            spine("s1", &["l2", "l1"]),
            leaf("l1", "worker-0"),
        ];
        TreeTopology::new(switches).unwrap()
    }

    #[test]
    fn a_tree_prints_sorted() {
        assert_eq!(
            example().to_conf().to_string(),
            "SwitchName=l1 Nodes=worker-0\n\
             SwitchName=l2 Nodes=worker-[1,3]\n\
             SwitchName=root Switches=s1,unknown\n\
             SwitchName=s1 Switches=l1,l2\n\
             SwitchName=unknown Nodes=worker-2\n"
        );
    }

    #[test]
    fn what_is_no_tree_is_refused() {
        let refused = |switches: Vec<Switch>| TreeTopology::new(switches).unwrap_err().to_string();
        assert_eq!(refused(vec![leaf("a", "n1"), leaf("a", "n2")]), "`a` comes twice");
        assert_eq!(refused(vec![leaf("a", "")]), "switch `a` has neither nodes nor switches below it");
        assert_eq!(refused(vec![spine("a", &[])]), "switch `a` has neither nodes nor switches below it");
        assert_eq!(refused(vec![spine("a", &["b"])]), "switch `a` has `b` below it, which is not there");
        assert_eq!(
            refused(vec![spine("a", &["c"]), spine("b", &["c"]), leaf("c", "n1")]),
            "switch `c` is below two switches"
        );
        assert_eq!(refused(vec![spine("a", &["b"]), spine("b", &["a"])]), "switch `a` is below itself");
        assert_eq!(refused(vec![leaf("x", "n1"), spine("y", &["y"])]), "switch `y` is below itself");
    }

    #[test]
    fn several_trees_are_fine() {
        assert!(TreeTopology::new([leaf("a", "n1"), leaf("b", "n2")]).is_ok());
        assert!(TreeTopology::new([]).is_ok());
    }

    fn blocks() -> BlockTopology {
        let nodes = |text| HostList::parse(text).unwrap();
        BlockTopology::new([(name("b2"), nodes("n[3-4]")), (name("b1"), nodes("n2,n1"))], [2, 4]).unwrap()
    }

    #[test]
    fn blocks_print_sorted_with_their_sizes_last() {
        assert_eq!(
            blocks().to_conf().to_string(),
            "BlockName=b1 Nodes=n[1-2]\nBlockName=b2 Nodes=n[3-4]\nBlockSizes=2,4\n"
        );
    }

    #[test]
    fn block_sizes_double() {
        let sizes = |sizes: &[u32]| {
            BlockTopology::new([], sizes.to_vec()).map(|_| ()).map_err(|error| error.to_string())
        };
        assert_eq!(sizes(&[18]), Ok(()));
        assert_eq!(sizes(&[4, 8, 32]), Ok(()));
        assert_eq!(sizes(&[3, 5]), Err("block size 5 is not 3 times a power of two".into()));
        assert_eq!(sizes(&[2, 6]), Err("block size 6 is not 2 times a power of two".into()));
        assert_eq!(sizes(&[]), Err("a block topology needs block sizes of at least 1".into()));
        assert_eq!(sizes(&[0]), Err("a block topology needs block sizes of at least 1".into()));
    }

    #[test]
    fn topology_yaml_holds_all_kinds() {
        let mut yaml = TopologyYaml::new(name("fabric"), Topology::Tree(example()));
        yaml.add(name("nvl"), Topology::Block(blocks())).unwrap().add(name("cpu"), Topology::Flat).unwrap();
        assert!(yaml.clone().add(name("cpu"), Topology::Flat).is_err());
        assert_eq!(
            yaml.to_string(),
            r#"- topology: "cpu"
  cluster_default: false
  flat: true
- topology: "fabric"
  cluster_default: true
  tree:
    switches:
      - switch: "l1"
        nodes: "worker-0"
      - switch: "l2"
        nodes: "worker-[1,3]"
      - switch: "root"
        children: "s1,unknown"
      - switch: "s1"
        children: "l1,l2"
      - switch: "unknown"
        nodes: "worker-2"
- topology: "nvl"
  cluster_default: false
  block:
    block_sizes: [2, 4]
    blocks:
      - block: "b1"
        nodes: "n[1-2]"
      - block: "b2"
        nodes: "n[3-4]"
"#
        );
    }
}
