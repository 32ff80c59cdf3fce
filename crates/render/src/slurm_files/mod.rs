//! Text of Slurm's configuration files.
//!
//! | File | Written by |
//! |---|---|
//! | slurm.conf, custom_slurm.conf, slurm_rest.conf | [`slurm_conf`] |
//! | cgroup.conf, gres.conf, mpi.conf, plugstack.conf | [`small`] |
//! | topology.conf | [`topology`] |
//! | slurmdbd.conf | [`slurmdbd_conf`] |

mod config;
mod effective;
mod partitions;
mod slurm_conf;
mod slurmdbd_conf;
mod small;
mod topology;

use std::collections::BTreeMap;

use slurm::conf::Value;
use slurm::{HostList, NodeName, value};

pub use config::Config;
pub(crate) use effective::effective_configs;
pub use effective::{config_hash, effective_set};
pub use slurmdbd_conf::slurmdbd_conf;
pub(crate) use slurmdbd_conf::{DATABASE, DATABASE_PORT, DATABASE_USER, TLS_CA_DIR, TLS_CLIENT_DIR};

use crate::{Facts, ValidatedCluster};

/// slurm.conf.
pub const SLURM_CONF: &str = "slurm.conf";
/// What a user adds at the end of slurm.conf.
pub const CUSTOM_SLURM_CONF: &str = "custom_slurm.conf";
/// slurm.conf for slurmrestd.
pub const SLURM_REST_CONF: &str = "slurm_rest.conf";
/// cgroup.conf.
pub const CGROUP_CONF: &str = "cgroup.conf";
/// gres.conf.
pub const GRES_CONF: &str = "gres.conf";
/// mpi.conf.
pub const MPI_CONF: &str = "mpi.conf";
/// plugstack.conf.
pub const PLUGSTACK_CONF: &str = "plugstack.conf";
/// topology.conf.
pub const TOPOLOGY_CONF: &str = "topology.conf";

/// The files that are written here: name and text of each. `None` where the configuration has problems; what is in place then
/// stays.
#[must_use]
pub fn slurm_configs(cluster: &ValidatedCluster, facts: &Facts) -> Option<BTreeMap<String, String>> {
    let config = cluster.config.as_ref().ok()?;
    let mut files = BTreeMap::new();
    let mut write = |name: &str, text: String| files.insert(name.to_owned(), text);
    write(SLURM_CONF, slurm_conf::slurm_conf(cluster, config, facts).to_string());
    write(CUSTOM_SLURM_CONF, slurm_conf::custom(config));
    write(SLURM_REST_CONF, slurm_conf::rest().to_string());
    write(CGROUP_CONF, small::cgroup(config).to_string());
    write(GRES_CONF, small::gres(config, facts).to_string());
    write(MPI_CONF, small::mpi(config).to_string());
    write(PLUGSTACK_CONF, config.plugstack.to_string());
    if let Some(text) = topology::topology(config, facts) {
        write(TOPOLOGY_CONF, text);
    }
    Some(files)
}

/// A value of names that Kubernetes has checked; it can always be written.
fn plain(text: &str) -> Value {
    Value::new("name", text).unwrap_or(value!("invalid"))
}

/// The nodes of pods that exist, of one NodeSet.
fn nodes<'a>(names: impl IntoIterator<Item = &'a NodeName>) -> HostList {
    names.into_iter().collect()
}
