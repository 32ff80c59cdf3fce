//! The world as it is taken to be where nobody is asked: everything that the cluster needs is there.

use std::collections::BTreeMap;

use render::{Facts, GeneratedSecret, Material, SshHostKeys, ValidatedCluster, generated_secrets};
use slurm::Secret;

/// Stands for what the operator draws at random, so that the same manifest gives the same text.
const PLACEHOLDER: &str = "<made by the operator>";

/// Facts for a cluster of which nothing exists yet. Its slurmctld image is taken to hold slurmrestd.
pub(crate) fn facts(cluster: &ValidatedCluster) -> Facts {
    let mut facts = Facts {
        database_password: Some(placeholder()),
        slurmctld_programs: Some(["slurmctld", "slurmrestd"].map(String::from).into()),
        ..Facts::default()
    };
    let wanted: BTreeMap<GeneratedSecret, String> = generated_secrets(cluster, &facts);
    facts.new_secrets = wanted.into_keys().map(|secret| (secret, material(secret))).collect();
    facts
}

fn placeholder() -> Secret {
    PLACEHOLDER.to_owned().into()
}

fn material(secret: GeneratedSecret) -> Material {
    if secret != GeneratedSecret::SshdKeys {
        return Material::Bytes(placeholder());
    }
    let pair = || (placeholder(), PLACEHOLDER.to_owned());
    Material::SshHostKeys(SshHostKeys { ecdsa: pair(), ed25519: pair(), rsa: pair() })
}
