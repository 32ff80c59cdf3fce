//! Secrets that are made once, of bytes that somebody else drew.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret as SecretObject;
use slurm::Secret;

use crate::labels::{self, Component};
use crate::validate::Database;
use crate::{Facts, ValidatedCluster};

/// A Secret that the operator makes once and keeps, until somebody asks for another ([`crate::labels::ROTATE`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GeneratedSecret {
    /// Munge's key.
    Munge,
    /// The key that signs tokens.
    Jwt,
    /// SSH host keys of login and worker pods.
    SshdKeys,
    /// The password of slurmdbd's user of the database.
    DatabasePassword,
    /// The password of the database's root.
    DatabaseRootPassword,
}

/// What goes into a generated Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Material {
    /// Random bytes, or a password: [`GeneratedSecret::random_bytes`] says how many.
    Bytes(Secret),
    /// SSH host keys.
    SshHostKeys(SshHostKeys),
}

/// SSH host keys as OpenSSH writes them: private keys as PEM, public ones as one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SshHostKeys {
    /// ECDSA on P-521: private, public.
    pub ecdsa: (Secret, String),
    /// Ed25519: private, public.
    pub ed25519: (Secret, String),
    /// RSA with 2048 bits: private, public.
    pub rsa: (Secret, String),
}

/// The generated Secrets that the cluster needs, each with its name. The operator looks which exist, and passes
/// [`Material`] for the others in [`Facts::new_secrets`]. None of these may be pruned.
#[must_use]
pub fn generated_secrets(cluster: &ValidatedCluster, facts: &Facts) -> BTreeMap<GeneratedSecret, String> {
    let names = cluster.names();
    let mut wanted = BTreeMap::from([
        (GeneratedSecret::Munge, names.munge()),
        (GeneratedSecret::Jwt, names.rest_jwt_key()),
    ]);
    if cluster.sshd_keys_secret.is_none() {
        wanted.insert(GeneratedSecret::SshdKeys, names.sshd_keys());
    }
    if let Ok(Some(accounting)) = &cluster.accounting
        && !matches!(accounting.database(facts), Database::External(_))
    {
        wanted.insert(GeneratedSecret::DatabasePassword, names.database_password());
        wanted.insert(GeneratedSecret::DatabaseRootPassword, names.database_root_password());
    }
    wanted
}

impl GeneratedSecret {
    /// The part that it belongs to.
    #[must_use]
    pub const fn component(self) -> Component {
        match self {
            Self::Munge | Self::Jwt | Self::SshdKeys => Component::Common,
            Self::DatabasePassword | Self::DatabaseRootPassword => Component::Accounting,
        }
    }

    /// The key of the Secret under which its bytes are; none for SSH keys, which are several.
    #[must_use]
    pub const fn key(self) -> Option<&'static str> {
        match self {
            Self::Munge => Some("munge.key"),
            Self::Jwt => Some("rest_jwt.key"),
            Self::SshdKeys => None,
            Self::DatabasePassword | Self::DatabaseRootPassword => Some("password"),
        }
    }

    /// How many random bytes it takes. Passwords are these bytes as hexadecimal digits, which every file and shell takes.
    #[must_use]
    pub const fn random_bytes(self) -> usize {
        match self {
            Self::Munge => 1024,
            Self::Jwt => 32,
            Self::SshdKeys => 0,
            Self::DatabasePassword | Self::DatabaseRootPassword => 16,
        }
    }

    /// The object. For rotation the operator applies it over the one that exists.
    #[must_use]
    pub fn object(self, cluster: &ValidatedCluster, name: &str, material: &Material) -> SecretObject {
        let bytes = |secret: &Secret| ByteString(secret.expose().to_vec());
        let mut data = BTreeMap::new();
        match material {
            Material::Bytes(secret) => {
                data.insert(self.key().unwrap_or("key").to_owned(), bytes(secret));
            }
            Material::SshHostKeys(keys) => {
                for (kind, (private, public)) in
                    [("ecdsa", &keys.ecdsa), ("ed25519", &keys.ed25519), ("rsa", &keys.rsa)]
                {
                    data.insert(format!("ssh_host_{kind}_key"), bytes(private));
                    data.insert(format!("ssh_host_{kind}_key.pub"), ByteString(public.clone().into_bytes()));
                }
            }
        }
        let mut metadata = cluster.metadata(name, self.component());
        if self.is_protected(cluster) {
            let labels = metadata.labels.get_or_insert_default();
            labels.insert(labels::PROTECTED.into(), "true".into());
            let annotations = metadata.annotations.get_or_insert_default();
            annotations.insert(labels::CLUSTER.into(), cluster.names().cluster().into());
        }
        SecretObject { metadata, data: Some(data), ..SecretObject::default() }
    }

    /// Whether the user wants that nobody deletes it while the cluster exists.
    fn is_protected(self, cluster: &ValidatedCluster) -> bool {
        let accounting = cluster.accounting.as_ref().ok().and_then(Option::as_ref);
        let operator = accounting.and_then(|accounting| accounting.mariadb_operator.as_ref());
        self.component() == Component::Accounting
            && operator.is_some_and(|operator| operator.protected_secret)
    }
}
