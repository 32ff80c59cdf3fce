//! Where a value came from.

use std::fmt;
use std::path::PathBuf;

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Nobody set it.
    Default,
    /// A line of the file.
    File(PathBuf, u64),
    /// An environment variable.
    Env(&'static str),
    /// A flag, without dashes.
    Flag(&'static str),
    /// The file with the namespace of the pod's ServiceAccount.
    ServiceAccount,
}

impl fmt::Display for Source {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => out.write_str("default"),
            Self::File(path, line) => write!(out, "{}:{line}", path.display()),
            Self::Env(name) => write!(out, "env {name}"),
            Self::Flag(name) => write!(out, "flag --{name}"),
            Self::ServiceAccount => out.write_str("ServiceAccount"),
        }
    }
}
