//! Which namespaces a process looks at.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Serialize, Serializer};

/// All namespaces, or some.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Every namespace.
    All,
    /// These.
    Namespaces(Vec<String>),
}

impl Scope {
    /// Reads `*`, one name, or a comma list; empty means all, as in the original.
    pub fn parse(text: &str) -> Result<Self, String> {
        let names: BTreeSet<&str> = text.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
        if names.is_empty() || names.contains("*") {
            return if names.len() > 1 {
                Err(format!("{text:?} names both all namespaces (*) and single ones; write one or the other"))
            } else {
                Ok(Self::All)
            };
        }
        if let Some(bad) = names.iter().find(|name| !is_label(name)) {
            return Err(format!("{bad:?} is no name of a namespace: use at most 63 of a-z, 0-9 and '-'"));
        }
        Ok(Self::Namespaces(names.into_iter().map(ToString::to_string).collect()))
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => out.write_str("*"),
            Self::Namespaces(names) => out.write_str(&names.join(",")),
        }
    }
}

impl Serialize for Scope {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

fn is_label(name: &str) -> bool {
    let inner = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    name.len() <= 63 && name.bytes().all(inner) && !name.starts_with('-') && !name.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn star_one_name_and_lists_are_read() {
        assert_eq!(Scope::parse("*"), Ok(Scope::All));
        assert_eq!(Scope::parse(""), Ok(Scope::All));
        assert_eq!(Scope::parse("b, a,b"), Ok(Scope::Namespaces(vec!["a".into(), "b".into()])));
        assert!(Scope::parse("a,*").unwrap_err().contains("one or the other"));
        assert!(Scope::parse("a,B").unwrap_err().contains("\"B\""));
    }
}
