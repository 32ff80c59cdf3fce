//! The map of a pod: which index goes to which node and devices.
//!
//! ```text
//! # index = node : devices
//! 0=node1:0,1
//! 1=node2:GPU-8932f937-d72c-4106-c12f-20bd9faed9f6
//! 2=node3:3@shared(2)
//! 3=node3:none
//! ```
//!
//! The strict mode refuses whatever it does not understand, with line and column. The compat mode skips such lines, as the
//! original did, but never loses the lines after them.

mod compat;
mod device;
mod strict;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

pub use device::{Claim, Device, Naming};
use sha2::{Digest as _, Sha256};

/// The most bytes that the API server takes for all annotations of an object. It counts them after it has asked us.
const LARGEST: usize = 256 << 10;

/// How a map is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// What is not understood is an error.
    #[default]
    Strict,
    /// Lines that the original skipped are skipped, and devices are taken as they are.
    Compat,
}

/// Why a map cannot be read. Lines and columns count from 1, columns in characters.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}")]
pub struct MapError {
    /// The line of the annotation's value.
    pub line: usize,
    /// The character in the line.
    pub column: usize,
    /// What is wrong, and what to write instead.
    pub message: String,
}

/// Where pods of one index go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The node's name, or its label `gpu-node-name`.
    pub node: Box<str>,
    /// The devices in the order of the map; empty: all are hidden (`none`).
    pub claims: Box<[Claim]>,
    /// The value of `CUDA_VISIBLE_DEVICES`.
    visible: Box<str>,
}

impl Entry {
    fn new(node: &str, claims: Vec<Claim>) -> Self {
        let visible: Vec<String> = claims.iter().map(|claim| claim.device.to_string()).collect();
        Self { node: node.into(), claims: claims.into(), visible: visible.join(",").into() }
    }

    /// The value of `CUDA_VISIBLE_DEVICES`: devices with commas between. Empty hides every device.
    pub fn visible_devices(&self) -> &str {
        &self.visible
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:", self.node)?;
        if self.claims.is_empty() {
            return out.write_str("none");
        }
        for (number, claim) in self.claims.iter().enumerate() {
            write!(out, "{}{claim}", if number == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

/// A map that was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Map {
    entries: BTreeMap<u32, Entry>,
    /// What was taken but should be written otherwise, or was skipped.
    warnings: Vec<MapError>,
}

impl Map {
    /// Reads the value of the annotation.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong. In compat mode nothing is but the size; see [`Map::warnings`] for what was skipped.
    pub fn parse(text: &str, mode: Mode) -> Result<Self, MapError> {
        if text.len() > LARGEST {
            let message =
                format!("the map has {} bytes, and annotations have room for {LARGEST}", text.len());
            return Err(MapError { line: 1, column: 1, message });
        }
        match mode {
            Mode::Strict => strict::parse(text),
            Mode::Compat => Ok(compat::parse(text)),
        }
    }

    /// Where the pod of this index goes.
    pub fn entry(&self, index: u32) -> Option<&Entry> {
        self.entries.get(&index)
    }

    /// All entries, sorted by index.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = (u32, &Entry)> {
        self.entries.iter().map(|(index, entry)| (*index, entry))
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// What should be written otherwise; in compat mode also what was skipped.
    pub fn warnings(&self) -> &[MapError] {
        &self.warnings
    }
}

impl fmt::Display for Map {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.entries.iter().try_for_each(|(index, entry)| writeln!(out, "{index}={entry}"))
    }
}

/// The hash of a map's text: the first 16 hexadecimal digits of its SHA-256.
pub fn hash(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    digest.iter().take(8).fold(String::with_capacity(16), |mut hash, byte| {
        use std::fmt::Write as _;
        // Writing to a string cannot fail.
        let _ = write!(hash, "{byte:02x}");
        hash
    })
}
