//! What is wrong with settings.

use std::fmt;
use std::path::Path;

use super::source::Source;

/// One thing that is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    place: String,
    message: String,
}

impl Problem {
    pub(super) fn new(place: impl Into<String>, message: impl Into<String>) -> Self {
        Self { place: place.into(), message: message.into() }
    }

    /// About a key (none for the whole file) in a line of a file.
    pub(super) fn in_file(path: &Path, line: u64, key: &str, message: impl Into<String>) -> Self {
        let key = if key.is_empty() { String::new() } else { format!(": {key}") };
        Self::new(format!("{}:{line}{key}", path.display()), message)
    }

    /// About the value of `key` from `source`.
    pub(super) fn at(source: &Source, key: &str, message: impl Into<String>) -> Self {
        match source {
            Source::Default => Self::new(key, message),
            Source::File(path, line) => Self::in_file(path, *line, key, message),
            Source::Env(name) => Self::new(format!("environment variable {name}"), message),
            Source::Flag(name) => Self::new(format!("--{name}"), message),
            Source::ServiceAccount => Self::new("the ServiceAccount's file", message),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.place, self.message)
    }
}

/// Settings that cannot be used: everything that is wrong with them, one line each.
#[derive(Debug)]
pub struct SettingsError(pub Vec<Problem>);

impl fmt::Display for SettingsError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, problem) in self.0.iter().enumerate() {
            if number > 0 {
                out.write_str("\n")?;
            }
            write!(out, "{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for SettingsError {}
