//! The name of a Slurm node.

use std::fmt;
use std::str::FromStr;

/// The name of a Slurm node: letters, digits, `-`, `_` and `.`, at most 255 of them.
///
/// Slurm itself takes almost anything. What is allowed here has no meaning of its own in a host list or in a
/// configuration file, so that a name can be written anywhere as it is. `ALL` and `DEFAULT` are refused: in
/// `Nodes=` and `NodeName=` they are not names.
///
/// ```
/// use slurm::NodeName;
///
/// assert_eq!(NodeName::new("worker-0")?.as_str(), "worker-0");
/// assert!(NodeName::new("worker 0").is_err());
/// # Ok::<(), slurm::NodeNameError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeName(Box<str>);

/// Why a text is no node name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeNameError {
    /// There is nothing.
    #[error("a node name must not be empty")]
    Empty,
    /// It is longer than [`NodeName::MAX_LEN`].
    #[error("a node name has at most {max} characters, but this has {0}", max = NodeName::MAX_LEN)]
    TooLong(usize),
    /// It has a character that may mean something else.
    #[error("a node name consists of letters, digits, `-`, `_` and `.`, but {0:?} has {1:?}")]
    Character(String, char),
    /// Slurm uses the word for something else.
    #[error("`{0}` is no node name: Slurm uses this word for something else")]
    Reserved(String),
}

impl NodeName {
    /// The longest name that is accepted, in characters.
    pub const MAX_LEN: usize = 255;

    /// Checks a name.
    ///
    /// # Errors
    ///
    /// The text is empty, too long, reserved, or has other characters than those allowed.
    pub fn new(name: impl Into<String>) -> Result<Self, NodeNameError> {
        let name = name.into();
        match problem(&name) {
            None => Ok(Self(name.into())),
            Some(problem) => Err(problem),
        }
    }

    /// For names that are put together from checked parts.
    pub(crate) fn from_checked(name: String) -> Self {
        debug_assert_eq!(problem(&name), None);
        Self(name.into())
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What is wrong with a name, if anything is.
pub(crate) fn problem(name: &str) -> Option<NodeNameError> {
    if name.is_empty() {
        return Some(NodeNameError::Empty);
    }
    if let Some(wrong) = name.chars().find(|c| !is_allowed(*c)) {
        return Some(NodeNameError::Character(shortened(name), wrong));
    }
    if name.len() > NodeName::MAX_LEN {
        return Some(NodeNameError::TooLong(name.len()));
    }
    is_reserved(name).then(|| NodeNameError::Reserved(name.to_owned()))
}

pub(crate) fn is_allowed(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
}

/// Slurm does not look at the case of these words.
pub(crate) fn is_reserved(name: &str) -> bool {
    name.eq_ignore_ascii_case("ALL") || name.eq_ignore_ascii_case("DEFAULT")
}

fn shortened(name: &str) -> String {
    name.chars().take(80).collect()
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<str> for NodeName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl std::borrow::Borrow<str> for NodeName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl FromStr for NodeName {
    type Err = NodeNameError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::new(name)
    }
}

impl From<NodeName> for String {
    fn from(name: NodeName) -> Self {
        name.0.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_names_are_node_names() {
        for name in ["a", "worker-0", "rack1.node_2", "07", "alls", "x".repeat(255).as_str()] {
            assert_eq!(NodeName::new(name).unwrap().to_string(), name);
        }
    }

    #[test]
    fn what_means_something_else_is_no_name() {
        for name in [
            "", "a b", "a,b", "a[1]", "a\n", "a#", "a=b", "a\"", "é", "ALL", "Default", "default", "a\\",
            "a\0",
        ] {
            assert!(NodeName::new(name).is_err(), "{name:?}");
        }
        assert_eq!(NodeName::new("x".repeat(256)), Err(NodeNameError::TooLong(256)));
    }
}
