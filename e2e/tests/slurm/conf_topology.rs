//! Topologies, against `scontrol show topology`.

use anyhow::{Context, Result};
use rig::slurm::basic_lines;
use slurm::HostList;
use slurm::conf::{Below, BlockTopology, Name, SlurmVersion, Switch, Topology, TopologyYaml, TreeTopology};

use crate::conf_controller::{Controller, Shown, Verdict, with_each};

const NODES: &str = "NodeName=n[1-8] NodeAddr=127.0.0.1\nPartitionName=p Nodes=ALL\n";

fn name(text: &str) -> Result<Name> {
    Ok(Name::new("name", text)?)
}

fn leaf(switch: &str, nodes: &str) -> Result<Switch> {
    Ok(Switch { name: name(switch)?, below: Below::Nodes(HostList::parse(nodes)?) })
}

fn spine(switch: &str, below: &[&str]) -> Result<Switch> {
    let below = below.iter().map(|switch| name(switch)).collect::<Result<_>>()?;
    Ok(Switch { name: name(switch)?, below: Below::Switches(below) })
}

fn tree() -> Result<TreeTopology> {
    Ok(TreeTopology::new([
        spine("root", &["s1", "unknown"])?,
        spine("s1", &["l1", "l2"])?,
        leaf("l1", "n3,n1,n2")?,
        leaf("l2", "n[4-6]")?,
        leaf("unknown", "n[7-8]")?,
    ])?)
}

fn blocks() -> Result<BlockTopology> {
    let nodes = |text| HostList::parse(text);
    Ok(BlockTopology::new([(name("b2")?, nodes("n[5-8]")?), (name("b1")?, nodes("n[1-4]")?)], [4, 8])?)
}

fn slurm_conf(line: &str) -> String {
    format!("{}{line}\n{NODES}", basic_lines())
}

fn shown<'a>(lines: &'a [Shown], key: &str, name: &str) -> Result<&'a Shown> {
    lines.iter().find(|line| line.get(key) == name).with_context(|| format!("no {key}={name} in {lines:?}"))
}

fn assert_tree(controller: &Controller) -> Result<()> {
    let lines = controller.show("topology")?;
    for (switch, level, nodes, below) in [
        ("l1", "0", "n[1-3]", ""),
        ("l2", "0", "n[4-6]", ""),
        ("unknown", "0", "n[7-8]", ""),
        ("s1", "1", "n[1-6]", "l[1-2]"),
        ("root", "2", "n[1-8]", "s1,unknown"),
    ] {
        let line = shown(&lines, "SwitchName", switch)?;
        assert_eq!(line.get("Level"), level, "{switch}");
        assert_eq!(line.get("Nodes"), nodes, "{switch}");
        assert_eq!(HostList::parse(line.get("Switches"))?, HostList::parse(below)?, "{switch}");
    }
    assert_eq!(lines.len(), 5);
    Ok(())
}

fn assert_blocks(controller: &Controller) -> Result<()> {
    let lines = controller.show("topology")?;
    for (block, nodes) in [("b1", "n[1-4]"), ("b2", "n[5-8]")] {
        let line = shown(&lines, "BlockName", block)?;
        assert_eq!((line.get("Nodes"), line.get("BlockSize")), (nodes, "4"), "{block}");
    }
    Ok(())
}

#[test]
fn a_tree_is_the_tree_that_was_meant() -> Result<()> {
    with_each(|controller, _| {
        let topology = tree()?.to_conf().to_string();
        let conf = slurm_conf("TopologyPlugin=topology/tree");
        controller.start_well(&[("slurm.conf", &conf), ("topology.conf", &topology)])?;
        assert_tree(controller)
    })
}

#[test]
fn blocks_are_the_blocks_that_were_meant() -> Result<()> {
    with_each(|controller, _| {
        let topology = blocks()?.to_conf().to_string();
        let conf = slurm_conf("TopologyPlugin=topology/block");
        controller.start_well(&[("slurm.conf", &conf), ("topology.conf", &topology)])?;
        assert_blocks(controller)
    })
}

#[test]
fn topology_yaml_gives_each_kind_to_newer_slurms() -> Result<()> {
    with_each(|controller, version| {
        if version < SlurmVersion::V26_05 {
            return Ok(());
        }
        for (default, other) in [("fabric", "nvl"), ("nvl", "fabric")] {
            let topology = |name: &str| -> Result<Topology> {
                Ok(if name == "nvl" { Topology::Block(blocks()?) } else { Topology::Tree(tree()?) })
            };
            let mut yaml = TopologyYaml::new(name(default)?, topology(default)?);
            yaml.add(name(other)?, topology(other)?)?.add(name("cpu")?, Topology::Flat)?;
            controller
                .start_well(&[("slurm.conf", &slurm_conf("")), ("topology.yaml", &yaml.to_string())])?;
            if default == "nvl" { assert_blocks(controller)? } else { assert_tree(controller)? }
        }
        Ok(())
    })
}

/// What the types make impossible, and the check finds in a file of a user.
#[test]
fn slurm_does_not_start_with_what_is_no_topology() -> Result<()> {
    use slurm::conf::{Check, FileKind, NoIncludes, Severity, read};
    let files = [
        ("tree", "SwitchName=a Nodes=n1\nSwitchName=a Nodes=n2\n"),
        ("tree", "SwitchName=a Switches=b\n"),
        ("tree", "SwitchName=a Switches=b\nSwitchName=b Switches=a\n"),
        ("tree", "SwitchName=a Nodes=n1 Switches=b\nSwitchName=b Nodes=n2\n"),
        ("tree", "SwitchName=a\n"),
        ("tree", "SwitchName=a Nodes=n[1-8]\n"),
        ("block", "BlockName=a Nodes=n[1-4]\nBlockSizes=3,5\n"),
        ("block", "BlockName=a Nodes=n[1-2]\nBlockSizes=4\n"),
        ("block", "BlockName=a Nodes=n[1-4]\nBlockSizes=4\n"),
    ];
    with_each(|controller, version| {
        for (plugin, text) in files {
            let findings = Check::new(FileKind::Topology, version).run(&read("f", text, &mut NoIncludes));
            let ours = findings.iter().any(|finding| finding.severity == Severity::Error);
            let conf = slurm_conf(&format!("TopologyPlugin=topology/{plugin}"));
            let verdict = controller.start(&[("slurm.conf", &conf), ("topology.conf", text)])?;
            assert_eq!(ours, matches!(verdict, Verdict::Refused(_)), "{text}\n{verdict:?}");
        }
        Ok(())
    })
}
