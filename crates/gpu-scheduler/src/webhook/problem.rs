//! What is wrong with an object, and where.

use std::collections::BTreeMap;
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
    /// What it is about, where the message tells numbers that change without making another problem of it.
    topic: Option<String>,
    /// How far it goes.
    extent: u32,
}

impl Problem {
    /// What makes two problems one.
    fn key(&self) -> (&str, &str) {
        (&self.path, self.topic.as_ref().unwrap_or(&self.message))
    }
}

/// What was wrong with an object before a change.
#[derive(Debug, Default)]
pub(super) struct Known<'a>(BTreeMap<(&'a str, &'a str), u32>);

impl<'a> Known<'a> {
    pub(super) fn of(problems: &'a [Problem]) -> Self {
        let mut known = BTreeMap::new();
        for problem in problems {
            let extent: &mut u32 = known.entry(problem.key()).or_default();
            *extent = problem.extent.max(*extent);
        }
        Self(known)
    }

    /// Whether the problem was there already, and was no smaller.
    pub(super) fn has(&self, problem: &Problem) -> bool {
        self.0.get(&problem.key()).is_some_and(|extent| problem.extent <= *extent)
    }
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

    /// Says of the last problem that its numbers may change without making another one of it, unless `extent` grows.
    pub(super) fn about(&mut self, topic: String, extent: u32) {
        if let Some(last) = self.0.last_mut() {
            last.topic = Some(topic);
            last.extent = extent;
        }
    }

    fn add(&mut self, severity: Severity, path: impl Into<String>, message: impl Into<String>) {
        let (path, message) = (path.into(), message.into());
        self.0.push(Problem { severity, path, message, topic: None, extent: 0 });
    }

    pub(super) fn into_vec(self) -> Vec<Problem> {
        self.0
    }
}
