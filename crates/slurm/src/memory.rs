//! Amounts of memory, as Slurm counts them.

use std::fmt;
use std::str::FromStr;

/// An amount of memory in whole mebibytes, which is Slurm's unit.
///
/// Text has a binary suffix `K`, `M`, `G`, `T` or `P` of either case, or none for mebibytes. Kibibytes are rounded up,
/// as Slurm does.
///
/// ```
/// use slurm::Memory;
///
/// assert_eq!("16G".parse::<Memory>()?.mib(), 16384);
/// assert_eq!(Memory::from_mib(1536).to_string(), "1536M");
/// # Ok::<(), slurm::MemoryError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Memory(u64);

/// Why a text is no amount of memory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemoryError {
    /// It is no number with a known suffix.
    #[error(
        "{0:?} is no amount of memory: write a whole number with K, M, G, T, P or nothing (for M) behind it"
    )]
    Format(String),
    /// It does not fit into 64 bits of mebibytes.
    #[error("{0:?} is more memory than Slurm can count")]
    TooLarge(String),
}

/// The suffixes that stand for at least a mebibyte, smallest first; each is 1024 of the one before.
const SUFFIXES: [char; 4] = ['M', 'G', 'T', 'P'];

impl Memory {
    /// So many mebibytes.
    #[must_use]
    pub const fn from_mib(mib: u64) -> Self {
        Self(mib)
    }

    /// The whole mebibytes in so many bytes. A rest is cut off: a node never claims more than it has.
    #[must_use]
    pub const fn from_bytes(bytes: u64) -> Self {
        Self(bytes >> 20)
    }

    /// As a number of mebibytes, which is how slurm.conf wants it.
    #[must_use]
    pub const fn mib(self) -> u64 {
        self.0
    }
}

impl FromStr for Memory {
    type Err = MemoryError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(MemoryError::Format(text.into()));
        }
        let number: u64 = digits.parse().map_err(|_| MemoryError::TooLarge(text.into()))?;
        let suffix = text[digits.len()..].to_ascii_uppercase();
        if suffix == "K" {
            return Ok(Self(number.div_ceil(1024)));
        }
        let steps = match suffix.as_str() {
            "" => 0,
            _ => SUFFIXES
                .iter()
                .position(|known| suffix.len() == 1 && suffix.starts_with(*known))
                .ok_or_else(|| MemoryError::Format(text.into()))?,
        };
        let factor = 1_u64 << (10 * steps);
        number.checked_mul(factor).map(Self).ok_or_else(|| MemoryError::TooLarge(text.into()))
    }
}

/// With the largest suffix that loses nothing.
impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut value = self.0;
        let mut suffix = 0;
        while value != 0 && value.is_multiple_of(1024) && suffix + 1 < SUFFIXES.len() {
            value /= 1024;
            suffix += 1;
        }
        write!(f, "{value}{}", SUFFIXES[suffix])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn suffixes_are_binary_and_none_means_mebibytes() {
        for (text, mib) in [
            ("0", 0),
            ("1", 1),
            ("16384", 16384),
            ("16384M", 16384),
            ("16g", 16384),
            ("2T", 2 * 1024 * 1024),
            ("1P", 1024 * 1024 * 1024),
            ("1K", 1),
            ("1024k", 1),
            ("1025K", 2),
        ] {
            assert_eq!(text.parse::<Memory>().unwrap().mib(), mib, "{text}");
        }
    }

    #[test]
    fn a_node_never_claims_a_part_of_a_mebibyte() {
        assert_eq!(Memory::from_bytes((1 << 20) * 5 - 1).mib(), 4);
        assert_eq!(Memory::from_bytes((1 << 20) * 5).mib(), 5);
    }

    #[test]
    fn other_text_is_refused() {
        for text in ["", "G", "1GB", "1 G", "-1", "+1", "1.5G", "0x10", "1X", "Gi", " 1", "1é"] {
            assert!(matches!(text.parse::<Memory>(), Err(MemoryError::Format(_))), "{text:?}");
        }
        for text in ["99999999999999999999", "18446744073709551615P"] {
            assert!(matches!(text.parse::<Memory>(), Err(MemoryError::TooLarge(_))), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn print_and_parse_are_inverse(mib: u64) {
            let memory = Memory::from_mib(mib);
            prop_assert_eq!(memory.to_string().parse::<Memory>().unwrap(), memory);
        }

        #[test]
        fn no_text_is_too_strange(text in "\\PC*") {
            let _ = text.parse::<Memory>();
        }
    }
}
