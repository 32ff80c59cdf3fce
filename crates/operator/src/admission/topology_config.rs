//! The network of a cluster.

use std::collections::{BTreeMap, BTreeSet};

use api::nebius::{TopologyConfig, TopologyNodes, TopologySwitch, UnknownSwitch, UnknownSwitchPolicy};
use render::check::problem::{Problem, Problems};
use render::check::slurm_text;
use slurm::{HostList, NodeName};

use super::labels;

/// What is wrong with a TopologyConfig.
#[must_use]
pub fn topology_config(config: &TopologyConfig) -> Vec<Problem> {
    let mut problems = Problems::default();
    let spec = &config.spec;
    if let Some(from) = &spec.node_labels {
        let path = "spec.nodeLabels";
        if !labels::is_prefix(&from.prefix) {
            let message = format!("{:?} is no prefix of a label; write a domain without `/`", from.prefix);
            problems.error(format!("{path}.prefix"), message);
        }
        let tiers = from.tiers.iter().flatten().enumerate();
        let tiers = tiers.map(|(index, tier)| (format!("{path}.tiers[{index}]"), tier));
        for (path, name) in tiers.chain([(format!("{path}.blockTier"), &from.block_tier)]) {
            if !labels::is_name(name) {
                problems.error(
                    path,
                    format!("{name:?} is no label; write what stands behind the `/`, such as tier-1"),
                );
            }
        }
    }
    let mut placed = Placed::default();
    if let Some(switches) = &spec.switches {
        for (index, switch) in switches.iter().enumerate() {
            let path = format!("spec.switches[{index}]");
            named(&mut problems, &path, &switch.name, &spec.unknown_switch);
            placed.nodes(&mut problems, &path, &switch.nodes);
        }
        tree(&mut problems, switches);
    }
    for (index, block) in spec.blocks.iter().flatten().enumerate() {
        let path = format!("spec.blocks[{index}]");
        named(&mut problems, &path, &block.name, &spec.unknown_switch);
        placed.nodes(&mut problems, &path, &block.nodes);
    }
    if let [first, rest @ ..] = spec.block_sizes.as_deref().unwrap_or_default() {
        for (index, size) in rest.iter().enumerate() {
            let times = size.checked_div(*first).and_then(|times| u32::try_from(times).ok()).unwrap_or(0);
            if size % first == 0 && !times.is_power_of_two() {
                let path = format!("spec.blockSizes[{}]", index + 1);
                let next = times
                    .checked_next_power_of_two()
                    .and_then(|times| i32::try_from(times).ok())
                    .unwrap_or(1);
                let next = first.saturating_mul(next);
                problems.error(
                    path,
                    format!("{size} is not {first} times a power of two; write for example {next}"),
                );
            }
        }
    }
    problems.into_vec()
}

fn named(problems: &mut Problems, path: &str, name: &str, unknown: &UnknownSwitch) {
    let path = format!("{path}.name");
    if slurm_text::name(problems, &path, name).is_some()
        && unknown.policy == UnknownSwitchPolicy::Place
        && unknown.name == name
    {
        let message =
            "is the name for nodes without a place too; choose another, or change spec.unknownSwitch.name";
        problems.error(path, message);
    }
}

/// Where each node is.
#[derive(Default)]
struct Placed(BTreeMap<NodeName, String>);

impl Placed {
    fn nodes(&mut self, problems: &mut Problems, path: &str, nodes: &TopologyNodes) {
        for (index, text) in nodes.node_names.iter().flatten().enumerate() {
            let path = format!("{path}.nodeNames[{index}]");
            let Some(list) = slurm_text::host_list(problems, &path, text) else { continue };
            if self.0.len() + list.len() > HostList::MAX_NAMES {
                // Short texts stand for many names, and all of them are kept here.
                let most = HostList::MAX_NAMES;
                return problems
                    .error(path, format!("with this the topology has more than {most} nodes; remove some"));
            }
            let twice = list.names().find_map(|name| {
                let before = self.0.insert(name.clone(), path.clone())?;
                Some((name, before))
            });
            if let Some((name, before)) = twice {
                problems.error(path, format!("{name} is in {before} too; remove one"));
            }
        }
        if let Some(selector) = &nodes.node_selector {
            labels::check(problems, &format!("{path}.nodeSelector"), selector);
        }
    }
}

/// Checks that switches form trees: children exist, have one parent each, and none is below itself.
fn tree(problems: &mut Problems, switches: &[TopologySwitch]) {
    let known: BTreeSet<&str> = switches.iter().map(|switch| switch.name.as_str()).collect();
    let mut parents: BTreeMap<&str, &str> = BTreeMap::new();
    for (index, switch) in switches.iter().enumerate() {
        for (number, child) in switch.children.iter().flatten().enumerate() {
            let path = format!("spec.switches[{index}].children[{number}]");
            if !known.contains(child.as_str()) {
                problems.error(path, format!("there is no switch {child:?}; add it to spec.switches"));
            } else if let Some(parent) = parents.get(child.as_str()) {
                problems.error(
                    path,
                    format!("{child} is below {parent} already; a switch is below one other at most"),
                );
            } else {
                parents.insert(child, &switch.name);
            }
        }
    }
    // With one parent each, there is a circle where the way up comes back to itself.
    let mut done = BTreeSet::new();
    for switch in switches {
        let mut way = vec![switch.name.as_str()];
        let mut here = switch.name.as_str();
        while let Some(above) = parents.get(here).filter(|above| !done.contains(**above)) {
            if let Some(begin) = way.iter().position(|name| name == above) {
                let index = switches.iter().position(|switch| switch.name == *above).unwrap_or_default();
                let circle = way[begin..].join(", ");
                let message =
                    format!("{above} is below itself (the circle is {circle}); remove one of their children");
                problems.error(format!("spec.switches[{index}].name"), message);
                break;
            }
            way.push(above);
            here = above;
        }
        done.extend(way);
    }
}
