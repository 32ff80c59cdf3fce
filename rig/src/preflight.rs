//! Checks before anything is started or built: each failure is one message that says what to do.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Free space that a running rig takes.
pub const RUN_BYTES: u64 = 1 << 30;

/// Everything that a rig needs of this machine's kernel. It takes programs of the host packages to find out.
pub fn kernel_can_run() -> Result<()> {
    kernel()?;
    crate::cgroups::check_controllers()
}

/// Only root may make namespaces, mounts and cgroups.
pub fn root() -> Result<()> {
    if !nix::unistd::geteuid().is_root() {
        bail!("a rig needs root (namespaces, mounts, cgroups): run the same command with sudo");
    }
    Ok(())
}

/// Whether the file system of `path` has `wanted` bytes left.
pub fn disk_space(path: &Path, wanted: u64) -> Result<()> {
    let facts = nix::sys::statvfs::statvfs(path)
        .with_context(|| format!("cannot look at the disk of {}", path.display()))?;
    let free = facts.blocks_available() * facts.fragment_size();
    if free < wanted {
        bail!(
            "{} has {} MiB of free space and {} MiB are needed: free some, or point XDG_CACHE_HOME at a larger disk",
            path.display(),
            free >> 20,
            wanted >> 20
        );
    }
    Ok(())
}

/// A kernel feature, the command that uses it in a throw-away namespace, and how to get it.
const KERNEL_FEATURES: &[(&str, &str, &str)] = &[
    (
        "network, pid, mount, uts and ipc namespaces",
        "true",
        "a kernel with CONFIG_NAMESPACES and all kinds below it",
    ),
    ("virtual ethernet cables", "ip link add rig0 type veth peer name rig1", "`modprobe veth`"),
    ("network bridges", "ip link add rig0 type bridge", "`modprobe bridge`"),
    ("nftables", "nft add table ip rig", "`modprobe nf_tables`"),
    (
        "overlay file systems",
        "mount -t tmpfs rig /mnt && mkdir /mnt/1 /mnt/2 /mnt/3 /mnt/4 && \
         mount -t overlay -o lowerdir=/mnt/1,upperdir=/mnt/2,workdir=/mnt/3 rig /mnt/4",
        "`modprobe overlay`",
    ),
];

/// Whether the kernel can do what nodes need; tried for real, in namespaces that vanish at once.
fn kernel() -> Result<()> {
    for (feature, command, remedy) in KERNEL_FEATURES {
        let output = Command::new("unshare")
            .args(["--mount", "--net", "--pid", "--uts", "--ipc", "--fork", "sh", "-c", command])
            .output()
            .context("cannot run unshare (package util-linux)")?;
        if !output.status.success() {
            bail!(
                "this kernel has no {feature} for us ({}): try {remedy}",
                String::from_utf8_lossy(&output.stderr).trim()
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_little_disk_space_is_told_with_the_remedy() {
        let error = disk_space(Path::new("/"), u64::MAX).unwrap_err().to_string();
        assert!(error.contains("XDG_CACHE_HOME"), "{error}");
    }
}
