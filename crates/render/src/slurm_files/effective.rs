//! The effective set: the files that are written here, and those of JailedConfigs below `/etc/slurm`.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ConfigMap;
use slurm::config_set::key_of_name;

use super::slurm_configs;
use crate::labels::Component;
use crate::{Facts, ValidatedCluster};

/// The effective set: name and content of each file. A file of ours wins over one of a JailedConfig: Slurm would end the jobs of
/// nodes that another slurm.conf does not have. `None` where the configuration has problems; what is in place then stays.
#[must_use]
pub fn effective_set(cluster: &ValidatedCluster, facts: &Facts) -> Option<BTreeMap<String, Vec<u8>>> {
    let ours = slurm_configs(cluster, facts)?;
    let mut files = facts.more_configs.clone();
    files.extend(ours.into_iter().map(|(name, text)| (name, text.into_bytes())));
    // One that no key of a ConfigMap can carry does not come to Slurm, so it is not counted either.
    files.retain(|name, _| key_of_name(name).is_some());
    Some(files)
}

/// The hash of the effective set ([`slurm::agent::set_hash`]), as slurmctld's agent reports it.
#[must_use]
pub fn config_hash(cluster: &ValidatedCluster, facts: &Facts) -> Option<String> {
    let files = effective_set(cluster, facts)?;
    Some(slurm::agent::set_hash(files.iter().map(|(name, content)| (name.as_str(), content.as_slice()))))
}

/// The ConfigMap that carries the effective set to slurmctld, slurmrestd and login pods.
pub(crate) fn effective_configs(cluster: &ValidatedCluster, facts: &Facts) -> Option<ConfigMap> {
    let (mut data, mut binary) = (BTreeMap::new(), BTreeMap::new());
    for (name, content) in effective_set(cluster, facts)? {
        let Some(key) = key_of_name(&name) else { continue };
        match String::from_utf8(content) {
            Ok(text) => drop(data.insert(key, text)),
            Err(error) => drop(binary.insert(key, ByteString(error.into_bytes()))),
        }
    }
    Some(ConfigMap {
        metadata: cluster.metadata(cluster.names().slurm_configs(), Component::Common),
        data: Some(data),
        binary_data: Some(binary).filter(|binary| !binary.is_empty()),
        ..ConfigMap::default()
    })
}
