//! The container of munge, which authenticates the daemons to each other.

use slurm::agent::command;

use super::container::{Limits, Role};
use super::security::Rights;
use super::{Built, mount};
use crate::validate::ContainerSettings;

/// Munge as a native sidecar: it starts before the daemon and ends after it.
pub(crate) fn sidecar(
    settings: &ContainerSettings,
    key_secret: String,
    limits: Limits,
    host_users: Option<bool>,
) -> Built {
    let mut built = Role {
        name: "munge",
        command: command::MUNGE,
        settings,
        image: None,
        port: None,
        rights: Rights::Plain,
        limits,
        host_users,
        env: Vec::new(),
        mounts: vec![mount::munge_key(key_secret), mount::munge_socket()],
    }
    .build();
    built.container.restart_policy = Some("Always".into());
    built
}
