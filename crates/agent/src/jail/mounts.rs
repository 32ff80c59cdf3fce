//! Mounts inside the jail: each is made once however often it is asked for, and all are taken away in the end.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;
use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};

use super::root::{Kind, Root, name_of};
use crate::mountinfo;

/// What the kernel says of `proc` and `sysfs`.
const MAGIC: [(&str, i64); 2] = [("proc", 0x9fa0), ("sysfs", 0x6265_6572)];

/// The mounts of a jail.
pub struct Mounts {
    root: Root,
    /// What was mounted there before us: it stays.
    before: BTreeSet<PathBuf>,
}

/// Whether what is below a bound directory comes along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Only itself.
    Itself,
    /// Everything that is mounted below it too.
    All,
}

impl Mounts {
    /// Nothing mounted by us yet.
    ///
    /// # Errors
    ///
    /// The jail is not there.
    pub fn new(jail: &Path) -> io::Result<Self> {
        let before = mountinfo::below(jail).into_iter().collect();
        Ok(Self { root: Root::open(jail)?, before })
    }

    /// The jail.
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// Mounts a file system of the kernel. Where that is not allowed, the container's own is shown instead.
    ///
    /// # Errors
    ///
    /// Which mount, and why.
    pub fn file_system(&self, kind: &str, inside: &str, own: &str) -> Result<(), String> {
        let failed = |error: io::Error| self.failed(kind, inside, &error);
        let target = self.root.make(inside, Kind::Directory, 0o755).map_err(failed)?;
        if is_file_system(&target, kind) {
            return Ok(());
        }
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        match rustix::mount::mount(kind, name_of(&target), kind, flags, None) {
            Ok(()) => Ok(()),
            Err(Errno::PERM | Errno::ACCESS) => self.bind(Path::new(own), inside, Depth::All),
            Err(error) => Err(failed(error.into())),
        }
    }

    /// Shows a file or directory of the container inside the jail, at a place that is made if it is not there.
    ///
    /// # Errors
    ///
    /// Which mount, and why.
    pub fn bind(&self, source: &Path, inside: impl AsRef<Path>, depth: Depth) -> Result<(), String> {
        let inside = inside.as_ref();
        let bound = (|| {
            let meta = rustix::fs::stat(source)?;
            let is_directory = FileType::from_raw_mode(meta.st_mode) == FileType::Directory;
            let (kind, mode) = if is_directory { (Kind::Directory, 0o755) } else { (Kind::File, 0o644) };
            let target = self.root.make(inside, kind, mode)?;
            let there = rustix::fs::fstat(&target)?;
            if (there.st_dev, there.st_ino) == (meta.st_dev, meta.st_ino) {
                return Ok(());
            }
            let name = name_of(&target);
            match depth {
                Depth::Itself => rustix::mount::mount_bind(source, &name)?,
                Depth::All => {
                    rustix::mount::mount_bind_recursive(source, &name)?;
                    // What is unmounted here later must stay mounted for the container.
                    let flags = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
                    let mounted = self.root.find(inside)?;
                    rustix::mount::mount_change(name_of(&mounted), flags)?;
                }
            }
            Ok(())
        })();
        bound.map_err(|error: io::Error| self.failed(&source.display().to_string(), inside, &error))
    }

    fn failed(&self, source: &str, inside: impl AsRef<Path>, error: &io::Error) -> String {
        let advice = match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::PERM | Errno::ACCESS) => {
                "; does the container have the capability SYS_ADMIN, and no AppArmor profile that forbids mounts?"
            }
            Some(Errno::ROFS) => "; the jail's volume is read-only",
            Some(Errno::NOSPC | Errno::DQUOT) => "; the jail's volume is full",
            _ => "",
        };
        format!("cannot mount {source} at {}: {error}{advice}", self.root.shown(inside).display())
    }

    /// Takes away everything that was mounted since, the last one first; says what could not be.
    pub fn undo(&self) -> Vec<String> {
        let mut failures = Vec::new();
        for place in mountinfo::below(self.root.path()).iter().rev() {
            // What was below a mount that is gone by now is gone with it.
            if self.before.contains(place) || !mountinfo::is_mount_point(place) {
                continue;
            }
            let inside = place.strip_prefix(self.root.path()).unwrap_or(place);
            let undone = self.root.find_without_links(inside).and_then(|mounted| {
                // Also while a process that is about to end is in it.
                Ok(rustix::mount::unmount(name_of(&mounted), UnmountFlags::DETACH)?)
            });
            if let Err(error) = undone {
                failures.push(format!("cannot unmount {}: {error}", place.display()));
            }
        }
        failures
    }
}

fn is_file_system(fd: &OwnedFd, kind: &str) -> bool {
    let Some((_, magic)) = MAGIC.iter().find(|(name, _)| *name == kind) else { return false };
    let root = rustix::fs::fstat(fd).map(|stat| stat.st_ino).unwrap_or_default();
    // A directory further down is of the same file system.
    rustix::fs::fstatfs(fd).is_ok_and(|stat| stat.f_type == *magic) && root == 1
}
