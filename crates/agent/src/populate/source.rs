//! What the jail is filled from: a directory, walked in one fixed order, with what of it is taken and what is not.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString, OsStr};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, Timespec, Timestamps};
use slurm::agent::{PROGRAM_DIR, path};

use super::failure::{Failure, of_file};
use super::state::is_ours;
use crate::mountinfo;

/// Directories whose content belongs to a running machine; pods mount their own there.
const HOLLOW: [&str; 5] = ["dev", "proc", "run", "sys", "tmp"];

/// What an entry is, as far as it can be copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A directory.
    Directory,
    /// A regular file.
    File,
    /// A symbolic link.
    Link,
    /// A named pipe.
    Pipe,
}

/// What is known about an entry.
#[derive(Clone, Debug)]
pub struct Facts {
    /// What it is.
    pub kind: Kind,
    /// Its permissions.
    pub mode: u32,
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// How many bytes it has; 0 for a directory.
    pub size: u64,
    /// When it was read and changed last.
    pub times: Timestamps,
    /// How many names it has.
    pub names: u64,
    /// By which the names of one file know each other.
    pub id: (u64, u64),
    /// Whether fewer blocks are used than its size needs.
    pub sparse: bool,
    /// Whether its content is left out.
    pub hollow: bool,
}

impl Facts {
    /// Of what is copied; nothing for devices and sockets.
    #[allow(
        clippy::cast_sign_loss,
        clippy::cast_possible_wrap,
        reason = "the kernel's types differ by machine"
    )]
    pub fn of(stat: &Stat) -> Option<Self> {
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => Kind::Directory,
            FileType::RegularFile => Kind::File,
            FileType::Symlink => Kind::Link,
            FileType::Fifo => Kind::Pipe,
            _ => return None,
        };
        let time = |seconds, nanoseconds| Timespec { tv_sec: seconds, tv_nsec: nanoseconds as _ };
        let size = if kind == Kind::Directory { 0 } else { stat.st_size as u64 };
        Some(Self {
            kind,
            mode: stat.st_mode & 0o7777,
            uid: stat.st_uid,
            gid: stat.st_gid,
            size,
            times: Timestamps {
                last_access: time(stat.st_atime as _, stat.st_atime_nsec),
                last_modification: time(stat.st_mtime as _, stat.st_mtime_nsec),
            },
            names: stat.st_nlink as _,
            id: (stat.st_dev as _, stat.st_ino as _),
            sparse: kind == Kind::File && (stat.st_blocks as u64).saturating_mul(512) < size,
            hollow: false,
        })
    }

    /// Instead of what is mounted over it in this container: an empty place to mount over.
    fn place(self) -> Self {
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mode = if self.kind == Kind::Directory { 0o755 } else { 0o644 };
        let times = Timestamps { last_access: zero, last_modification: zero };
        Self { mode, uid: 0, gid: 0, size: 0, times, names: 1, sparse: false, hollow: true, ..self }
    }
}

/// A name in a directory.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its name.
    pub name: CString,
    /// What it is.
    pub facts: Facts,
}

/// What happens on the way through the source. `Place` is what belongs to a directory.
pub trait Visit {
    /// What belongs to a directory that is walked through.
    type Place;

    /// Comes to a directory, before what is in it.
    fn enter(&mut self, parent: &Self::Place, path: &Path, entry: &Entry) -> Result<Self::Place, Failure>;

    /// Has read what is in a directory.
    fn content(&mut self, _place: &Self::Place, _path: &Path, _entries: &[Entry]) -> Result<(), Failure> {
        Ok(())
    }

    /// Comes to anything but a directory. `source` is the directory that it is in.
    fn entry(
        &mut self,
        place: &Self::Place,
        source: &Arc<OwnedFd>,
        path: &Path,
        entry: &Entry,
    ) -> Result<(), Failure>;

    /// Has been through all that is in a directory, which `source` is.
    fn leave(
        &mut self,
        _place: Self::Place,
        _source: &OwnedFd,
        _path: &Path,
        _entry: &Entry,
    ) -> Result<(), Failure> {
        Ok(())
    }
}

/// The directory that the jail is filled from.
#[derive(Debug)]
pub struct Source {
    base: PathBuf,
    /// Paths below the base that are left out altogether.
    left_out: BTreeSet<PathBuf>,
    /// Paths below the base that something else is mounted over.
    mounted: BTreeSet<PathBuf>,
}

struct Frame<P> {
    source: Arc<OwnedFd>,
    place: P,
    entry: Entry,
    rest: std::vec::IntoIter<Entry>,
}

impl Source {
    /// A directory, as it is in this container.
    pub fn new(base: &Path) -> Self {
        let relative = |path: &Path| path.strip_prefix(base).ok().map(Path::to_owned);
        let own = [Path::new(PROGRAM_DIR).parent().unwrap_or(Path::new(PROGRAM_DIR)), Path::new(path::JAIL)];
        let mut left_out: BTreeSet<PathBuf> = own.into_iter().filter_map(relative).collect();
        left_out.extend(relative(Path::new(path::JAIL_SNAPSHOT)).filter(|path| !path.as_os_str().is_empty()));
        let mounted = mountinfo::below(base).iter().filter_map(|path| relative(path)).collect();
        Self { base: base.to_owned(), left_out, mounted }
    }

    /// Where it is.
    pub fn base(&self) -> &Path {
        &self.base
    }

    /// Opens it.
    pub fn open(&self) -> Result<OwnedFd, Failure> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::open(&self.base, flags, Mode::empty()).map_err(|error| of_file("open", &self.base, error))
    }

    /// Goes through all of it: a directory before what is in it, names by their bytes.
    pub fn walk<V: Visit>(&self, visit: &mut V, top: V::Place) -> Result<V::Place, Failure> {
        let source = self.open()?;
        let mut path = PathBuf::new();
        let entries = self.read(&source, &path)?;
        visit.content(&top, &path, &entries)?;
        let root = self.root_entry(&source)?;
        let mut stack =
            vec![Frame { source: Arc::new(source), place: top, entry: root, rest: entries.into_iter() }];
        loop {
            let Some(frame) = stack.last_mut() else {
                return Err(Failure::Again("the walk lost its way".into()));
            };
            let Some(entry) = frame.rest.next() else {
                let Some(frame) = stack.pop() else { continue };
                if stack.is_empty() {
                    return Ok(frame.place);
                }
                visit.leave(frame.place, &frame.source, &path, &frame.entry)?;
                path.pop();
                continue;
            };
            path.push(OsStr::from_bytes(entry.name.to_bytes()));
            if entry.facts.kind != Kind::Directory {
                visit.entry(&frame.place, &frame.source, &path, &entry)?;
                path.pop();
                continue;
            }
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let opened = rustix::fs::openat(&*frame.source, &entry.name, flags, Mode::empty());
            let source = opened.map_err(|error| of_file("open", self.base.join(&path), error))?;
            let place = visit.enter(&frame.place, &path, &entry)?;
            let entries = if entry.facts.hollow { Vec::new() } else { self.read(&source, &path)? };
            if !entry.facts.hollow {
                visit.content(&place, &path, &entries)?;
            }
            stack.push(Frame { source: Arc::new(source), place, entry, rest: entries.into_iter() });
        }
    }

    fn root_entry(&self, source: &OwnedFd) -> Result<Entry, Failure> {
        let failed = |error: rustix::io::Errno| of_file("look at", &self.base, error);
        let stat = rustix::fs::fstat(source).map_err(failed)?;
        let facts = Facts::of(&stat).ok_or_else(|| failed(rustix::io::Errno::NOTDIR))?;
        Ok(Entry { name: CString::default(), facts })
    }

    /// What of a directory is taken, in order.
    fn read(&self, directory: &OwnedFd, path: &Path) -> Result<Vec<Entry>, Failure> {
        let failed = |error: rustix::io::Errno| of_file("read", self.base.join(path), error);
        let mut entries = Vec::new();
        for item in Dir::read_from(directory).map_err(failed)? {
            let item = item.map_err(failed)?;
            let name: &CStr = item.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            let below = path.join(OsStr::from_bytes(name.to_bytes()));
            if self.left_out.contains(&below) || (path.as_os_str().is_empty() && is_ours(name)) {
                continue;
            }
            let stat = match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => stat,
                // Of a file that somebody else of this container made and removed.
                Err(rustix::io::Errno::NOENT) => continue,
                Err(error) => return Err(of_file("look at", self.base.join(&below), error)),
            };
            let Some(mut facts) = Facts::of(&stat) else { continue };
            if self.mounted.contains(&below) {
                facts = facts.place();
            }
            facts.hollow |= HOLLOW.iter().any(|hollow| Path::new(hollow) == below);
            entries.push(Entry { name: name.to_owned(), facts });
        }
        entries.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(entries)
    }
}
