//! The compat reader: what the original took is taken, what it skipped is skipped, and nothing after it is lost.

use std::collections::{BTreeMap, HashSet};
use std::num::NonZeroU16;

use super::{Claim, Device, Entry, Map, MapError};

pub(super) fn parse(text: &str) -> Map {
    let mut map = Map::default();
    for (number, line) in text.split('\n').enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match entry(line) {
            Ok((index, entry)) => {
                if map.entries.insert(index, entry).is_some() {
                    map.warnings
                        .push(warning(number, format!("index {index} is repeated; this line is taken")));
                }
            }
            Err(message) => map.warnings.push(warning(number, message)),
        }
    }
    share(&mut map);
    map
}

fn warning(number: usize, message: String) -> MapError {
    MapError { line: number + 1, column: 1, message }
}

fn entry(line: &str) -> Result<(u32, Entry), String> {
    let (index, rest) = line.split_once('=').ok_or("skipped: no \"=\" in it")?;
    let index = index.trim();
    // As Python reads numbers, as far as a pod can have such an index.
    let digits = index.strip_prefix('+').unwrap_or(index).replace('_', "");
    let index: u32 =
        digits.parse().map_err(|_| format!("skipped: {index:?} is no index that a pod can have"))?;
    let (node, devices) = rest.split_once(':').ok_or("skipped: no \":\" in it")?;
    let (node, devices) = (node.trim(), devices.trim());
    let mut claims: Vec<Claim> = Vec::new();
    let mut named = HashSet::new();
    for token in devices.split(',').map(str::trim).filter(|token| !token.is_empty() && *token != "none") {
        let claim = Claim::parse(token).unwrap_or_else(|_| Claim::exclusive(Device::Opaque(token.into())));
        if named.insert(claim.device.clone()) {
            claims.push(claim);
        }
    }
    let mut entry = Entry::new(node, claims);
    // What the original injected, to the letter; marks and `none` are ours.
    if devices != "none" && !devices.contains('@') {
        entry.visible = devices.into();
    }
    Ok((index, entry))
}

/// Pods of one map may share its devices without saying so, as the original's own example does. Others may not join them.
fn share(map: &mut Map) {
    let mut counts: BTreeMap<(Box<str>, Device), u16> = BTreeMap::new();
    for entry in map.entries.values() {
        for claim in &entry.claims {
            let count = counts.entry((entry.node.clone(), claim.device.clone())).or_default();
            *count = count.saturating_add(1);
        }
    }
    for entry in map.entries.values_mut() {
        for claim in &mut entry.claims {
            let count = counts.get(&(entry.node.clone(), claim.device.clone())).copied().unwrap_or(1);
            if claim.sharers.is_none() && count > 1 {
                claim.sharers = NonZeroU16::new(count);
            }
        }
    }
}
