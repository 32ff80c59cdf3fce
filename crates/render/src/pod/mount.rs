//! Volumes, and where containers see them.

use k8s_openapi::api::core::v1::{
    ConfigMapVolumeSource, EmptyDirVolumeSource, EphemeralVolumeSource, HostPathVolumeSource,
    PersistentVolumeClaimTemplate, SecretVolumeSource, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use slurm::agent::path;

use crate::validate::{self, VolumeChoice};

/// Files that everybody may read.
const READABLE: i32 = 0o644;
/// Files that only their owner may read.
const PRIVATE: i32 = 0o400;

/// A volume, and where a container sees it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Mount {
    /// Name of the volume. Users' init containers refer to ours by name.
    pub(crate) name: String,
    pub(crate) volume: VolumeChoice,
    pub(crate) path: String,
    pub(crate) sub_path: Option<String>,
    pub(crate) read_only: bool,
    pub(crate) propagation: Option<&'static str>,
}

impl Mount {
    /// A volume at a path.
    pub(crate) fn new(name: &str, path: impl Into<String>, volume: Volume) -> Self {
        Self::of(name, path, &VolumeChoice::Source(Box::new(volume)))
    }

    /// What the user chose, at a path.
    pub(crate) fn of(name: &str, path: impl Into<String>, volume: &VolumeChoice) -> Self {
        Self {
            name: name.to_owned(),
            volume: volume.clone(),
            path: path.into(),
            sub_path: None,
            read_only: false,
            propagation: None,
        }
    }

    pub(crate) fn read_only(self) -> Self {
        Self { read_only: true, ..self }
    }

    fn sub_path(self, sub_path: &str) -> Self {
        Self { sub_path: (!sub_path.is_empty()).then(|| sub_path.to_owned()), ..self }
    }

    /// Mounts of the host that come later are seen as well.
    fn following_the_host(self) -> Self {
        Self { propagation: Some("HostToContainer"), ..self }
    }

    /// What the container says about it, when the volume has this name in the pod.
    pub(super) fn volume_mount(&self, name: &str) -> VolumeMount {
        VolumeMount {
            name: name.to_owned(),
            mount_path: self.path.clone(),
            sub_path: self.sub_path.clone(),
            read_only: self.read_only.then_some(true),
            mount_propagation: self.propagation.map(str::to_owned),
            ..VolumeMount::default()
        }
    }
}

/// An empty directory that lives as long as the pod.
pub(crate) fn empty_dir() -> Volume {
    Volume { empty_dir: Some(EmptyDirVolumeSource::default()), ..Volume::default() }
}

/// An empty directory in memory.
pub(crate) fn memory(size: Option<Quantity>) -> Volume {
    let source = EmptyDirVolumeSource { medium: Some("Memory".into()), size_limit: size };
    Volume { empty_dir: Some(source), ..Volume::default() }
}

/// A Secret whose files only root reads.
pub(crate) fn secret(name: impl Into<String>) -> Volume {
    let source = SecretVolumeSource {
        secret_name: Some(name.into()),
        default_mode: Some(PRIVATE),
        ..SecretVolumeSource::default()
    };
    Volume { secret: Some(source), ..Volume::default() }
}

/// A ConfigMap.
pub(crate) fn config_map(name: impl Into<String>) -> Volume {
    let source = ConfigMapVolumeSource {
        name: name.into(),
        default_mode: Some(READABLE),
        ..ConfigMapVolumeSource::default()
    };
    Volume { config_map: Some(source), ..Volume::default() }
}

fn host_path(path: &str) -> Volume {
    let source = HostPathVolumeSource { path: path.to_owned(), type_: None };
    Volume { host_path: Some(source), ..Volume::default() }
}

/// The directory with `slurm-agent`. Only its init container writes there.
pub(crate) fn agent_program() -> Mount {
    Mount::new("agent", slurm::agent::PROGRAM_DIR, empty_dir()).read_only()
}

/// Munge's key, for the container of munge.
pub(crate) fn munge_key(secret_name: String) -> Mount {
    Mount::new("munge-key", parent(path::MUNGE_KEY), secret(secret_name)).read_only()
}

/// Munge's socket, which all containers of a pod share.
pub(crate) fn munge_socket() -> Mount {
    Mount::new("munge-socket", path::MUNGE_SOCKET_DIR, empty_dir())
}

/// The effective set of Slurm's configuration files.
pub(crate) fn slurm_configs(config_map_name: String) -> Mount {
    Mount::new("slurm-configs", path::CONFIGS, config_map(config_map_name)).read_only()
}

/// slurmdbd.conf.
pub(crate) fn slurmdbd_config(secret_name: String) -> Mount {
    Mount::new("slurmdbd-configs", parent(path::SLURMDBD_CONFIG), secret(secret_name)).read_only()
}

/// The key that signs tokens.
pub(crate) fn jwt_key(secret_name: String) -> Mount {
    Mount::new("rest-jwt-key", parent(path::JWT_KEY), secret(secret_name)).read_only()
}

/// limits.conf, over the image's own. It is a single file, so a change in the ConfigMap reaches new pods only; so do
/// limits in any case.
pub(crate) fn security_limits(config_map_name: String) -> Mount {
    Mount::new("security-limits", "/etc/security/limits.conf", config_map(config_map_name))
        .sub_path("limits.conf")
        .read_only()
}

/// sysctl.conf, over the image's own.
pub(crate) fn sysctl(config_map_name: String) -> Mount {
    Mount::new("sysctl", "/etc/sysctl.conf", config_map(config_map_name)).sub_path("sysctl.conf").read_only()
}

/// sshd_config.
pub(crate) fn ssh_configs(volume_name: &str, config_map_name: String) -> Mount {
    Mount::new(volume_name, parent(path::SSHD_CONFIG), config_map(config_map_name)).read_only()
}

/// SSH host keys.
pub(crate) fn sshd_keys(secret_name: String) -> Mount {
    Mount::new("sshd-keys", path::SSHD_KEYS, secret(secret_name)).read_only()
}

/// Public keys of root.
pub(crate) fn ssh_root_keys(config_map_name: String) -> Mount {
    Mount::new("ssh-root-keys", parent(path::ROOT_KEYS), config_map(config_map_name)).read_only()
}

/// A supervisord.conf of the user.
pub(crate) fn supervisord_config(config_map_name: String) -> Mount {
    Mount::new("supervisord-config", parent(path::SUPERVISORD_CONFIG), config_map(config_map_name))
        .read_only()
}

/// A file system in memory that users of the jail see at `/mnt/memory`.
pub(crate) fn in_memory(size: Option<Quantity>) -> Mount {
    Mount::new("in-memory", format!("{}/mnt/memory", path::JAIL_UPPER), memory(size))
}

/// `/tmp` on the host's disk.
pub(crate) fn tmp_disk() -> Mount {
    Mount::new("tmp-disk", "/tmp", empty_dir())
}

/// `/dev/shm` of a size that programs on GPUs need.
pub(crate) fn dev_shm(size: Quantity) -> Mount {
    Mount::new("dev-shm", "/dev/shm", memory(Some(size)))
}

/// What NVIDIA's driver container shows to others; it may start after us.
pub(crate) fn nvidia() -> Mount {
    Mount::new("nvidia", "/run/nvidia", host_path("/run/nvidia")).following_the_host()
}

/// `/boot` of the host, which NVIDIA's tools read.
pub(crate) fn boot() -> Mount {
    Mount::new("boot", "/boot", host_path("/boot")).following_the_host()
}

/// The jail.
pub(crate) fn jail(volume: &VolumeChoice) -> Mount {
    Mount::of("jail", path::JAIL, volume)
}

/// The jail for a daemon that only looks up users in it.
pub(crate) fn jail_users(volume: &VolumeChoice) -> Mount {
    jail(volume).read_only()
}

/// What the jail is filled from. A Job has no claims of its own, so a claim becomes one that lives as long as the pod.
pub(crate) fn jail_snapshot(volume: &VolumeChoice) -> Mount {
    let mount = Mount::of("jail-snapshot", path::JAIL_SNAPSHOT, volume).read_only();
    match volume {
        VolumeChoice::Source(_) => mount,
        VolumeChoice::Claim(claim) => {
            let template = PersistentVolumeClaimTemplate { metadata: None, spec: (**claim).clone() };
            let source = EphemeralVolumeSource { volume_claim_template: Some(template) };
            let volume = Volume { ephemeral: Some(source), ..Volume::default() };
            Mount { volume: VolumeChoice::Source(Box::new(volume)), ..mount }
        }
    }
}

/// Mounts of the user outside the jail.
pub(crate) fn custom(mounts: &[validate::Mount]) -> impl Iterator<Item = Mount> {
    mounts.iter().map(|mount| users("", mount))
}

/// Mounts of the user inside the jail. They are put there later.
pub(crate) fn inside_jail(mounts: &[validate::Mount]) -> impl Iterator<Item = Mount> {
    mounts.iter().map(|mount| users(path::JAIL_UPPER, mount))
}

fn users(below: &str, mount: &validate::Mount) -> Mount {
    Mount {
        name: mount.name.clone(),
        volume: mount.volume.clone(),
        path: join(below, &mount.path),
        sub_path: mount.sub_path.clone(),
        read_only: mount.read_only,
        propagation: None,
    }
}

/// A path below another.
fn join(below: &str, path: &str) -> String {
    if below.is_empty() { path.to_owned() } else { format!("{below}/{}", path.trim_start_matches('/')) }
}

/// The directory of a file.
fn parent(file: &str) -> &str {
    file.rsplit_once('/').map_or(file, |(directory, _)| directory)
}
