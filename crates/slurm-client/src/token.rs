//! Where the token of each request comes from.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use slurm::{Claims, Key, KeyError, KeyKind, Secret, TokenError, sign_token};

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
pub enum TokenProblem {
    /// A file cannot be read.
    #[error("cannot read {}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// A file has no token in it.
    #[error("{} holds no token; it must hold one line, as `scontrol token` prints it after SLURM_JWT=", path.display())]
    NoToken {
        /// The file.
        path: PathBuf,
    },
    /// The key cannot be used.
    #[error("{0}")]
    Key(#[from] KeyError),
    /// A token cannot be made.
    #[error("{0}")]
    Token(#[from] TokenError),
    /// The machine gives no random bytes.
    #[error("this machine gives no random bytes")]
    Entropy,
}

/// Gives the token for a request. It is asked before each.
pub trait TokenProvider: fmt::Debug + Send + Sync {
    /// The token to show now.
    fn token(&self) -> Result<Secret, TokenProblem>;

    /// Learns that the server did not accept the token.
    fn refused(&self) {}
}

/// Always the same token.
#[derive(Clone, Debug)]
pub struct StaticToken(Secret);

impl StaticToken {
    /// Takes the token. What stands around it, as a line break, is removed.
    pub fn new(token: &str) -> Self {
        Self(token_of(token).to_owned().into())
    }
}

impl TokenProvider for StaticToken {
    fn token(&self) -> Result<Secret, TokenProblem> {
        Ok(self.0.clone())
    }
}

/// The token in a file, which is read for each request: whoever renews it only has to write the file.
#[derive(Clone, Debug)]
pub struct FileToken {
    path: PathBuf,
}

impl FileToken {
    /// The token in this file.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }
}

impl TokenProvider for FileToken {
    fn token(&self) -> Result<Secret, TokenProblem> {
        let text = std::fs::read_to_string(&self.path)
            .map_err(|error| TokenProblem::File { path: self.path.clone(), error })?;
        let text = zeroize::Zeroizing::new(text);
        match token_of(&text) {
            "" => Err(TokenProblem::NoToken { path: self.path.clone() }),
            token => Ok(token.to_owned().into()),
        }
    }
}

/// The token in a text: alone, or as `scontrol token` prints it.
fn token_of(text: &str) -> &str {
    let text = text.trim();
    text.strip_prefix("SLURM_JWT=").unwrap_or(text)
}

/// Tokens made from the JWT key, each used for 4/5 of its lifetime.
pub struct MintedToken {
    key: KeySource,
    user: String,
    issuer: String,
    lifetime: Duration,
    /// Seconds since 1970.
    clock: Box<dyn Fn() -> u64 + Send + Sync>,
    current: Mutex<Option<(Claims, Secret)>>,
}

/// Where the key is.
#[derive(Clone, Debug)]
pub enum KeySource {
    /// Here.
    Key(Key),
    /// In a file, which is read whenever a token is made, so that a new key is found.
    File(PathBuf),
}

impl MintedToken {
    /// Tokens for a Slurm user.
    pub fn new(key: KeySource, user: &str, issuer: &str, lifetime: Duration) -> Self {
        Self {
            key,
            user: user.into(),
            issuer: issuer.into(),
            lifetime,
            clock: Box::new(unix_time),
            current: Mutex::new(None),
        }
    }

    /// The same by another clock, which gives seconds since 1970.
    #[must_use]
    pub fn with_clock(self, clock: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self { clock: Box::new(clock), ..self }
    }

    fn mint(&self, now: u64) -> Result<(Claims, Secret), TokenProblem> {
        let key = match &self.key {
            KeySource::Key(key) => key.clone(),
            KeySource::File(path) => {
                let bytes =
                    std::fs::read(path).map_err(|error| TokenProblem::File { path: path.clone(), error })?;
                Key::from_bytes(KeyKind::Jwt, bytes)?
            }
        };
        let claims = Claims::new(&self.user, &self.issuer, now, self.lifetime, random_bytes()?);
        let token = sign_token(&claims, &key)?;
        Ok((claims, token))
    }
}

impl TokenProvider for MintedToken {
    fn token(&self) -> Result<Secret, TokenProblem> {
        let now = (self.clock)();
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((claims, token)) = &*current
            && (claims.issued_at..claims.renew_at()).contains(&now)
        {
            return Ok(token.clone());
        }
        let made = self.mint(now)?;
        let token = made.1.clone();
        *current = Some(made);
        Ok(token)
    }

    fn refused(&self) {
        // The key may have changed: the next request gets a new token.
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl fmt::Debug for MintedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MintedToken").field("user", &self.user).field("lifetime", &self.lifetime).finish()
    }
}

/// Seconds since 1970 by the clock of this machine.
pub fn unix_time() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// Random bytes that are fit for keys and identities.
pub fn random_bytes<const N: usize>() -> Result<[u8; N], TokenProblem> {
    let mut bytes = [0; N];
    ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut bytes)
        .map_err(|_| TokenProblem::Entropy)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use slurm::verify_token;

    use super::*;

    fn key(first: u8) -> Key {
        Key::generate(KeyKind::Jwt, |bytes| bytes[0] = first).unwrap()
    }

    #[test]
    fn a_token_is_used_for_four_fifths_of_its_life_and_then_made_anew() {
        let now = Arc::new(AtomicU64::new(1000));
        let clock = Arc::clone(&now);
        let provider = MintedToken::new(KeySource::Key(key(1)), "slurm", "test", Duration::from_secs(100))
            .with_clock(move || clock.load(Ordering::Relaxed));
        let first = provider.token().unwrap();
        now.store(1079, Ordering::Relaxed);
        assert_eq!(provider.token().unwrap(), first);
        now.store(1080, Ordering::Relaxed);
        let second = provider.token().unwrap();
        assert_ne!(second, first);
        assert_eq!(verify_token(&second, &key(1), 1080).unwrap().expires_at, 1180);
    }

    #[test]
    fn a_clock_that_was_set_back_makes_a_new_token() {
        let now = Arc::new(AtomicU64::new(1000));
        let clock = Arc::clone(&now);
        let provider = MintedToken::new(KeySource::Key(key(1)), "slurm", "test", Duration::from_secs(100))
            .with_clock(move || clock.load(Ordering::Relaxed));
        let first = provider.token().unwrap();
        now.store(500, Ordering::Relaxed);
        assert_ne!(provider.token().unwrap(), first);
    }

    #[test]
    fn a_refused_token_is_not_shown_again_and_a_new_key_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jwt.key");
        std::fs::write(&path, key(1).bytes().expose()).unwrap();
        let provider =
            MintedToken::new(KeySource::File(path.clone()), "slurm", "test", Duration::from_secs(100));
        let first = provider.token().unwrap();
        assert!(verify_token(&first, &key(1), unix_time()).is_ok());
        std::fs::write(&path, key(2).bytes().expose()).unwrap();
        assert_eq!(provider.token().unwrap(), first, "nobody complained yet");
        provider.refused();
        assert!(verify_token(&provider.token().unwrap(), &key(2), unix_time()).is_ok());
    }

    #[test]
    fn a_token_file_is_read_for_each_request() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let provider = FileToken::new(&path);
        assert!(matches!(provider.token(), Err(TokenProblem::File { .. })));
        std::fs::write(&path, "one\n").unwrap();
        assert_eq!(provider.token().unwrap().expose(), b"one");
        std::fs::write(&path, "SLURM_JWT=two\n").unwrap();
        assert_eq!(provider.token().unwrap().expose(), b"two");
        std::fs::write(&path, "\n").unwrap();
        assert!(matches!(provider.token(), Err(TokenProblem::NoToken { .. })));
    }

    #[test]
    fn no_secret_is_printed() {
        let provider = MintedToken::new(KeySource::Key(key(1)), "slurm", "test", Duration::from_secs(100));
        let token = provider.token().unwrap();
        let text = String::from_utf8(token.expose().to_vec()).unwrap();
        for shown in [format!("{provider:?}"), format!("{:?}", StaticToken::new(&text))] {
            assert!(!shown.contains(&text) && !shown.contains("[1, 0"), "{shown}");
        }
    }
}
