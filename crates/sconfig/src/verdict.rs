//! What slurmctld made of files that are part of its configuration. No I/O.
//!
//! The operator puts the files of all JailedConfigs below `/etc/slurm` into one set, which slurmctld's agent gives to slurmctld.
//! The status of the SlurmCluster tells by their hashes which set slurmctld runs with, and which it refused.

use api::nebius::slurm_cluster::ConfigurationStatus;
use slurm::agent::set_hash;
use slurm::config_set::name_of_key;

use crate::plan::Content;

/// The set that the operator has put together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EffectiveSet {
    hash: String,
    files: Content,
}

impl EffectiveSet {
    /// From the ConfigMap that carries it.
    pub fn new(content: Content) -> Self {
        let files: Content = content.into_iter().map(|(key, file)| (name_of_key(&key), file)).collect();
        let hash = set_hash(files.iter().map(|(name, file)| (name.as_str(), file.as_slice())));
        Self { hash, files }
    }
}

/// What slurmctld made of some files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// None of them is part of its configuration.
    NotConcerned,
    /// It runs with them.
    InUse,
    /// It does not run with them, and this is why.
    Refused(String),
    /// Nobody knows yet; this has to happen first.
    Awaited(&'static str),
}

const NOT_TAKEN: &str = "the operator to put these files into Slurm's configuration (all files below /etc/slurm together may \
                         have 512 KiB, and names only letters, digits, '-', '_' and '.')";
const NOT_IN_USE: &str = "slurmctld to run with these files (see the conditions of the SlurmCluster)";

/// What slurmctld made of these files, by name below `/etc/slurm`.
pub fn verdict(
    files: &[(String, &[u8])],
    set: Option<&EffectiveSet>,
    known: Option<&ConfigurationStatus>,
) -> Verdict {
    if files.is_empty() {
        return Verdict::NotConcerned;
    }
    let Some(set) = set else { return Verdict::Awaited(NOT_TAKEN) };
    if files.iter().any(|(name, file)| set.files.get(name).map(Vec::as_slice) != Some(*file)) {
        return Verdict::Awaited(NOT_TAKEN);
    }
    let is = |hash: Option<&String>| hash == Some(&set.hash);
    match known {
        Some(known) if is(known.in_use.as_ref()) => Verdict::InUse,
        Some(known) if is(known.refused.as_ref()) => {
            Verdict::Refused(known.message.clone().unwrap_or_default())
        }
        _ => Verdict::Awaited(NOT_IN_USE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str) -> EffectiveSet {
        EffectiveSet::new(
            [("a..x.conf".to_owned(), text.into()), ("slurm.conf".to_owned(), b"s".to_vec())].into(),
        )
    }

    fn status(in_use: &EffectiveSet, refused: Option<&EffectiveSet>) -> ConfigurationStatus {
        ConfigurationStatus {
            in_use: Some(in_use.hash.clone()),
            refused: refused.map(|set| set.hash.clone()),
            message: refused.map(|_| "fatal: no".to_owned()),
        }
    }

    #[test]
    fn files_are_in_use_when_slurmctld_runs_with_a_set_that_holds_them() {
        let files: [(String, &[u8]); 1] = [("a/x.conf".into(), b"new")];
        let (old, new) = (set("old"), set("new"));
        let of = |set, known: &ConfigurationStatus| verdict(&files, Some(set), Some(known));
        assert_eq!(of(&new, &status(&new, None)), Verdict::InUse);
        assert_eq!(
            of(&old, &status(&old, None)),
            Verdict::Awaited(NOT_TAKEN),
            "the operator has not seen them yet"
        );
        assert_eq!(of(&new, &status(&old, None)), Verdict::Awaited(NOT_IN_USE));
        assert_eq!(of(&new, &status(&old, Some(&new))), Verdict::Refused("fatal: no".into()));
        assert_eq!(of(&new, &status(&old, Some(&old))), Verdict::Awaited(NOT_IN_USE), "that was another one");
        assert_eq!(verdict(&files, None, None), Verdict::Awaited(NOT_TAKEN));
        assert_eq!(verdict(&[], None, None), Verdict::NotConcerned);
    }
}
