//! Partitions, and the nodes and node sets that they are made of.

use api::nebius::slurm_cluster::{PartitionConfigType, SlurmClusterSpec};
use slurm::conf::{
    Comment, ConfFile, Document, Key, Members, Name, NoIncludes, NodeSetLine, OverSubscribe, Pairs,
    PartitionLine, PartitionNodes, PartitionState, PreemptMode, Value, read, user_pairs,
};
use slurm::{TimeLimit, key};

use super::{nodes, plain};
use crate::Facts;
use crate::facts::NodeSetFacts;

/// Where partitions come from.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Partitions {
    /// Two over all nodes.
    Default { feature_sets: Vec<NodeSetLine> },
    /// Lines of the user.
    Custom { lines: Vec<Document>, feature_sets: Vec<NodeSetLine> },
    /// By NodeSets.
    Structured(Vec<Structured>),
}

/// A partition over NodeSets.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Structured {
    name: Name,
    is_all: bool,
    sets: Vec<String>,
    extra: Vec<(Key, Value)>,
}

impl Partitions {
    pub(super) fn new(spec: &SlurmClusterSpec) -> Self {
        let configuration = &spec.partition_configuration;
        match configuration.config_type {
            PartitionConfigType::Default => Self::Default { feature_sets: feature_sets(spec) },
            PartitionConfigType::Custom => Self::Custom {
                lines: configuration
                    .raw_config
                    .iter()
                    .flatten()
                    .map(|line| read("rawConfig", line, &mut NoIncludes))
                    .collect(),
                feature_sets: feature_sets(spec),
            },
            PartitionConfigType::Structured => {
                let partitions = configuration.partitions.iter().flatten();
                Self::Structured(
                    partitions
                        .filter_map(|partition| {
                            let text = partition.config.as_deref().unwrap_or_default();
                            Some(Structured {
                                name: Name::new("name", partition.name.as_str()).ok()?,
                                is_all: partition.is_all,
                                sets: partition.node_set_refs.clone().unwrap_or_default(),
                                extra: user_pairs("config", text, &["PartitionName"]).unwrap_or_default(),
                            })
                        })
                        .collect(),
                )
            }
        }
    }

    /// Nodes come before the partitions that name them.
    pub(super) fn write(&self, conf: &mut ConfFile, facts: &Facts) {
        for set in facts.node_sets.values() {
            node_lines(conf, set);
        }
        match self {
            Self::Default { feature_sets } => {
                for line in [main(), hidden()].into_iter().flatten() {
                    conf.push(line);
                }
                push_all(conf, feature_sets);
            }
            Self::Custom { lines, feature_sets } => {
                for line in lines {
                    conf.append(line);
                }
                push_all(conf, feature_sets);
            }
            Self::Structured(partitions) => {
                for (name, set) in &facts.node_sets {
                    set_line(conf, name, set);
                }
                partitions.iter().for_each(|partition| partition.write(conf, facts));
            }
        }
    }
}

fn push_all(conf: &mut ConfFile, lines: &[NodeSetLine]) {
    for line in lines {
        conf.push(line.clone());
    }
}

/// `NodeName=` for each pod that has a line. What it says was fixed when the pod was made.
fn node_lines(conf: &mut ConfFile, set: &NodeSetFacts) {
    for worker in &set.workers {
        let (Some(line), Some(address)) = (&worker.line, worker.address) else { continue };
        conf.push(
            Pairs::new(key!("NodeName"), &worker.node)
                .with(key!("NodeHostname"), &worker.node)
                .with(key!("NodeAddr"), plain(&address.to_string()))
                .with_all(line.clone()),
        );
    }
}

/// `NodeSet=` of a NodeSet: nodes that register themselves carry its name as a feature, the others are listed.
fn set_line(conf: &mut ConfFile, name: &str, set: &NodeSetFacts) {
    let Ok(name) = Name::new("name", name) else { return };
    let fixed = nodes(set.workers.iter().filter(|worker| worker.has_line()).map(|worker| &worker.node));
    let fixed = (!fixed.is_empty()).then_some(fixed);
    conf.push(
        Pairs::new(key!("NodeSet"), &name).with(key!("Feature"), &name).with_some(key!("Nodes"), fixed),
    );
}

impl Structured {
    fn write(&self, conf: &mut ConfFile, facts: &Facts) {
        let sets = if self.is_all {
            PartitionNodes::All
        } else {
            let (found, missing): (Vec<_>, Vec<_>) =
                self.sets.iter().partition(|set| facts.node_sets.contains_key(set.as_str()));
            for set in missing {
                let text =
                    format!("WARNING: partition {} waits for NodeSet {set}, which is not there", self.name);
                conf.comment(Comment::new(&text));
            }
            PartitionNodes::sets(found.iter().filter_map(|set| Name::new("set", set.as_str()).ok()).collect())
        };
        conf.push(PartitionLine { extra: self.extra.clone(), ..PartitionLine::new(self.name.clone(), sets) });
    }
}

/// `NodeSet=` for features of workers.
fn feature_sets(spec: &SlurmClusterSpec) -> Vec<NodeSetLine> {
    let features = spec.worker_features.iter().flatten();
    features
        .filter_map(|feature| {
            let name = feature.nodeset_name.as_deref().filter(|name| !name.is_empty())?;
            Some(NodeSetLine {
                name: Name::new("nodesetName", name).ok()?,
                members: Members::Feature(Name::new("name", feature.name.as_str()).ok()?),
            })
        })
        .collect()
}

fn main() -> Option<PartitionLine> {
    Some(PartitionLine { default: Some(true), ..whole("main")? })
}

fn hidden() -> Option<PartitionLine> {
    Some(PartitionLine {
        default: Some(false),
        preempt_mode: Some(PreemptMode::Off),
        hidden: Some(true),
        ..whole("hidden")?
    })
}

fn whole(name: &str) -> Option<PartitionLine> {
    Some(PartitionLine {
        priority_tier: Some(10),
        max_time: Some(TimeLimit::Unlimited),
        state: Some(PartitionState::Up),
        over_subscribe: Some(OverSubscribe::Yes(None)),
        ..PartitionLine::new(Name::new("name", name).ok()?, PartitionNodes::All)
    })
}
