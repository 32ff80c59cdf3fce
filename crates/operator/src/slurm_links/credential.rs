//! What a link shows to slurmrestd, which can be exchanged while the link is up.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use slurm::{KeyKind, Secret};
use slurm_client::{KeySource, MintedToken, StaticToken, TokenProblem, TokenProvider};

use super::NoLink;

/// slurmrestd serves whoever the token names; only root may drain nodes.
const USER: &str = "root";
const ISSUER: &str = "soperator";
const TOKEN_LIFETIME: Duration = Duration::from_secs(600);

/// What a link shows to slurmrestd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credential {
    /// This token, made by somebody else.
    Token(Secret),
    /// Tokens of our own, signed with this key of Slurm.
    JwtKey(Secret),
}

impl Credential {
    fn provider(&self) -> Result<Box<dyn TokenProvider>, NoLink> {
        Ok(match self {
            Self::Token(token) => {
                let text =
                    std::str::from_utf8(token.expose()).map_err(|_| NoLink::Token("it is not text"))?;
                let text = text.trim();
                if text.is_empty() {
                    return Err(NoLink::Token("it is empty"));
                }
                if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
                    return Err(NoLink::Token("it has blanks or other signs that no token has"));
                }
                Box::new(StaticToken::new(text))
            }
            Self::JwtKey(key) => {
                let key = slurm::Key::from_bytes(KeyKind::Jwt, key.expose().to_vec())?;
                Box::new(MintedToken::new(KeySource::Key(key), USER, ISSUER, TOKEN_LIFETIME))
            }
        })
    }
}

#[derive(Debug)]
struct Shown {
    credential: Credential,
    provider: Box<dyn TokenProvider>,
}

/// Gives the tokens of a link. Clones share the credential.
#[derive(Clone, Debug)]
pub(super) struct Tokens(Arc<RwLock<Shown>>);

impl Tokens {
    pub(super) fn new(credential: Credential) -> Result<Self, NoLink> {
        let provider = credential.provider()?;
        Ok(Self(Arc::new(RwLock::new(Shown { credential, provider }))))
    }

    /// Shows this from now on. Returns whether it is another one than before.
    pub(super) fn show(&self, credential: Credential) -> Result<bool, NoLink> {
        if self.0.read().credential == credential {
            return Ok(false);
        }
        let provider = credential.provider()?;
        *self.0.write() = Shown { credential, provider };
        Ok(true)
    }

    /// What is shown.
    pub(super) fn credential(&self) -> Credential {
        self.0.read().credential.clone()
    }
}

impl TokenProvider for Tokens {
    fn token(&self) -> Result<Secret, TokenProblem> {
        self.0.read().provider.token()
    }

    fn refused(&self) {
        self.0.read().provider.refused();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(text: &str) -> Credential {
        Credential::Token(text.to_string().into())
    }

    #[test]
    fn the_credential_can_be_exchanged_and_what_is_unfit_leaves_the_old_one() {
        let tokens = Tokens::new(token("one\n")).unwrap();
        assert_eq!(tokens.token().unwrap().expose(), b"one");
        assert!(!tokens.show(token("one\n")).unwrap());
        assert!(tokens.show(token("two")).unwrap());
        for unfit in ["", " \n", "a b", "a\nb", "ü"] {
            assert!(matches!(tokens.show(token(unfit)), Err(NoLink::Token(_))), "{unfit:?}");
        }
        assert_eq!(tokens.token().unwrap().expose(), b"two");
        assert!(!format!("{tokens:?}").contains("two"));
    }
}
