//! Tokens for slurmrestd: JSON Web Tokens signed with HMAC-SHA256.

use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use crate::{Key, KeyKind, Secret};

const HEADER: &str = r#"{"alg":"HS256","typ":"JWT"}"#;
/// Slurm's own tokens have a few hundred bytes.
const MAX_TOKEN: usize = 16 << 10;

/// Who a token speaks for, and how long. Times are seconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    /// The Slurm user that it speaks for.
    #[serde(rename = "sun")]
    pub user: String,
    /// Who made it.
    #[serde(rename = "iss", default, skip_serializing_if = "String::is_empty")]
    pub issuer: String,
    /// When it was made.
    #[serde(rename = "iat", default)]
    pub issued_at: u64,
    /// From when on it counts.
    #[serde(rename = "nbf", default)]
    pub not_before: u64,
    /// When it ends.
    #[serde(rename = "exp")]
    pub expires_at: u64,
    /// What tells it from all other tokens.
    #[serde(rename = "jti", default, skip_serializing_if = "String::is_empty")]
    pub id: String,
}

impl Claims {
    /// Claims for a user from now on. `entropy` makes the token's identity.
    pub fn new(user: &str, issuer: &str, now: u64, lifetime: Duration, entropy: [u8; 16]) -> Self {
        Self {
            user: user.into(),
            issuer: issuer.into(),
            issued_at: now,
            not_before: now,
            expires_at: now.saturating_add(lifetime.as_secs()),
            id: entropy.iter().map(|byte| format!("{byte:02x}")).collect(),
        }
    }

    /// When to make the next token: after 4/5 of the lifetime, so that none is used up to its last second.
    pub const fn renew_at(&self) -> u64 {
        let lifetime = self.expires_at.saturating_sub(self.issued_at);
        self.issued_at.saturating_add(lifetime / 5 * 4 + lifetime % 5 * 4 / 5)
    }
}

/// Why a token cannot be made or is not good.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// The key is not for tokens.
    #[error("tokens are signed with the JWT key, and this is another one")]
    WrongKey,
    /// The claims name no user, or a lifetime of nothing.
    #[error("a token needs a user and a lifetime of at least a second")]
    Claims,
    /// It is no JSON Web Token, or has no claims that Slurm knows.
    #[error("this is no token of Slurm: {0}")]
    Malformed(&'static str),
    /// It is signed in another way than Slurm's HS256.
    #[error("the token is not signed with HS256")]
    Algorithm,
    /// It was signed with another key, or changed.
    #[error("the signature of the token is wrong: it was made with another key")]
    Signature,
    /// It is not good yet.
    #[error("the token is good from {0} (seconds since 1970) on, which is still to come; check the clocks")]
    TooEarly(u64),
    /// It is over.
    #[error("the token ended at {0} (seconds since 1970); make a new one")]
    Expired(u64),
}

/// Makes a token.
///
/// ```
/// use std::time::Duration;
/// use slurm::{Claims, Key, KeyKind, sign_token, verify_token};
///
/// let key = Key::generate(KeyKind::Jwt, |bytes| bytes[0] = 1)?; // In earnest: from a source of randomness
/// let claims = Claims::new("slurm", "soperator", 1000, Duration::from_secs(900), [7; 16]);
/// let token = sign_token(&claims, &key)?;
/// assert_eq!(verify_token(&token, &key, 1500)?, claims);
/// assert!(verify_token(&token, &key, 1900).is_err(), "it is over");
/// assert_eq!(claims.renew_at(), 1720);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn sign_token(claims: &Claims, key: &Key) -> Result<Secret, TokenError> {
    if claims.user.is_empty() || claims.expires_at <= claims.issued_at {
        return Err(TokenError::Claims);
    }
    let payload = serde_json::to_vec(claims).map_err(|_| TokenError::Claims)?;
    let mut token = BASE64_URL_SAFE_NO_PAD.encode(HEADER);
    token.push('.');
    BASE64_URL_SAFE_NO_PAD.encode_string(payload, &mut token);
    let signature = hmac(key, &token)?.finalize().into_bytes();
    token.push('.');
    BASE64_URL_SAFE_NO_PAD.encode_string(signature, &mut token);
    Ok(token.into())
}

/// What a token claims, without a proof: for messages about tokens whose key is somewhere else.
pub fn claims_of(token: &Secret) -> Result<Claims, TokenError> {
    let (_, payload, _) = parts(token)?;
    decode(payload)
}

/// The header with the payload behind its dot, the payload alone, and the signature.
fn parts(token: &Secret) -> Result<(&str, &str, &str), TokenError> {
    if token.expose().len() > MAX_TOKEN {
        return Err(TokenError::Malformed("it is too long"));
    }
    let token = std::str::from_utf8(token.expose()).map_err(|_| TokenError::Malformed("it is not text"))?;
    let (signed, signature) = token.rsplit_once('.').ok_or(TokenError::Malformed("it has no dots"))?;
    let (_, payload) = signed.split_once('.').ok_or(TokenError::Malformed("it has one dot only"))?;
    Ok((signed, payload, signature))
}

/// Checks a token against the key and the time, and returns what it claims.
pub fn verify_token(token: &Secret, key: &Key, now: u64) -> Result<Claims, TokenError> {
    let (signed, payload, signature) = parts(token)?;
    let header = signed.split('.').next().unwrap_or_default();
    let header: Header = decode(header)?;
    if header.algorithm != "HS256" {
        return Err(TokenError::Algorithm);
    }
    let signature = BASE64_URL_SAFE_NO_PAD
        .decode(signature)
        .map_err(|_| TokenError::Malformed("a part of it is not base64url"))?;
    // In constant time.
    hmac(key, signed)?.verify_slice(&signature).map_err(|_| TokenError::Signature)?;
    let claims: Claims = decode(payload)?;
    if now < claims.not_before {
        return Err(TokenError::TooEarly(claims.not_before));
    }
    if now >= claims.expires_at {
        return Err(TokenError::Expired(claims.expires_at));
    }
    Ok(claims)
}

#[derive(Deserialize)]
struct Header {
    #[serde(rename = "alg")]
    algorithm: String,
}

fn decode<T: for<'a> Deserialize<'a>>(part: &str) -> Result<T, TokenError> {
    let json = BASE64_URL_SAFE_NO_PAD
        .decode(part)
        .map_err(|_| TokenError::Malformed("a part of it is not base64url"))?;
    serde_json::from_slice(&json).map_err(|_| TokenError::Malformed("it lacks a claim, or a part is no JSON"))
}

fn hmac(key: &Key, signed: &str) -> Result<Hmac<Sha256>, TokenError> {
    if key.kind() != KeyKind::Jwt {
        return Err(TokenError::WrongKey);
    }
    let mac = Hmac::<Sha256>::new_from_slice(key.bytes().expose()).map_err(|_| TokenError::WrongKey)?;
    Ok(mac.chain_update(signed))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(first: u8) -> Key {
        Key::generate(KeyKind::Jwt, |bytes| bytes[0] = first).unwrap()
    }

    fn claims() -> Claims {
        Claims::new("slurm", "soperator", 1_000, Duration::from_secs(900), [0xab; 16])
    }

    #[test]
    fn claims_can_be_read_without_the_key_and_garbage_has_none() {
        let token = sign_token(&claims(), &key(1)).unwrap();
        assert_eq!(claims_of(&token).unwrap(), claims());
        for garbage in ["", "a", "a.b", "a.b.c"] {
            assert!(claims_of(&garbage.to_string().into()).is_err(), "{garbage}");
        }
    }

    fn text(token: &Secret) -> String {
        String::from_utf8(token.expose().to_vec()).unwrap()
    }

    #[test]
    fn a_token_has_the_claims_that_slurm_reads() {
        let token = text(&sign_token(&claims(), &key(1)).unwrap());
        let payload = BASE64_URL_SAFE_NO_PAD.decode(token.split('.').nth(1).unwrap()).unwrap();
        let payload: serde_json::Value = serde_json::from_slice(&payload).unwrap();
        assert_eq!(
            payload,
            serde_json::json!({
                "sun": "slurm", "iss": "soperator", "iat": 1000, "nbf": 1000, "exp": 1900,
                "jti": "abababababababababababababababab"
            })
        );
    }

    #[test]
    fn the_signature_is_that_of_the_standard() {
        // RFC 7515, appendix A.1: a token that others made.
        let key = BASE64_URL_SAFE_NO_PAD
            .decode("AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow")
            .unwrap();
        let key = Key::from_bytes(KeyKind::Jwt, key).unwrap();
        let signed = "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0\
                      dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";
        let signature = hmac(&key, signed).unwrap().finalize().into_bytes();
        assert_eq!(BASE64_URL_SAFE_NO_PAD.encode(signature), "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk");
    }

    #[test]
    fn a_token_is_good_from_its_beginning_to_its_end() {
        let token = sign_token(&claims(), &key(1)).unwrap();
        assert_eq!(verify_token(&token, &key(1), 999), Err(TokenError::TooEarly(1000)));
        assert_eq!(verify_token(&token, &key(1), 1000), Ok(claims()));
        assert_eq!(verify_token(&token, &key(1), 1899), Ok(claims()));
        assert_eq!(verify_token(&token, &key(1), 1900), Err(TokenError::Expired(1900)));
    }

    #[test]
    fn a_token_of_another_key_or_with_a_changed_byte_is_refused() {
        let token = sign_token(&claims(), &key(1)).unwrap();
        assert_eq!(verify_token(&token, &key(2), 1000), Err(TokenError::Signature));
        for at in 0..token.expose().len() {
            let mut changed = token.expose().to_vec();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            assert!(verify_token(&changed.into(), &key(1), 1000).is_err(), "byte {at}");
        }
    }

    #[test]
    fn a_token_without_a_signature_is_refused() {
        let token = text(&sign_token(&claims(), &key(1)).unwrap());
        let payload = token.split('.').nth(1).unwrap();
        for header in [r#"{"alg":"none"}"#, r#"{"alg":"None"}"#, r#"{"alg":"RS256"}"#] {
            let forged = format!("{}.{payload}.", BASE64_URL_SAFE_NO_PAD.encode(header));
            assert_eq!(verify_token(&forged.into(), &key(1), 1000), Err(TokenError::Algorithm));
        }
    }

    #[test]
    fn claims_without_a_user_or_a_lifetime_make_no_token() {
        let nobody = Claims { user: String::new(), ..claims() };
        assert_eq!(sign_token(&nobody, &key(1)), Err(TokenError::Claims));
        let moment = Claims { expires_at: 1_000, ..claims() };
        assert_eq!(sign_token(&moment, &key(1)), Err(TokenError::Claims));
        let other = Key::generate(KeyKind::Munge, |bytes| bytes[0] = 1).unwrap();
        assert_eq!(sign_token(&claims(), &other), Err(TokenError::WrongKey));
    }

    #[test]
    fn a_token_is_renewed_after_four_fifths_of_its_life() {
        assert_eq!(claims().renew_at(), 1_000 + 720);
        let short = Claims { expires_at: 1_007, ..claims() };
        assert_eq!(short.renew_at(), 1_005);
        let endless = Claims { expires_at: u64::MAX, ..claims() };
        assert!(endless.renew_at() < u64::MAX);
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_text_never_panics(text: String) {
            proptest::prop_assert!(verify_token(&text.into(), &key(1), 0).is_err());
        }
    }
}
