//! Maps that were read before: all pods of a set have the same text.

use std::collections::HashMap;
use std::sync::Arc;

use crate::map::{self, Map, MapError, Mode};

/// So many are remembered.
const MOST: usize = 4096;

/// A map's text, read.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) map: Result<Map, MapError>,
    pub(super) hash: String,
}

#[derive(Debug)]
pub(super) struct Maps {
    mode: Mode,
    read: HashMap<Box<str>, Arc<Read>>,
}

impl Maps {
    pub(super) fn new(mode: Mode) -> Self {
        Self { mode, read: HashMap::new() }
    }

    pub(super) fn read(&mut self, text: &str) -> Arc<Read> {
        if let Some(known) = self.read.get(text) {
            return Arc::clone(known);
        }
        if self.read.len() >= MOST {
            self.read.clear();
        }
        let read = Arc::new(Read { map: Map::parse(text, self.mode), hash: map::hash(text) });
        self.read.insert(text.into(), Arc::clone(&read));
        read
    }
}
