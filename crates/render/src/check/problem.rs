//! What is wrong with an object, and where.

use std::fmt;

/// How bad a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The object is refused.
    Error,
    /// The object is taken, and the user is told.
    Warning,
}

/// One thing that is wrong with an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The field, as the API server writes it: `spec.items[0].path`.
    pub path: String,
    /// What is wrong, and what to write instead.
    pub message: String,
    /// Whether it stands in the way.
    pub severity: Severity,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "{}: {}", self.path, self.message)
        }
    }
}

/// Collects problems while an object is looked at.
#[derive(Debug, Default)]
pub struct Problems(Vec<Problem>);

impl Problems {
    /// Adds a problem that stands in the way.
    pub fn error(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.add(Severity::Error, path, message);
    }

    /// Adds a problem.
    pub fn add(&mut self, severity: Severity, path: impl Into<String>, message: impl Into<String>) {
        self.0.push(Problem { path: path.into(), message: message.into(), severity });
    }

    /// All of them, in the order in which they were found.
    #[must_use]
    pub fn into_vec(self) -> Vec<Problem> {
        self.0
    }
}

/// The path of a field of the object at `path`.
#[must_use]
pub fn field(path: &str, key: &str) -> String {
    let plain = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    if plain { format!("{path}.{key}") } else { format!("{path}[{key}]") }
}
