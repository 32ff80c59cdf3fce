//! The jail: a directory tree in which others, who are not trusted, do what they like at any moment.
//!
//! Everything is opened by `openat2` with `RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS`, relative to the one descriptor of the jail's
//! root, and then handled relative to the descriptor of its directory, by a name without slashes. No call follows a link, so
//! nobody in the jail can lead a write out of it or to another file.

mod error;
mod path;
mod write;

use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, OpenHow, ResolveFlag, open, openat2};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat, mkdirat};
use nix::unistd::{UnlinkatFlags, unlinkat};
use slurm::agent::path::JAIL_ROOT_LIKE;

pub use error::JailError;
pub use path::JailPath;

/// Tells that the jail is complete.
const MARKER: &str = ".soperator-jail.json";
/// Tells that the jail is being filled, or was not filled to its end.
const JOURNAL: &str = ".soperator-jail.partial";
/// How often a directory is looked for that others remove at the same time.
const TRIES: usize = 8;

/// A file as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Where.
    pub path: JailPath,
    /// Its permissions.
    pub mode: u32,
    /// What it holds.
    pub content: Vec<u8>,
}

/// What tells a file from any that was put in its place, and from itself after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    device: u64,
    inode: u64,
    size: i64,
    changed: (i64, i64),
}

impl Seen {
    fn of(stat: &FileStat) -> Self {
        Self {
            device: stat.st_dev,
            inode: stat.st_ino,
            size: stat.st_size,
            // Nobody can set it, other than the time of modification.
            changed: (stat.st_ctime, stat.st_ctime_nsec),
        }
    }
}

/// How a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// As it should be.
    Same(Seen),
    /// With other content or permissions, or not there.
    Other,
}

/// An old file that is still there under another name, for those who found it by its name a moment ago.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    directory: String,
    name: String,
}

/// The jail, opened.
#[derive(Debug)]
pub struct Jail {
    root: OwnedFd,
}

impl Jail {
    /// Opens the jail.
    ///
    /// # Errors
    ///
    /// It is not there.
    pub fn open(path: &Path) -> Result<Self, JailError> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let root = open(path, flags, Mode::empty())
            .map_err(|error| JailError::Root { path: path.display().to_string(), error })?;
        Ok(Self { root })
    }

    /// Whether it holds all that it is filled with: by us, which its marker tells, or by another program. The same rule as that
    /// of the agents.
    pub fn is_complete(&self) -> bool {
        if stat(&self.root, MARKER).is_ok_and(|stat| is_file(&stat)) {
            return true;
        }
        let is_directory = |name| stat(&self.root, name).is_ok_and(|stat| kind(&stat) == SFlag::S_IFDIR);
        // In this order: what makes it look like a root file system comes after the journal.
        JAIL_ROOT_LIKE.into_iter().any(is_directory)
            && matches!(stat(&self.root, JOURNAL), Err(Errno::ENOENT))
    }

    /// How a file is, compared with how it should be.
    ///
    /// # Errors
    ///
    /// Something is in its place that is not replaced.
    pub fn compare(&self, wanted: &Wanted) -> Result<Found, JailError> {
        let path = &wanted.path;
        let Some(directory) = self.directory_of(path)? else { return Ok(Found::Other) };
        match stat(&directory, path.name()) {
            Err(Errno::ENOENT) => return Ok(Found::Other),
            Err(error) => return Err(JailError::of(path, "read", error)),
            // Before it is opened: a device may do something then.
            Ok(stat) => is_replaceable(path, &stat)?,
        }
        let how = beneath(OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOFOLLOW);
        let file = match openat2(&directory, path.name(), how) {
            Ok(file) => File::from(file),
            Err(Errno::ELOOP) => return Err(JailError::Link { path: path.clone() }),
            // One that cannot be read may nevertheless be replaced.
            Err(_) => return Ok(Found::Other),
        };
        let before = fstat(&file).map_err(|error| JailError::of(path, "read", error))?;
        is_replaceable(path, &before)?;
        if before.st_mode & 0o7777 != wanted.mode || before.st_size != size(&wanted.content) {
            return Ok(Found::Other);
        }
        let mut content = Vec::with_capacity(wanted.content.len() + 1);
        let most = u64::try_from(wanted.content.len()).unwrap_or(u64::MAX).saturating_add(1);
        if file.take(most).read_to_end(&mut content).is_err() || content != wanted.content {
            return Ok(Found::Other);
        }
        Ok(Found::Same(Seen::of(&before)))
    }

    /// Whether a file is still the one that was seen.
    pub fn is_still(&self, path: &JailPath, seen: Seen) -> bool {
        let directory = self.directory_of(path).ok().flatten();
        directory.is_some_and(|directory| {
            stat(&directory, path.name()).is_ok_and(|stat| is_file(&stat) && Seen::of(&stat) == seen)
        })
    }

    /// Removes a file. What is no file, or cannot be reached without following links, is not ours, and stays.
    ///
    /// # Errors
    ///
    /// The system refuses.
    pub fn remove(&self, path: &JailPath) -> Result<(), JailError> {
        let directory = match self.directory_of(path) {
            Ok(Some(directory)) => directory,
            Ok(None) | Err(JailError::LinkOnTheWay { .. } | JailError::FileOnTheWay { .. }) => return Ok(()),
            Err(error) => return Err(error),
        };
        match stat(&directory, path.name()) {
            Ok(stat) if is_file(&stat) => {}
            Ok(_) | Err(Errno::ENOENT) => return Ok(()),
            Err(error) => return Err(JailError::of(path, "removed", error)),
        }
        match unlinkat(&directory, path.name(), UnlinkatFlags::NoRemoveDir) {
            Ok(()) | Err(Errno::ENOENT | Errno::EISDIR) => Ok(()),
            Err(error) => Err(JailError::of(path, "removed", error)),
        }
    }

    /// Removes a file and old ones of its name. Nobody would know of those any more after a crash.
    ///
    /// # Errors
    ///
    /// The system refuses.
    pub fn remove_all(&self, path: &JailPath) -> Result<(), JailError> {
        self.leftovers(path).iter().for_each(|leftover| self.clear(leftover));
        self.remove(path)
    }

    /// Old files beside this one, also those that a process before us has left.
    pub fn leftovers(&self, path: &JailPath) -> Vec<Leftover> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY;
        let opened = openat2(&self.root, or_dot(path.parent()), beneath(flags));
        let Some(mut directory) = opened.ok().and_then(|fd| Dir::from_fd(fd).ok()) else { return Vec::new() };
        let prefix = write::temporary_prefix(path);
        let names =
            directory.iter().flatten().filter_map(|entry| Some(entry.file_name().to_str().ok()?.to_owned()));
        names
            .filter(|name| name.starts_with(&prefix))
            .map(|name| Leftover { directory: path.parent().to_owned(), name })
            .collect()
    }

    /// Removes an old file; one that cannot be removed is found again by a later process.
    pub fn clear(&self, leftover: &Leftover) {
        if let Ok(directory) = self.directory(&leftover.directory) {
            let _ = unlinkat(&directory, leftover.name.as_str(), UnlinkatFlags::NoRemoveDir);
        }
    }

    fn directory(&self, path: &str) -> Result<OwnedFd, Errno> {
        openat2(&self.root, or_dot(path), beneath(OFlag::O_PATH | OFlag::O_DIRECTORY))
    }

    /// The directory of a file, if it is there.
    fn directory_of(&self, path: &JailPath) -> Result<Option<OwnedFd>, JailError> {
        match self.directory(path.parent()) {
            Ok(directory) => Ok(Some(directory)),
            Err(Errno::ENOENT) => Ok(None),
            Err(error) => Err(JailError::on_the_way(path, error)),
        }
    }

    /// The directory of this path, which is made if it is not there, and so are those above.
    fn make_directory(&self, path: &str) -> Result<OwnedFd, Errno> {
        for _ in 0..TRIES {
            match self.directory(path) {
                Err(Errno::ENOENT) => {}
                found => return found,
            }
            let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
            let above = self.make_directory(above)?;
            match mkdirat(&above, name, Mode::from_bits_truncate(0o755)) {
                Ok(()) | Err(Errno::EEXIST | Errno::ENOENT) => {}
                Err(error) => return Err(error),
            }
        }
        Err(Errno::EBUSY)
    }
}

fn or_dot(path: &str) -> &str {
    if path.is_empty() { "." } else { path }
}

fn beneath(flags: OFlag) -> OpenHow {
    let resolve = ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_SYMLINKS;
    OpenHow::new().flags(flags | OFlag::O_CLOEXEC).resolve(resolve)
}

fn stat(directory: impl AsFd, name: &str) -> Result<FileStat, Errno> {
    fstatat(directory, name, AtFlags::AT_SYMLINK_NOFOLLOW)
}

fn kind(stat: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT
}

fn is_file(stat: &FileStat) -> bool {
    kind(stat) == SFlag::S_IFREG
}

/// Only files are replaced.
fn is_replaceable(path: &JailPath, stat: &FileStat) -> Result<(), JailError> {
    let path = path.clone();
    match kind(stat) {
        SFlag::S_IFREG => Ok(()),
        SFlag::S_IFLNK => Err(JailError::Link { path }),
        SFlag::S_IFDIR => Err(JailError::Directory { path }),
        _ => Err(JailError::NoFile { path }),
    }
}

fn size(content: &[u8]) -> i64 {
    i64::try_from(content.len()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
