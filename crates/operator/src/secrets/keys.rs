//! Random bytes, passwords and host keys. Nothing here is ever printed.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use slurm::{Key, KeyError, KeyKind};
use slurm_client::{TokenProblem, random_bytes};
use ssh_key::private::{KeypairData, RsaKeypair};
use ssh_key::rand_core::OsRng;
use ssh_key::{Algorithm, EcdsaCurve, LineEnding, PrivateKey};

/// Content of a Secret.
pub type Data = BTreeMap<String, ByteString>;

/// As many bytes as the original takes, which is also the most that munge reads.
const MUNGE_BYTES: usize = 1024;
const JWT_BYTES: usize = 32;
const RSA_BITS: usize = 2048;
/// Long enough that nobody guesses it, and of letters and digits only: it stands in slurmdbd.conf and in SQL.
const PASSWORD_LENGTH: usize = 32;
const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789AZ";

/// Why a key cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum KeyProblem {
    /// The machine gives no random bytes.
    #[error("no random bytes for a new key")]
    Entropy(#[from] TokenProblem),
    /// The bytes are no key.
    #[error("a new key is not fit for use")]
    Unfit(#[from] KeyError),
    /// A host key cannot be made.
    #[error("no new SSH host key")]
    Ssh(#[from] ssh_key::Error),
}

/// A new key of munge.
pub fn munge() -> Result<Vec<u8>, KeyProblem> {
    checked(KeyKind::Munge, &random_bytes::<MUNGE_BYTES>()?)
}

/// A new key that signs tokens.
pub fn jwt() -> Result<Vec<u8>, KeyProblem> {
    checked(KeyKind::Jwt, &random_bytes::<JWT_BYTES>()?)
}

fn checked(kind: KeyKind, bytes: &[u8]) -> Result<Vec<u8>, KeyProblem> {
    Ok(Key::from_bytes(kind, bytes.to_vec())?.bytes().expose().to_vec())
}

/// A new password.
pub fn password() -> Result<Vec<u8>, KeyProblem> {
    let bytes = random_bytes::<PASSWORD_LENGTH>()?;
    Ok(bytes.iter().map(|byte| LETTERS[usize::from(byte % 64)]).collect())
}

/// New host keys, by the names of the files that sshd reads.
pub fn ssh_host_keys() -> Result<Data, KeyProblem> {
    let ecdsa = Algorithm::Ecdsa { curve: EcdsaCurve::NistP521 };
    let rsa = KeypairData::from(RsaKeypair::random(&mut OsRng, RSA_BITS)?);
    let keys = [
        ("ecdsa", PrivateKey::random(&mut OsRng, ecdsa)?),
        ("ed25519", PrivateKey::random(&mut OsRng, Algorithm::Ed25519)?),
        ("rsa", PrivateKey::new(rsa, "")?),
    ];
    let mut data = Data::new();
    for (name, key) in keys {
        let public = key.public_key().to_openssh()?;
        let private = key.to_openssh(LineEnding::LF)?;
        data.insert(format!("ssh_host_{name}_key"), ByteString(private.as_bytes().to_vec()));
        data.insert(format!("ssh_host_{name}_key.pub"), ByteString(format!("{public}\n").into_bytes()));
    }
    Ok(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_the_lengths_of_the_original_and_are_never_the_same() {
        assert_eq!(munge().unwrap().len(), 1024);
        assert_eq!(jwt().unwrap().len(), 32);
        assert_ne!(munge().unwrap(), munge().unwrap());
        assert_ne!(jwt().unwrap(), jwt().unwrap());
    }

    #[test]
    fn a_password_can_stand_anywhere_without_quotes() {
        let password = String::from_utf8(password().unwrap()).unwrap();
        assert_eq!(password.len(), 32);
        assert!(password.chars().all(|c| c.is_ascii_alphanumeric()), "{password}");
    }

    #[test]
    fn there_is_a_host_key_of_each_kind_and_its_public_half_fits() {
        let data = ssh_host_keys().unwrap();
        for (name, algorithm) in [
            ("ecdsa", Algorithm::Ecdsa { curve: EcdsaCurve::NistP521 }),
            ("ed25519", Algorithm::Ed25519),
            ("rsa", Algorithm::Rsa { hash: None }),
        ] {
            let private = PrivateKey::from_openssh(&data[&format!("ssh_host_{name}_key")].0).unwrap();
            assert_eq!(private.algorithm(), algorithm);
            let public = String::from_utf8(data[&format!("ssh_host_{name}_key.pub")].0.clone()).unwrap();
            assert_eq!(private.public_key().to_openssh().unwrap(), public.trim_end());
            if let KeypairData::Rsa(pair) = private.key_data() {
                assert_eq!(pair.public.n.as_positive_bytes().map(<[u8]>::len), Some(256), "2048 bits");
            }
        }
        assert_eq!(data.len(), 6);
    }
}
