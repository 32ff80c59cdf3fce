//! The keys by which the parts of a cluster trust each other.

use crate::Secret;

/// What a key is for. It decides how long the key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// munge.key, for `auth/munge`.
    Munge,
    /// slurm.key, for `auth/slurm`.
    Slurm,
    /// jwt_hs256.key, for `auth/jwt`.
    Jwt,
}

impl KeyKind {
    /// How many bytes a new key has: as many as the tools and pages of each project take.
    pub const fn length(self) -> usize {
        match self {
            Self::Munge => 128,
            Self::Slurm => 1024,
            Self::Jwt => 32,
        }
    }

    /// The fewest and the most bytes that a foreign key may have.
    const fn bounds(self) -> (usize, usize) {
        match self {
            Self::Munge => (32, 1024),
            Self::Slurm => (16, 1 << 16),
            // Shorter than the hash would make guessing the key easier than guessing the signature.
            Self::Jwt => (32, 1 << 16),
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Munge => "munge key",
            Self::Slurm => "slurm.key",
            Self::Jwt => "JWT key",
        }
    }
}

/// A key that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// It has the wrong length.
    #[error(
        "the {kind} has {found} bytes, but needs {least} to {most}; make a new one, or check that the file is whole"
    )]
    Length {
        /// Which key.
        kind: &'static str,
        /// How long it is.
        found: usize,
        /// The least length.
        least: usize,
        /// The greatest length.
        most: usize,
    },
    /// All its bytes are the same, so it is no secret.
    #[error("all bytes of the {kind} are the same, so anyone can guess it; make a new one")]
    NotRandom {
        /// Which key.
        kind: &'static str,
    },
}

/// A key with a length that its users accept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    kind: KeyKind,
    bytes: Secret,
}

impl Key {
    /// Makes a key. `fill` must fill the bytes from a source of randomness fit for keys.
    pub fn generate(kind: KeyKind, fill: impl FnOnce(&mut [u8])) -> Result<Self, KeyError> {
        let mut bytes = vec![0; kind.length()];
        fill(&mut bytes);
        Self::from_bytes(kind, bytes)
    }

    /// Takes a key that exists.
    pub fn from_bytes(kind: KeyKind, bytes: impl Into<Secret>) -> Result<Self, KeyError> {
        let bytes = bytes.into();
        let (least, most) = kind.bounds();
        let found = bytes.expose().len();
        if !(least..=most).contains(&found) {
            return Err(KeyError::Length { kind: kind.name(), found, least, most });
        }
        if bytes.expose().windows(2).all(|pair| pair[0] == pair[1]) {
            return Err(KeyError::NotRandom { kind: kind.name() });
        }
        Ok(Self { kind, bytes })
    }

    /// What it is for.
    pub const fn kind(&self) -> KeyKind {
        self.kind
    }

    /// The bytes, as they stand in the key's file.
    pub const fn bytes(&self) -> &Secret {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(bytes: &mut [u8]) {
        for (number, byte) in bytes.iter_mut().enumerate() {
            *byte = (number % 251) as u8;
        }
    }

    #[test]
    fn a_key_is_the_entropy_that_was_passed_in() {
        for kind in [KeyKind::Munge, KeyKind::Slurm, KeyKind::Jwt] {
            let key = Key::generate(kind, count).unwrap();
            let mut expected = vec![0; kind.length()];
            count(&mut expected);
            assert_eq!(key.bytes().expose(), expected);
            assert_eq!(Key::from_bytes(kind, expected).unwrap(), key);
        }
    }

    #[test]
    fn a_source_that_gives_nothing_makes_no_key() {
        assert_eq!(Key::generate(KeyKind::Jwt, |_| ()), Err(KeyError::NotRandom { kind: "JWT key" }));
    }

    #[test]
    fn a_key_of_the_wrong_length_is_refused_with_what_to_do() {
        let error = Key::from_bytes(KeyKind::Jwt, vec![1, 2, 3]).unwrap_err().to_string();
        assert!(
            error.starts_with("the JWT key has 3 bytes, but needs 32 to 65536; make a new one"),
            "{error}"
        );
        assert!(Key::from_bytes(KeyKind::Munge, vec![7; 2000]).is_err());
    }

    #[test]
    fn debug_output_shows_no_byte() {
        let key = Key::generate(KeyKind::Jwt, count).unwrap();
        assert_eq!(format!("{key:?}"), "Key { kind: Jwt, bytes: [secret] }");
    }
}
