//! Nodes, node sets and partitions: whether each is there once, and whether names that are used exist.

use std::collections::{HashMap, HashSet};

use super::{Check, Findings, begins, get, value};
use crate::conf::reader::{Document, Line, Place};
use crate::hostlist::HostList;
use crate::node_name::NodeName;

/// The nodes and node sets that a slurm.conf defines.
#[derive(Clone, Debug, Default)]
pub struct DefinedNodes {
    nodes: HashSet<NodeName>,
    sets: HashSet<String>,
}

impl DefinedNodes {
    /// Finds them. Lines with mistakes are passed over.
    #[must_use]
    pub fn new(slurm_conf: &Document) -> Self {
        let mut findings = Findings::default();
        Self::collect(slurm_conf, &mut findings)
    }

    fn collect(document: &Document, findings: &mut Findings) -> Self {
        let mut found = Self::default();
        for line in &document.lines {
            if let Some(names) =
                begins(line, "NodeName").filter(|names| !names.eq_ignore_ascii_case("DEFAULT"))
            {
                found.node_line(line, names, findings);
            }
        }
        for line in &document.lines {
            if let Some(name) = begins(line, "NodeSet") {
                found.node_set_line(line, name, findings);
            }
        }
        found
    }

    fn node_line(&mut self, line: &Line, names: &str, findings: &mut Findings) {
        // All lines together may define as many nodes as one host list may have.
        let room = HostList::MAX_NAMES - self.nodes.len();
        let list = match HostList::parse_up_to(names, room) {
            Ok(list) => list,
            Err(error) => return findings.error(&line.at, format!("NodeName: {error}")),
        };
        if list.is_empty() {
            return findings.error(&line.at, "NodeName has no name".into());
        }
        for key in ["NodeHostname", "NodeAddr", "Port"] {
            let count =
                value(line, key).and_then(|list| HostList::parse(list).ok()).map_or(1, |list| list.len());
            if count != 1 && count != list.len() {
                let message = format!("{key} stands for {count}, but NodeName for {} nodes", list.len());
                findings.error(&line.at, message);
            }
        }
        let twice: HostList = list.names().filter(|name| !self.nodes.insert(name.clone())).collect();
        if !twice.is_empty() {
            findings.error(&line.at, format!("NodeName {twice} was defined before"));
        }
    }

    fn node_set_line(&mut self, line: &Line, name: &str, findings: &mut Findings) {
        if self.nodes.contains(name) {
            findings.error(&line.at, format!("NodeSet {name} has the name of a node"));
        }
        if !self.sets.insert(name.to_owned()) {
            findings.warning(&line.at, format!("NodeSet {name} was defined before"));
        }
        if get(line, "Nodes").is_none() && get(line, "Feature").is_none() {
            findings.warning(&line.at, format!("NodeSet {name} has neither Nodes nor Feature"));
        }
    }

    /// The names that are no nodes, nor node sets where these are allowed. A part of a file misses none, and is not searched:
    /// short texts stand for many names.
    fn missing(&self, check: &Check<'_>, names: &str, with_sets: bool) -> HostList {
        if check.part { HostList::new() } else { self.find_missing(names, with_sets) }
    }

    fn find_missing(&self, names: &str, with_sets: bool) -> HostList {
        // What is no host list was told with its type.
        let Ok(list) = HostList::parse(names) else { return HostList::new() };
        let known =
            |name: &NodeName| self.nodes.contains(name) || (with_sets && self.sets.contains(name.as_str()));
        list.names().filter(|name| !known(name)).collect()
    }
}

/// Checks slurm.conf.
pub(super) fn check(check: &Check<'_>, document: &Document, findings: &mut Findings) {
    let defined = DefinedNodes::collect(document, findings);
    let mut partitions: HashMap<&str, &Place> = HashMap::new();
    for line in &document.lines {
        if let Some(names) = begins(line, "PartitionName") {
            partition_line(line, names, &mut partitions, findings);
            partition_nodes(check, &defined, line, findings);
        } else if let Some(name) = begins(line, "NodeSet") {
            let missing = defined.missing(check, value(line, "Nodes").unwrap_or_default(), false);
            if !missing.is_empty() {
                findings.warning(&line.at, format!("NodeSet {name}: there is no node {missing}"));
            }
        } else if let Some(names) = begins(line, "DownNodes") {
            if let Err(error) = HostList::parse(names) {
                findings.error(&line.at, format!("DownNodes: {error}"));
            }
            let missing = defined.missing(check, names, false);
            if !missing.is_empty() {
                findings.warning(&line.at, format!("DownNodes: there is no node {missing}"));
            }
        }
    }
    required(check, document, findings);
}

fn partition_line<'d>(
    line: &'d Line,
    names: &'d str,
    partitions: &mut HashMap<&'d str, &'d Place>,
    findings: &mut Findings,
) {
    for name in names.split(',').filter(|name| !name.eq_ignore_ascii_case("DEFAULT")) {
        if let Some(before) = partitions.insert(name, &line.at) {
            findings.error(&line.at, format!("PartitionName {name} was defined before, at {before}"));
        }
    }
}

fn partition_nodes(check: &Check<'_>, defined: &DefinedNodes, line: &Line, findings: &mut Findings) {
    let nodes = value(line, "Nodes").unwrap_or_default();
    if nodes.eq_ignore_ascii_case("ALL") {
        return;
    }
    if let Err(error) = HostList::parse(nodes) {
        return findings.error(&line.at, format!("Nodes: {error}"));
    }
    let missing = defined.missing(check, nodes, true);
    if !missing.is_empty() {
        findings.error(&line.at, format!("Nodes: there is no node and no node set {missing}"));
    }
}

/// What no slurm.conf can be without.
fn required(check: &Check<'_>, document: &Document, findings: &mut Findings) {
    let Some(last) = document.lines.last().filter(|_| !check.part) else { return };
    let has = |key| document.lines.iter().any(|line| begins(line, key).is_some());
    if !has("ClusterName") {
        findings.error(&last.at, "ClusterName is missing".into());
    }
    if !has("SlurmctldHost") && !has("ControlMachine") {
        findings.error(&last.at, "SlurmctldHost is missing".into());
    }
}

/// Checks the nodes that lines of another file begin with.
pub(super) fn check_names(check: &Check<'_>, document: &Document, key: &str, findings: &mut Findings) {
    for line in &document.lines {
        if let Some(names) = begins(line, key) {
            if let Err(error) = HostList::parse(names) {
                findings.error(&line.at, format!("{key}: {error}"));
            }
            used(check, line, key, names, findings);
        }
    }
}

/// Warns of names that slurm.conf does not have. Slurm passes over them.
pub(super) fn used(check: &Check<'_>, line: &Line, key: &str, names: &str, findings: &mut Findings) {
    let missing = check.nodes.map(|nodes| nodes.find_missing(names, false)).unwrap_or_default();
    if !missing.is_empty() {
        findings.warning(&line.at, format!("{key}: slurm.conf has no node {missing}"));
    }
}
