//! Text of Slurm's configuration files.

use std::collections::BTreeMap;

use crate::{Facts, ValidatedCluster};

/// What the configuration files say, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {}

/// The effective set: name of each file and its text. `None` where the configuration has problems; what is in place then stays.
///
/// It is the data of the ConfigMap [`crate::Names::slurm_configs`].
#[must_use]
pub fn slurm_configs(cluster: &ValidatedCluster, facts: &Facts) -> Option<BTreeMap<String, String>> {
    let _ = (cluster.config.as_ref().ok()?, facts);
    Some(BTreeMap::new())
}

/// The hash of the effective set ([`slurm::agent::set_hash`]), as slurmctld's agent reports it.
#[must_use]
pub fn config_hash(cluster: &ValidatedCluster, facts: &Facts) -> Option<String> {
    let files = slurm_configs(cluster, facts)?;
    Some(slurm::agent::set_hash(files.iter().map(|(name, text)| (name.as_str(), text.as_bytes()))))
}
