//! topology.conf: whether switches form a tree, and blocks have sizes that Slurm accepts.

use std::collections::HashMap;

use super::nodes::used;
use super::{Check, Findings, begins, value};
use crate::conf::file_kind::SlurmVersion;
use crate::conf::reader::{Document, Line, Place};
use crate::conf::topology::check_sizes;
use crate::hostlist::HostList;

pub(super) fn check(check: &Check<'_>, document: &Document, findings: &mut Findings) {
    let first = |key| document.lines.iter().find(|line| begins(line, key).is_some());
    if let (Some(switch), Some(block)) = (first("SwitchName"), first("BlockName")) {
        let later = (&switch.at).max(&block.at);
        findings.error(later, "switches and blocks cannot be in one file".into());
    }
    switches(check, document, findings);
    blocks(check, document, findings);
}

fn switches(check: &Check<'_>, document: &Document, findings: &mut Findings) {
    let mut places: HashMap<&str, &Place> = HashMap::new();
    for line in &document.lines {
        let Some(name) = begins(line, "SwitchName") else { continue };
        if let Some(before) = places.insert(name, &line.at) {
            findings.error(&line.at, format!("SwitchName {name} was defined before, at {before}"));
        }
        let (nodes, below) = (value(line, "Nodes"), value(line, "Switches"));
        match (nodes, below) {
            (Some(_), Some(_)) => {
                findings.error(
                    &line.at,
                    format!("switch {name} has both Nodes and Switches; Slurm takes one of them"),
                );
            }
            (None, None) if check.version == SlurmVersion::V24_11 => {
                findings.error(&line.at, format!("switch {name} has neither Nodes nor Switches"));
            }
            _ => {}
        }
        used(check, line, "Nodes", nodes.unwrap_or_default(), findings);
    }
    // Each switch with the one above it: with one parent each, a way up that never ends is a circle.
    let mut above: HashMap<String, &str> = HashMap::new();
    for line in &document.lines {
        let Some(name) = begins(line, "SwitchName") else { continue };
        for child in children(line, findings) {
            if !places.contains_key(child.as_str()) {
                findings.error(&line.at, format!("switch {name} has {child} below it, which is not there"));
            } else if above.insert(child.clone(), name).is_some() {
                findings.error(&line.at, format!("switch {child} is below two switches"));
            }
        }
    }
    let mut checked: HashMap<&str, usize> = HashMap::new();
    for (number, line) in document.lines.iter().enumerate() {
        let mut here = begins(line, "SwitchName");
        while let Some(name) = here {
            match checked.insert(name, number) {
                Some(walk) if walk == number => {
                    findings.error(&line.at, format!("switch {name} is below itself"));
                    break;
                }
                Some(_) => break,
                None => here = above.get(name).copied(),
            }
        }
    }
}

fn children(line: &Line, findings: &mut Findings) -> Vec<String> {
    match HostList::parse(value(line, "Switches").unwrap_or_default()) {
        Ok(list) => list.names().map(String::from).collect(),
        Err(error) => {
            findings.error(&line.at, format!("Switches: {error}"));
            Vec::new()
        }
    }
}

fn blocks(check: &Check<'_>, document: &Document, findings: &mut Findings) {
    let mut places: HashMap<&str, &Place> = HashMap::new();
    let mut base = None;
    for line in &document.lines {
        if let Some(sizes) = begins(line, "BlockSizes") {
            base = block_sizes(line, sizes, findings);
        }
    }
    for line in &document.lines {
        let Some(name) = begins(line, "BlockName") else { continue };
        if let Some(before) = places.insert(name, &line.at) {
            findings.error(&line.at, format!("BlockName {name} was defined before, at {before}"));
        }
        let nodes = value(line, "Nodes").unwrap_or_default();
        used(check, line, "Nodes", nodes, findings);
        let count = HostList::parse(nodes).map_or(0, |list| list.len());
        if let Some(base) = base.filter(|base| count < *base && check.version == SlurmVersion::V24_11) {
            let message = format!(
                "block {name} has {count} nodes; Slurm 24.11 wants at least the smallest block size, {base}"
            );
            findings.error(&line.at, message);
        }
    }
}

/// The smallest size.
fn block_sizes(line: &Line, sizes: &str, findings: &mut Findings) -> Option<usize> {
    let Ok(sizes) = sizes.split(',').map(str::parse).collect::<Result<Vec<u32>, _>>() else {
        findings.error(&line.at, format!("BlockSizes: {sizes:?} is no list of numbers"));
        return None;
    };
    if let Err(error) = check_sizes(&sizes) {
        findings.error(&line.at, format!("BlockSizes: {error}"));
        return None;
    }
    sizes.into_iter().min().and_then(|base| usize::try_from(base).ok())
}
