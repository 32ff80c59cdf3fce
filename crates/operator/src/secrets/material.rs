//! What goes into generated Secrets: random bytes, passwords and host keys. Nothing here is ever printed.

use std::fmt::Write as _;

use render::{GeneratedSecret, Material, SshHostKeys};
use ring::rand::{SecureRandom as _, SystemRandom};
use slurm::Secret;
use ssh_key::private::{KeypairData, RsaKeypair};
use ssh_key::rand_core::OsRng;
use ssh_key::{Algorithm, EcdsaCurve, LineEnding, PrivateKey};

const RSA_BITS: usize = 2048;

/// Why a key cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum KeyProblem {
    /// The machine gives no random bytes.
    #[error("this machine gives no random bytes for a new key")]
    Entropy,
    /// A host key cannot be made.
    #[error("no new SSH host key can be made")]
    Ssh(#[from] ssh_key::Error),
}

/// New content for a Secret.
pub fn draw(secret: GeneratedSecret) -> Result<Material, KeyProblem> {
    match secret {
        GeneratedSecret::Munge | GeneratedSecret::Jwt => {
            Ok(Material::Bytes(random(secret.random_bytes())?.into()))
        }
        GeneratedSecret::DatabasePassword | GeneratedSecret::DatabaseRootPassword => {
            let bytes = random(secret.random_bytes())?;
            let hex = bytes.iter().fold(String::new(), |mut hex, byte| {
                let _ = write!(hex, "{byte:02x}");
                hex
            });
            Ok(Material::Bytes(hex.into()))
        }
        GeneratedSecret::SshdKeys => Ok(Material::SshHostKeys(ssh_host_keys()?)),
    }
}

fn random(length: usize) -> Result<Vec<u8>, KeyProblem> {
    let mut bytes = vec![0; length];
    SystemRandom::new().fill(&mut bytes).map_err(|_| KeyProblem::Entropy)?;
    Ok(bytes)
}

fn ssh_host_keys() -> Result<SshHostKeys, KeyProblem> {
    let ecdsa = Algorithm::Ecdsa { curve: EcdsaCurve::NistP521 };
    let rsa = KeypairData::from(RsaKeypair::random(&mut OsRng, RSA_BITS)?);
    Ok(SshHostKeys {
        ecdsa: halves(&PrivateKey::random(&mut OsRng, ecdsa)?)?,
        ed25519: halves(&PrivateKey::random(&mut OsRng, Algorithm::Ed25519)?)?,
        rsa: halves(&PrivateKey::new(rsa, "")?)?,
    })
}

/// The private key as OpenSSH writes it, and the line of the public one.
fn halves(key: &PrivateKey) -> Result<(Secret, String), KeyProblem> {
    let private = key.to_openssh(LineEnding::LF)?;
    Ok((private.as_bytes().to_vec().into(), format!("{}\n", key.public_key().to_openssh()?)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::process::Command;

    use super::*;

    fn bytes(secret: GeneratedSecret) -> Vec<u8> {
        match draw(secret).unwrap() {
            Material::Bytes(bytes) => bytes.expose().to_vec(),
            Material::SshHostKeys(_) => panic!("{secret:?} is made of bytes"),
        }
    }

    #[test]
    fn keys_have_the_lengths_of_the_original_and_are_never_the_same() {
        for (secret, length) in [(GeneratedSecret::Munge, 1024), (GeneratedSecret::Jwt, 32)] {
            assert_eq!(bytes(secret).len(), length);
            assert_ne!(bytes(secret), bytes(secret));
        }
    }

    #[test]
    fn a_password_can_stand_anywhere_without_quotes() {
        let password = String::from_utf8(bytes(GeneratedSecret::DatabasePassword)).unwrap();
        assert_eq!(password.len(), 32);
        assert!(password.chars().all(|c| c.is_ascii_hexdigit()), "{password}");
    }

    #[test]
    fn openssh_reads_every_host_key_and_finds_the_same_public_half() {
        let Material::SshHostKeys(keys) = draw(GeneratedSecret::SshdKeys).unwrap() else {
            panic!("host keys are several")
        };
        let folder = tempfile::tempdir().unwrap();
        for (kind, bits, (private, public)) in [
            ("ecdsa-sha2-nistp521", "521", &keys.ecdsa),
            ("ssh-ed25519", "256", &keys.ed25519),
            ("ssh-rsa", "2048", &keys.rsa),
        ] {
            let path = folder.path().join(kind);
            std::fs::write(&path, private.expose()).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
            let told = |args: &[&str]| {
                let output = Command::new("ssh-keygen").args(args).arg("-f").arg(&path).output().unwrap();
                assert!(output.status.success(), "{kind}: {}", String::from_utf8_lossy(&output.stderr));
                String::from_utf8(output.stdout).unwrap()
            };
            let words = |text: &str| text.split_whitespace().take(2).map(String::from).collect::<Vec<_>>();
            assert_eq!(words(&told(&["-y"])), words(public));
            assert_eq!(words(public)[0], kind);
            assert!(told(&["-l"]).starts_with(&format!("{bits} ")), "{}", told(&["-l"]));
        }
    }

    #[test]
    fn no_secret_is_printed() {
        let shown = format!("{:?}", draw(GeneratedSecret::SshdKeys).unwrap());
        assert!(!shown.contains("PRIVATE"), "{shown}");
    }
}
