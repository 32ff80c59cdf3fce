//! What a pod adds to the jail: its own kernel file systems, devices and names, the volumes of its user, its driver, and
//! Slurm. In this order: later ones may lie inside earlier ones.

use std::fs;
use std::path::Path;

use slurm::agent::path;

use super::mounts::{Depth, Mounts};
use super::root::Kind;
use super::{enroot, gpu, slurm_client};
use crate::agent::Agent;
use crate::{files, mountinfo};

/// Whole trees of the container.
const TREES: [&str; 3] = ["/dev", "/run", "/sys/fs/cgroup"];
/// Single files and directories of the container.
const SINGLE: [&str; 4] = ["/tmp", "/var/log", "/etc/resolv.conf", "/etc/hosts"];
/// Directories that programs of the original rely on, with their modes.
const DIRECTORIES: [(&str, u32); 2] =
    [("var/cache/enroot-container-images", 0o1777), ("opt/soperator-outputs", 0o777)];

/// Which pod it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pod {
    /// Users log in.
    Login,
    /// Jobs run.
    Worker,
}

/// Mounts everything, or what is missing of it.
///
/// # Errors
///
/// Which mount failed, and why.
pub fn complement(agent: &Agent, mounts: &Mounts, pod: Pod) -> Result<(), String> {
    mounts.file_system("proc", "proc", "/proc")?;
    mounts.file_system("sysfs", "sys", "/sys")?;
    for tree in TREES.iter().filter(|tree| Path::new(tree).exists()) {
        mounts.bind(Path::new(tree), tree, Depth::All)?;
    }
    for single in SINGLE.iter().filter(|single| Path::new(single).exists()) {
        mounts.bind(Path::new(single), single, Depth::Itself)?;
    }
    volumes(mounts)?;
    let mut libraries = gpu::show(agent, mounts, pod)?;
    libraries |= slurm_client::show(agent, mounts, pod)?;
    enroot::show(agent, mounts)?;
    for (directory, mode) in DIRECTORIES {
        let made = mounts.root().make(directory, Kind::Directory, mode);
        made.map_err(|error| format!("cannot make {}: {error}", mounts.root().shown(directory).display()))?;
    }
    if pod == Pod::Worker {
        let spool = Path::new(path::SLURMD_SPOOL);
        files::make_directory(spool).map_err(|error| format!("cannot make {}: {error}", spool.display()))?;
        mounts.bind(spool, spool, Depth::All)?;
        if libraries {
            slurm_client::update_linker_cache(agent, mounts);
        }
    }
    Ok(())
}

/// What users want mounted inside the jail, wherever they want it.
fn volumes(mounts: &Mounts) -> Result<(), String> {
    let upper = Path::new(path::JAIL_UPPER);
    for volume in mountinfo::below(upper) {
        let inside = volume.strip_prefix(upper).unwrap_or(&volume);
        let depth =
            if fs::metadata(&volume).is_ok_and(|meta| meta.is_dir()) { Depth::All } else { Depth::Itself };
        mounts.bind(&volume, inside, depth)?;
    }
    Ok(())
}
