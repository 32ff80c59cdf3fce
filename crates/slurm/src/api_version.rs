//! Versions of the REST API, and which of them a server offers.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// A version of the REST API: `v0.0.42`. The API differs from one to the next, and a server offers several.
///
/// ```
/// use slurm::ApiVersion;
///
/// let version: ApiVersion = "v0.0.42".parse()?;
/// assert!(version > ApiVersion::OLDEST);
/// assert_eq!(version.to_string(), "v0.0.42");
/// # Ok::<(), slurm::ApiVersionError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ApiVersion(u16);

/// What is no version of the API.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no version of Slurm's REST API; write it as v0.0.42")]
pub struct ApiVersionError(String);

impl ApiVersion {
    /// The oldest version that we read.
    pub const OLDEST: Self = Self(40);
    /// The newest version that we read.
    pub const NEWEST: Self = Self(46);
    /// The first version that can change many nodes by one call.
    pub const MANY_NODES: Self = Self(42);
    /// The first version that can make, change and delete reservations.
    pub const RESERVATIONS: Self = Self(43);

    /// The version `v0.0.NUMBER`.
    pub const fn new(number: u16) -> Self {
        Self(number)
    }

    /// Every version that we read, oldest first.
    pub fn known() -> impl DoubleEndedIterator<Item = Self> {
        (Self::OLDEST.0..=Self::NEWEST.0).map(Self)
    }
}

impl fmt::Display for ApiVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v0.0.{}", self.0)
    }
}

impl FromStr for ApiVersion {
    type Err = ApiVersionError;

    fn from_str(text: &str) -> Result<Self, ApiVersionError> {
        text.strip_prefix("v0.0.")
            .filter(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
            .and_then(|number| number.parse().ok())
            .map(Self)
            .ok_or_else(|| ApiVersionError(text.into()))
    }
}

/// The versions that a server offers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// For what slurmctld does.
    pub slurm: BTreeSet<ApiVersion>,
    /// For what slurmdbd does; empty without accounting.
    pub slurmdb: BTreeSet<ApiVersion>,
}

impl Offer {
    /// The newest version that both the server and we know.
    pub fn best(&self) -> Option<ApiVersion> {
        ApiVersion::known().rev().find(|version| self.slurm.contains(version))
    }
}

impl fmt::Display for Offer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.slurm.is_empty() {
            return f.write_str("none");
        }
        let names: Vec<String> = self.slurm.iter().map(ToString::to_string).collect();
        f.write_str(&names.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(numbers: &[u16]) -> Offer {
        Offer { slurm: numbers.iter().copied().map(ApiVersion).collect(), ..Offer::default() }
    }

    #[test]
    fn the_newest_version_that_both_know_is_chosen() {
        assert_eq!(offer(&[40, 41, 42]).best(), Some(ApiVersion(42)));
        assert_eq!(offer(&[39, 40]).best(), Some(ApiVersion(40)));
        assert_eq!(offer(&[45, 46, 47, 99]).best(), Some(ApiVersion::NEWEST));
        assert_eq!(offer(&[38, 39]).best(), None);
        assert_eq!(offer(&[]).best(), None);
    }

    #[test]
    fn versions_are_read_and_printed() {
        for version in ApiVersion::known() {
            assert_eq!(version.to_string().parse(), Ok(version));
        }
        for text in ["", "v0.0.", "0.0.42", "v0.0.x", "v0.0.+1", "v0.1.42", "v0.0.99999999"] {
            assert!(text.parse::<ApiVersion>().is_err(), "{text}");
        }
    }
}
