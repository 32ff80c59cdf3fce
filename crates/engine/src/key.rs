//! The name of an object within its kind.

use std::fmt;
use std::str::FromStr;

use kube::Resource;

/// Namespace (empty for cluster-scoped kinds) and name. Sorts by namespace, then name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// The namespace; empty for a cluster-scoped object.
    pub namespace: Box<str>,
    /// The name.
    pub name: Box<str>,
}

impl Key {
    /// The key of a namespaced object.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// The key of a cluster-scoped object.
    pub fn cluster_scoped(name: &str) -> Self {
        Self::new("", name)
    }

    /// The key of an object as the API server sent it.
    pub fn of(object: &impl Resource) -> Self {
        let meta = object.meta();
        Self::new(meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            out.write_str(&self.name)
        } else {
            write!(out, "{}/{}", self.namespace, self.name)
        }
    }
}

/// A text that is no key.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is neither a name nor namespace/name")]
pub struct ParseKeyError(String);

impl FromStr for Key {
    type Err = ParseKeyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = text.split('/');
        match (parts.next(), parts.next(), parts.next()) {
            (Some(name), None, None) if !name.is_empty() => Ok(Self::cluster_scoped(name)),
            (Some(namespace), Some(name), None) if !namespace.is_empty() && !name.is_empty() => {
                Ok(Self::new(namespace, name))
            }
            _ => Err(ParseKeyError(text.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_and_parses_both_scopes() {
        for text in ["node-1", "slurm/worker-0"] {
            assert_eq!(text.parse::<Key>().unwrap().to_string(), text);
        }
        for text in ["", "/", "a/", "/b", "a/b/c"] {
            assert!(text.parse::<Key>().is_err(), "{text:?}");
        }
    }
}
