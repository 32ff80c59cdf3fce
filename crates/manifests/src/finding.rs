//! What is wrong with a manifest, and where.

use std::fmt;

use crate::node::{Mark, Path};

/// One thing that is wrong with a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The line, counted from 1.
    pub line: usize,
    /// The column, counted from 1, for text that is no YAML.
    pub column: Option<usize>,
    /// The field, as the API server writes it; empty for what is about the whole document.
    pub path: String,
    /// What is wrong, and what to write instead.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.line)?;
        if let Some(column) = self.column {
            write!(f, ":{column}")?;
        }
        if !self.path.is_empty() {
            write!(f, ": {}", self.path)?;
        }
        write!(f, ": {}", self.message)
    }
}

/// Collects findings while a document is walked.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    found: Vec<Finding>,
    here: Mark,
    /// Whether one of them leaves rules without the values that they need.
    blocking: bool,
}

impl Findings {
    pub(crate) fn new(here: Mark) -> Self {
        Self { here, ..Self::default() }
    }

    /// Where the walk is.
    pub(crate) fn here(&self) -> Mark {
        self.here
    }

    /// Walks on below the value at `mark`.
    pub(crate) fn at(&mut self, mark: Mark, walk: impl FnOnce(&mut Self)) {
        let before = std::mem::replace(&mut self.here, mark);
        walk(self);
        self.here = before;
    }

    pub(crate) fn add(&mut self, mark: Mark, path: &Path, message: String) {
        self.found.push(Finding { line: mark.line, column: None, path: path.as_str().to_owned(), message });
    }

    pub(crate) fn add_here(&mut self, path: &Path, message: String) {
        self.add(self.here, path, message);
    }

    /// As [`Self::add_here`], for what keeps the API server from running rules.
    pub(crate) fn block(&mut self, path: &Path, message: String) {
        self.blocking = true;
        self.add_here(path, message);
    }

    pub(crate) fn is_blocking(&self) -> bool {
        self.blocking
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    pub(crate) fn into_vec(self) -> Vec<Finding> {
        self.found
    }
}
