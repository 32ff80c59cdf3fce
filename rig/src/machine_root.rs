//! A root file system of a machine's own: a read-only tree with a writable side in memory, which goes with the machine.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use serde::{Deserialize, Serialize};

use crate::machine::Bind;

const NONE: Option<&str> = None;

/// What a machine sees as its files.
#[derive(Debug, Serialize, Deserialize)]
pub struct Root {
    /// An empty directory to mount on while the root is put together.
    pub mount_point: PathBuf,
    /// The tree that it shows. It is not written to.
    pub lower: PathBuf,
    /// More such trees, each below a directory of the root.
    pub trees: Vec<Bind>,
}

impl Root {
    /// Makes this the root of the calling process, which has a mount namespace of its own with private mounts.
    pub(crate) fn enter(&self) -> Result<()> {
        let base = &self.mount_point;
        mount_new("tmpfs", base, MsFlags::empty(), Some("mode=0755"))?;
        let root = base.join("root");
        self.overlay("0", &self.lower, &root)?;
        for (number, tree) in (1..).zip(&self.trees) {
            let target = root.join(tree.target.strip_prefix("/").unwrap_or(&tree.target));
            self.overlay(&number.to_string(), &tree.source, &target)?;
        }
        mount_new("proc", &root.join("proc"), MsFlags::empty(), NONE)?;
        mount_new("sysfs", &root.join("sys"), MsFlags::MS_RDONLY, NONE)?;
        mount_new("devpts", &root.join("dev/pts"), MsFlags::empty(), Some("newinstance,ptmxmode=0666"))?;
        mount_new("tmpfs", &root.join("dev/shm"), MsFlags::empty(), Some("mode=1777"))?;
        let old = root.join("mnt");
        nix::unistd::pivot_root(&root, &old).context("cannot change to the machine's root")?;
        nix::unistd::chdir("/").context("cannot enter the machine's root")?;
        umount2("/mnt", MntFlags::MNT_DETACH).context("cannot let go of the old root")
    }

    /// Shows `lower` at `target`, with the changes in our tmpfs.
    fn overlay(&self, name: &str, lower: &Path, target: &Path) -> Result<()> {
        // The kernel's separators; a path with one would be read as two.
        if lower.display().to_string().contains([',', ':']) {
            bail!("{} has a comma or a colon: point XDG_CACHE_HOME at a path without them", lower.display());
        }
        let [upper, work] = ["upper", "work"].map(|side| self.mount_point.join(side).join(name));
        for directory in [&upper, &work, &target.to_path_buf()] {
            fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
        }
        let options =
            format!("lowerdir={},upperdir={},workdir={}", lower.display(), upper.display(), work.display());
        mount_new("overlay", target, MsFlags::empty(), Some(&options))
    }
}

fn mount_new(kind: &str, target: &Path, flags: MsFlags, options: Option<&str>) -> Result<()> {
    mount(Some(kind), target, Some(kind), flags, options)
        .with_context(|| format!("cannot mount {kind} at {}", target.display()))
}
