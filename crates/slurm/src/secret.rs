//! Bytes that must not be seen.

use std::fmt;

use zeroize::Zeroizing;

/// A secret: printed nowhere, and wiped from memory when it goes.
///
/// ```
/// use slurm::Secret;
///
/// let secret = Secret::from("hunter2".to_owned());
/// assert_eq!(format!("{secret:?} {secret}"), "[secret] [secret]");
/// assert_eq!(secret.expose(), b"hunter2");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// The content. Whoever asks must not print it.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl From<Vec<u8>> for Secret {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Zeroizing::new(bytes))
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        text.into_bytes().into()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}
