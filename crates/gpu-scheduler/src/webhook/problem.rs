//! What is wrong with an object, and where.

use std::fmt;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Severity {
    /// The object is refused as not valid.
    Invalid,
    /// The object is refused as not allowed.
    Forbidden,
    /// The user is told.
    Warning,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) severity: Severity,
    path: String,
    message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.path, self.message)
    }
}

/// All that was found so far.
#[derive(Debug, Default)]
pub(super) struct Problems(Vec<Problem>);

impl Problems {
    /// The object is not valid.
    pub(super) fn invalid(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.add(Severity::Invalid, path, message);
    }

    /// The object asks for what its namespace may not have.
    pub(super) fn forbidden(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.add(Severity::Forbidden, path, message);
    }

    /// The user should know.
    pub(super) fn warn(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.add(Severity::Warning, path, message);
    }

    /// Not valid, or in compat mode, where the original was silent, something to know.
    pub(super) fn invalid_unless(
        &mut self,
        compat: bool,
        path: impl Into<String>,
        message: impl Into<String>,
    ) {
        self.add(if compat { Severity::Warning } else { Severity::Invalid }, path, message);
    }

    fn add(&mut self, severity: Severity, path: impl Into<String>, message: impl Into<String>) {
        self.0.push(Problem { severity, path: path.into(), message: message.into() });
    }

    pub(super) fn into_vec(self) -> Vec<Problem> {
        self.0
    }
}
