//! The strict reader: everything is understood, or refused at its line and column.

use std::collections::{BTreeMap, HashSet};

use super::{Claim, Device, Entry, Map, MapError, Naming};

/// The longest name of a node.
const LONGEST_NODE: usize = 253;
/// The word for no device at all.
const NONE: &str = "none";

/// Who named a device of a node first.
struct First {
    index: u32,
    line: usize,
    sharers: Option<u16>,
    count: u16,
}

#[derive(Default)]
struct Reader<'t> {
    map: Map,
    /// The line of each index.
    lines: BTreeMap<u32, usize>,
    given: BTreeMap<(&'t str, Device), First>,
    naming: BTreeMap<&'t str, (Naming, usize)>,
}

pub(super) fn parse(text: &str) -> Result<Map, MapError> {
    let mut reader = Reader::default();
    for (number, line) in text.split('\n').enumerate() {
        let content = line.split_once('#').map_or(line, |(content, _)| content);
        if !content.trim().is_empty() {
            reader.line(Line { number: number + 1, whole: content })?;
        }
    }
    if reader.map.is_empty() {
        return Err(MapError {
            line: 1,
            column: 1,
            message: "the map has no entry; write a line such as 0=node1:0,1".into(),
        });
    }
    Ok(reader.map)
}

/// One line without its comment. Errors are placed by where a part of it begins.
#[derive(Clone, Copy)]
struct Line<'t> {
    number: usize,
    whole: &'t str,
}

impl Line<'_> {
    /// An error at the character `offset` after the beginning of `part`, which is a part of the line.
    fn error(&self, part: &str, offset: usize, message: String) -> MapError {
        let begin = part.as_ptr().addr().saturating_sub(self.whole.as_ptr().addr()).min(self.whole.len());
        let before = self.whole.get(..begin).map_or(0, |before| before.chars().count());
        MapError { line: self.number, column: before + offset + 1, message }
    }
}

impl<'t> Reader<'t> {
    fn line(&mut self, line: Line<'t>) -> Result<(), MapError> {
        let Some((index, rest)) = line.whole.split_once('=') else {
            let text = line.whole.trim();
            return Err(line.error(
                text,
                0,
                format!("{text:?} has no \"=\"; write index=node:devices, or # before a note"),
            ));
        };
        let index = self.index(line, index)?;
        let Some((node, devices)) = rest.split_once(':') else {
            let text = rest.trim();
            let column = text.chars().count();
            return Err(line.error(
                if text.is_empty() { rest } else { text },
                column,
                format!(
                    "devices are missing; write {index}={text}:0,1, or {index}={text}:{NONE} to hide all"
                ),
            ));
        };
        let node = node_name(line, node)?;
        let claims = self.claims(line, index, node, devices)?;
        self.lines.insert(index, line.number);
        self.map.entries.insert(index, Entry::new(node, claims));
        Ok(())
    }

    fn index(&mut self, line: Line<'t>, text: &'t str) -> Result<u32, MapError> {
        let trimmed = text.trim();
        let index = Some(trimmed)
            .filter(|text| !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit()))
            .and_then(|text| text.parse::<u32>().ok())
            .filter(|index| i32::try_from(*index).is_ok());
        let at = if trimmed.is_empty() { text } else { trimmed };
        let Some(index) = index else {
            let message = if trimmed.is_empty() {
                "the index is missing before \"=\"; write index=node:devices".into()
            } else {
                format!("{trimmed:?} is no index; write the number of the pod, such as 0")
            };
            return Err(line.error(at, 0, message));
        };
        if let Some(before) = self.lines.get(&index) {
            return Err(line.error(
                at,
                0,
                format!("index {index} is repeated, line {before} has it already; keep one of them"),
            ));
        }
        if trimmed.len() > 1 && trimmed.starts_with('0') {
            let message = format!("{trimmed} is taken for {index}; write it without leading zeros");
            self.map.warnings.push(line.error(at, 0, message));
        }
        Ok(index)
    }

    fn claims(
        &mut self,
        line: Line<'t>,
        index: u32,
        node: &'t str,
        text: &'t str,
    ) -> Result<Vec<Claim>, MapError> {
        if text.trim() == NONE {
            return Ok(Vec::new());
        }
        if text.trim().is_empty() {
            return Err(line.error(
                text,
                0,
                format!("devices are missing after \":\"; write {NONE} to hide all devices"),
            ));
        }
        let mut claims: Vec<Claim> = Vec::new();
        let mut named = HashSet::new();
        for part in text.split(',') {
            let token = part.trim();
            let at = if token.is_empty() { part } else { token };
            if token == NONE {
                let message = format!("{NONE} stands alone; write {index}={node}:{NONE}");
                return Err(line.error(at, 0, message));
            }
            let claim = Claim::parse(token).map_err(|(offset, message)| line.error(at, offset, message))?;
            if !named.insert(claim.device.clone()) {
                return Err(line.error(at, 0, format!("device {} is repeated", claim.device)));
            }
            self.note(line, index, node, &claim).map_err(|message| line.error(at, 0, message))?;
            claims.push(claim);
        }
        Ok(claims)
    }

    /// Notes who has the device; the error says why it cannot have it beside the others of the map.
    fn note(&mut self, line: Line<'t>, index: u32, node: &'t str, claim: &Claim) -> Result<(), String> {
        let device = &claim.device;
        let (naming, first) = self.naming.entry(node).or_insert((device.naming(), line.number));
        if *naming != device.naming() {
            return Err(format!(
                "{device} is named by {}, but line {first} names devices of {node} by {}; use one way for a node, because \
                 both could be the same card",
                device.naming().word(),
                naming.word(),
            ));
        }
        let sharers = claim.sharers.map(std::num::NonZeroU16::get);
        let key = (node, device.clone());
        let Some(first) = self.given.get_mut(&key) else {
            self.given.insert(key, First { index, line: line.number, sharers, count: 1 });
            return Ok(());
        };
        first.count += 1;
        match (first.sharers, sharers) {
            (Some(before), Some(now)) if before != now => Err(format!(
                "device {device} of {node} has @shared({now}) here and @shared({before}) in line {}; write the same number",
                first.line
            )),
            (Some(_), Some(most)) if first.count > most => Err(format!(
                "device {device} of {node} is given to {} indices, but @shared({most}) allows {most} at once",
                first.count
            )),
            (Some(_), Some(_)) => Ok(()),
            _ => Err(format!(
                "device {device} of {node} is given to index {} in line {} already; write {device}@shared(2) in both lines \
                 if they are to share it",
                first.index, first.line
            )),
        }
    }
}

fn node_name<'t>(line: Line<'t>, text: &'t str) -> Result<&'t str, MapError> {
    let name = text.trim();
    if name.is_empty() {
        return Err(line.error(text, 0, "the node is missing; write index=node:devices".into()));
    }
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if let Some((at, wrong)) = name.chars().enumerate().find(|(_, c)| !inner(*c)) {
        return Err(line.error(
            name,
            at,
            format!("{wrong:?} cannot be part of a node's name or of its label gpu-node-name"),
        ));
    }
    let outer = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    if !outer(name.chars().next()) || !outer(name.chars().next_back()) {
        let message = format!("{name:?} is no name of a node: it begins and ends with a letter or digit");
        return Err(line.error(name, 0, message));
    }
    if name.len() > LONGEST_NODE {
        let message = format!("the node's name is longer than {LONGEST_NODE} characters");
        return Err(line.error(name, 0, message));
    }
    Ok(name)
}
