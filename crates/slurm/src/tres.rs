//! Trackable resources: `cpu=4,mem=16G,node=1,billing=4,gres/gpu=2,gres/gpu:a100=2`.

use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

use crate::memory::Memory;

/// A list of trackable resources with their amounts, in the order in which they were written.
///
/// Names and amounts that are not known are kept as text, so that nothing is lost between reading and printing.
///
/// ```
/// use slurm::{Memory, Tres};
///
/// let tres: Tres = "cpu=4,mem=16G,gres/gpu=2,gres/gpu:a100=2".parse()?;
/// assert_eq!(tres.count("cpu"), Some(4));
/// assert_eq!(tres.memory(), Some(Memory::from_mib(16384)));
/// assert_eq!(tres.gres("gpu"), Some(2));
/// # Ok::<(), slurm::TresError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tres(Vec<(String, String)>);

/// Why a text is no list of trackable resources.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TresError {
    /// A part is not `name=amount`.
    #[error("{0:?} is no trackable resource: write NAME=AMOUNT")]
    Format(String),
    /// A name comes twice.
    #[error("`{0}` comes twice")]
    Duplicate(String),
}

impl Tres {
    /// The amount of a resource as it was written. The case of the name does not count.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, amount)| amount)
    }

    /// The amount of a resource if it is a plain number: `cpu`, `node`, `billing`, `gres/...`, `license/...`.
    #[must_use]
    pub fn count(&self, name: &str) -> Option<u64> {
        let amount = self.get(name)?;
        amount.bytes().all(|b| b.is_ascii_digit()).then(|| amount.parse().ok())?
    }

    /// The amount of `mem`.
    #[must_use]
    pub fn memory(&self) -> Option<Memory> {
        self.get("mem")?.parse().ok()
    }

    /// The number of generic resources of a kind: `gpu`, or of one type of it: `gpu:a100`.
    #[must_use]
    pub fn gres(&self, name: &str) -> Option<u64> {
        self.count(&format!("gres/{name}"))
    }

    /// Every name with its amount, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, amount)| (name.as_str(), amount.as_str()))
    }

    /// Whether nothing is listed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromStr for Tres {
    type Err = TresError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut found: Vec<(String, String)> = Vec::new();
        let mut names = HashSet::new();
        // Slurm's own lists sometimes begin or end with a comma.
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (name, amount) = part
                .split_once('=')
                .filter(|(name, amount)| is_word(name) && is_word(amount))
                .ok_or_else(|| TresError::Format(part.chars().take(80).collect()))?;
            if !names.insert(name.to_ascii_lowercase()) {
                return Err(TresError::Duplicate(name.into()));
            }
            found.push((name.into(), amount.into()));
        }
        Ok(Self(found))
    }
}

fn is_word(text: &str) -> bool {
    // The last three would mean something else in a configuration file.
    let wrong = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '=' | '#' | '"' | '\\');
    !text.is_empty() && !text.contains(wrong)
}

impl fmt::Display for Tres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, amount)) in self.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{name}={amount}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FULL: &str = "cpu=4,mem=16G,node=1,billing=4,gres/gpu=2,gres/gpu:a100=2,license/x@db=1,energy=18446744073709551614";

    #[test]
    fn amounts_are_found_by_name() {
        let tres: Tres = FULL.parse().unwrap();
        assert_eq!(tres.count("cpu"), Some(4));
        assert_eq!(tres.count("CPU"), Some(4));
        assert_eq!(tres.memory(), Some(Memory::from_mib(16384)));
        assert_eq!(tres.count("mem"), None, "16G is no plain number");
        assert_eq!(tres.gres("gpu"), Some(2));
        assert_eq!(tres.gres("gpu:a100"), Some(2));
        assert_eq!(tres.gres("gpu:h100"), None);
        assert_eq!(tres.get("license/x@db"), Some("1"));
        assert_eq!(tres.count("pages"), None);
    }

    #[test]
    fn order_and_unknown_names_are_kept() {
        for text in [FULL, "", "future/thing:x=12.5Z", "node=1,cpu=2"] {
            assert_eq!(text.parse::<Tres>().unwrap().to_string(), text);
        }
        assert_eq!(",cpu=1, node=2,".parse::<Tres>().unwrap().to_string(), "cpu=1,node=2");
    }

    #[test]
    fn other_text_is_refused() {
        for text in ["cpu", "cpu=", "=1", "cpu=1=2", "a b=1", "cpu=1\n2", "a#=1", "a=\"1\"", "a\\=1"] {
            assert!(matches!(text.parse::<Tres>(), Err(TresError::Format(_))), "{text:?}");
        }
        assert_eq!("cpu=1,CPU=2".parse::<Tres>(), Err(TresError::Duplicate("CPU".into())));
    }

    proptest! {
        #[test]
        fn print_and_parse_are_inverse(names in proptest::collection::btree_set("[a-z]{1,6}(/[a-z]{1,3}(:[a-z0-9]{1,3})?)?", 0..6), amount in "[0-9]{1,5}[KMGTP]?") {
            let text = names.iter().map(|name| format!("{name}={amount}")).collect::<Vec<_>>().join(",");
            let tres: Tres = text.parse().unwrap();
            prop_assert_eq!(tres.to_string(), text);
        }

        #[test]
        fn no_text_is_too_strange(text in "[a-z=,]{0,12}|\\PC*") {
            let _ = text.parse::<Tres>();
        }
    }
}
