//! One entry of the source, made in the jail: with owner, mode, times and attributes, and never half under its own name
//! where another one was before.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, Dir, FileType, Gid, Mode, OFlags, Stat, Uid, XattrFlags};
use rustix::io::Errno;

use super::failure::{Failure, of_file};
use super::remove::make_way;
use super::source::{Entry, Facts, Kind};

/// What is being written in the place of something else. It may be left over from a process that was killed.
pub const TEMPORARY: &str = ".soperator-jail.tmp-";
const BUFFER: usize = 256 << 10;
/// Labels of the machine that the image runs on, not of the image.
const NOT_KEPT: [&[u8]; 1] = [b"security.selinux"];

/// Makes entries. One for each thread.
pub struct Maker<'a> {
    /// What happens to all of them.
    pub rules: &'a Rules,
    buffer: Vec<u8>,
    temporary: CString,
}

/// What counts for all entries.
#[derive(Debug)]
pub struct Rules {
    /// Who owns the top of the jail: root, but for tests.
    pub owner: u32,
    /// Whether root gets a key pair.
    pub root_key: bool,
    /// Whole directories may give way to what the source has in their place.
    pub replace: bool,
    /// Attributes that the volume did not take.
    pub lost_attributes: AtomicU64,
    #[cfg(test)]
    pub stop: super::tests::Stop,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            owner: 0,
            root_key: true,
            replace: false,
            lost_attributes: AtomicU64::default(),
            #[cfg(test)]
            stop: super::tests::Stop::default(),
        }
    }
}

impl Rules {
    /// The same rules, with or without the right to replace.
    pub fn with_replace(&self, replace: bool) -> Self {
        Self {
            owner: self.owner,
            root_key: self.root_key,
            replace,
            lost_attributes: AtomicU64::default(),
            #[cfg(test)]
            stop: self.stop.clone(),
        }
    }

    /// Something is about to be changed. Tests end here as if the process had been killed.
    #[cfg_attr(
        not(test),
        allow(clippy::unnecessary_wraps, clippy::unused_self, reason = "only tests end here")
    )]
    pub fn step(&self) -> Result<(), Failure> {
        #[cfg(test)]
        self.stop.step()?;
        Ok(())
    }
}

impl<'a> Maker<'a> {
    /// The maker of a thread.
    pub fn new(rules: &'a Rules, thread: usize) -> Self {
        let temporary = CString::new(format!("{TEMPORARY}{thread}")).unwrap_or_default();
        Self { rules, buffer: vec![0; BUFFER], temporary }
    }

    /// Makes anything but a directory. `path` is only said.
    pub fn make(&mut self, from: &OwnedFd, to: &OwnedFd, path: &Path, entry: &Entry) -> Result<(), Failure> {
        self.rules.step()?;
        match entry.facts.kind {
            Kind::File => self.file(from, to, path, entry),
            Kind::Link => self.link(from, to, path, entry),
            Kind::Pipe => self.pipe(to, path, entry),
            Kind::Directory => Ok(()),
        }
    }

    fn file(&mut self, from: &OwnedFd, to: &OwnedFd, path: &Path, entry: &Entry) -> Result<(), Failure> {
        let failed = |doing: &'static str| move |error: std::io::Error| of_file(doing, path, error);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let create = |name: &CStr| rustix::fs::openat(to, name, flags, Mode::from_raw_mode(0o600));
        let (file, name) = match create(&entry.name) {
            Err(Errno::EXIST) => {
                self.clear_temporary(to, path)?;
                (create(&self.temporary), &self.temporary)
            }
            created => (created, &entry.name),
        };
        let mut file = File::from(file.map_err(|error| failed("create")(error.into()))?);
        let mut source = None;
        // The place of a mount has no content and no attributes of its own.
        if !entry.facts.hollow {
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let opened = rustix::fs::openat(from, &entry.name, flags, Mode::empty());
            let opened = File::from(opened.map_err(|error| failed("read the source of")(error.into()))?);
            let copied = copy(&opened, &mut file, &entry.facts, &mut self.buffer)
                .map_err(|problem| problem.of(path))?;
            if copied != entry.facts.size {
                return Err(Failure::Again(format!(
                    "{}: {copied} bytes were read where the source had {}",
                    path.display(),
                    entry.facts.size
                )));
            }
            source = Some(OwnedFd::from(opened));
        }
        self.rules.step()?;
        self.finish(source.as_ref(), &OwnedFd::from(file), path, &entry.facts)?;
        if name == &self.temporary {
            self.rules.step()?;
            self.move_into_place(to, path, &entry.name)?;
        }
        Ok(())
    }

    /// Owner, mode, attributes and times, in the order in which one does not undo another.
    pub fn finish(
        &self,
        source: Option<&OwnedFd>,
        file: &OwnedFd,
        path: &Path,
        facts: &Facts,
    ) -> Result<(), Failure> {
        let failed = |doing: &'static str| move |error: Errno| of_file(doing, path, error);
        rustix::fs::fchown(file, Some(Uid::from_raw(facts.uid)), Some(Gid::from_raw(facts.gid)))
            .map_err(failed("change the owner of"))?;
        rustix::fs::fchmod(file, Mode::from_raw_mode(facts.mode)).map_err(failed("change the mode of"))?;
        if let Some(source) = source {
            self.attributes(source, file, path)?;
        }
        rustix::fs::futimens(file, &facts.times).map_err(failed("change the times of"))
    }

    /// Capabilities, access lists and the like, as far as the volume takes them.
    fn attributes(&self, source: &OwnedFd, file: &OwnedFd, path: &Path) -> Result<(), Failure> {
        let mut names = vec![0_u8; 1 << 10];
        let length = match rustix::fs::flistxattr(source, &mut names[..]) {
            Ok(length) => length,
            Err(Errno::RANGE) => {
                names.resize(64 << 10, 0);
                rustix::fs::flistxattr(source, &mut names[..]).unwrap_or(0)
            }
            Err(_) => 0,
        };
        names.truncate(length);
        for name in names.split(|byte| *byte == 0).filter(|name| !name.is_empty() && !NOT_KEPT.contains(name))
        {
            let Ok(name) = CString::new(name) else { continue };
            let mut value = vec![0_u8; 64 << 10];
            let Ok(length) = rustix::fs::fgetxattr(source, &name, &mut value[..]) else { continue };
            value.truncate(length);
            match rustix::fs::fsetxattr(file, &name, &value, XattrFlags::empty()) {
                Ok(()) => {}
                Err(error @ (Errno::NOSPC | Errno::DQUOT | Errno::IO)) => {
                    return Err(of_file("give attributes to", path, error));
                }
                Err(_) => {
                    self.rules.lost_attributes.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        Ok(())
    }

    fn link(&self, from: &OwnedFd, to: &OwnedFd, path: &Path, entry: &Entry) -> Result<(), Failure> {
        let failed = |doing: &'static str| move |error: Errno| of_file(doing, path, error);
        let text =
            rustix::fs::readlinkat(from, &entry.name, Vec::new()).map_err(failed("read the source of"))?;
        let name = match rustix::fs::symlinkat(&text, to, &entry.name) {
            Ok(()) => &entry.name,
            Err(Errno::EXIST) => {
                self.clear_temporary(to, path)?;
                rustix::fs::symlinkat(&text, to, &self.temporary).map_err(failed("create"))?;
                &self.temporary
            }
            Err(error) => return Err(failed("create")(error)),
        };
        self.rules.step()?;
        let (uid, gid) = (Uid::from_raw(entry.facts.uid), Gid::from_raw(entry.facts.gid));
        rustix::fs::chownat(to, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)
            .map_err(failed("change the owner of"))?;
        rustix::fs::utimensat(to, name, &entry.facts.times, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(failed("change the times of"))?;
        if name == &self.temporary {
            self.rules.step()?;
            self.move_into_place(to, path, &entry.name)?;
        }
        Ok(())
    }

    fn pipe(&self, to: &OwnedFd, path: &Path, entry: &Entry) -> Result<(), Failure> {
        let failed = |doing: &'static str| move |error: Errno| of_file(doing, path, error);
        self.clear_temporary(to, path)?;
        let mode = Mode::from_raw_mode(entry.facts.mode);
        rustix::fs::mknodat(to, &self.temporary, FileType::Fifo, mode, 0).map_err(failed("create"))?;
        // A pipe that were opened would wait for its other end.
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let pipe = rustix::fs::openat(to, &self.temporary, flags, Mode::empty()).map_err(failed("open"))?;
        rustix::fs::chmod(format!("/proc/self/fd/{}", pipe.as_raw_fd()), mode)
            .map_err(failed("change the mode of"))?;
        let (uid, gid) = (Uid::from_raw(entry.facts.uid), Gid::from_raw(entry.facts.gid));
        rustix::fs::chownat(to, &self.temporary, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)
            .map_err(failed("change the owner of"))?;
        rustix::fs::utimensat(to, &self.temporary, &entry.facts.times, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(failed("change the times of"))?;
        self.rules.step()?;
        self.move_into_place(to, path, &entry.name)
    }

    /// Makes a further name of a file.
    ///
    /// # Errors
    ///
    /// `Ok(false)` where the volume has no such names.
    pub fn name(
        &self,
        first: (&OwnedFd, &CStr),
        to: &OwnedFd,
        path: &Path,
        name: &CStr,
    ) -> Result<bool, Failure> {
        self.rules.step()?;
        let failed = |error: Errno| of_file("create", path, error);
        let link = |name: &CStr| rustix::fs::linkat(first.0, first.1, to, name, AtFlags::empty());
        match link(name) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => {
                let of = |fd: &OwnedFd, name: &CStr| rustix::fs::statat(fd, name, AtFlags::SYMLINK_NOFOLLOW);
                let (one, other) = (of(first.0, first.1).map_err(failed)?, of(to, name).map_err(failed)?);
                if (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino) {
                    return Ok(true);
                }
                self.clear_temporary(to, path)?;
                link(&self.temporary).map_err(failed)?;
                self.rules.step()?;
                self.move_into_place(to, path, name)?;
                Ok(true)
            }
            Err(Errno::PERM | Errno::OPNOTSUPP | Errno::MLINK | Errno::XDEV) => Ok(false),
            Err(error) => Err(failed(error)),
        }
    }

    fn clear_temporary(&self, to: &OwnedFd, path: &Path) -> Result<(), Failure> {
        match rustix::fs::unlinkat(to, &self.temporary, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(of_file("replace", path, error)),
        }
    }

    fn move_into_place(&self, to: &OwnedFd, path: &Path, name: &CStr) -> Result<(), Failure> {
        let failed = |error: Errno| of_file("replace", path, error);
        let rename = || rustix::fs::renameat(to, &self.temporary, to, name);
        match rename() {
            Err(Errno::ISDIR | Errno::NOTEMPTY | Errno::EXIST) => {
                make_way(to, name, path, self.rules.replace)?;
                rename().map_err(failed)
            }
            renamed => renamed.map_err(failed),
        }
    }
}

/// The names in a directory.
pub fn names_in(directory: &OwnedFd, path: &Path) -> Result<Vec<CString>, Failure> {
    let failed = |error: Errno| of_file("read", path, error);
    let mut names = Vec::new();
    for item in Dir::read_from(directory).map_err(failed)? {
        let name = item.map_err(failed)?.file_name().to_owned();
        if name.as_c_str() != c"." && name.as_c_str() != c".." {
            names.push(name);
        }
    }
    Ok(names)
}

/// In what an entry of the jail is not as in the source: kind, owner, mode, size, time, and where a link leads. The content of
/// files is not read again.
pub fn wrong_with(
    from: &OwnedFd,
    entry: &Entry,
    to: &OwnedFd,
    path: &Path,
) -> Result<Option<String>, Failure> {
    let failed = |error: Errno| of_file("check", path, error);
    let there = match rustix::fs::statat(to, &entry.name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(there) => there,
        Err(Errno::NOENT) => return Ok(Some("it is not there".into())),
        Err(error) => return Err(failed(error)),
    };
    let wrong = differs(&entry.facts, &there);
    if wrong.is_some() || entry.facts.kind != Kind::Link {
        return Ok(wrong);
    }
    let target = |of: &OwnedFd| rustix::fs::readlinkat(of, &entry.name, Vec::new()).map_err(failed);
    let (wanted, found) = (target(from)?, target(to)?);
    Ok((wanted != found).then(|| format!("it leads to {found:?} and should to {wanted:?}")))
}

/// In what the facts differ.
fn differs(facts: &Facts, there: &Stat) -> Option<String> {
    let Some(found) = Facts::of(there) else { return Some("it is a device or a socket".into()) };
    let differs = |what: &str, wanted: String, found: String| {
        (wanted != found).then(|| format!("its {what} is {found} and should be {wanted}"))
    };
    let kind = differs("kind", format!("{:?}", facts.kind), format!("{:?}", found.kind));
    let owner =
        || differs("owner", format!("{}:{}", facts.uid, facts.gid), format!("{}:{}", found.uid, found.gid));
    let mode = || match facts.kind {
        // It has none of its own.
        Kind::Link => None,
        _ => differs("mode", format!("{:o}", facts.mode), format!("{:o}", found.mode)),
    };
    let size = || differs("size", facts.size.to_string(), found.size.to_string());
    // Whole seconds: not every file system keeps more.
    let time = |facts: &Facts| facts.times.last_modification.tv_sec.to_string();
    let changed = || match facts.kind {
        Kind::Directory => None,
        _ => differs("time", time(facts), time(&found)),
    };
    kind.or_else(owner).or_else(mode).or_else(size).or_else(changed)
}

enum CopyProblem {
    Read(std::io::Error),
    Write(std::io::Error),
}

impl CopyProblem {
    fn of(self, path: &Path) -> Failure {
        match self {
            CopyProblem::Read(error) => of_file("read the source of", path, error),
            CopyProblem::Write(error) => of_file("write", path, error),
        }
    }
}

/// Copies content; returns how long it is now. Holes stay holes.
fn copy(mut from: &File, to: &mut File, facts: &Facts, buffer: &mut [u8]) -> Result<u64, CopyProblem> {
    use CopyProblem::{Read, Write};
    if !facts.sparse {
        return copy_range(from, to, u64::MAX, buffer);
    }
    let mut position = 0;
    while position < facts.size {
        let data = match rustix::fs::seek(from, rustix::fs::SeekFrom::Data(position)) {
            Ok(data) => data,
            // Only a hole is left.
            Err(Errno::NXIO) => break,
            Err(error) => return Err(Read(error.into())),
        };
        let hole =
            rustix::fs::seek(from, rustix::fs::SeekFrom::Hole(data)).map_err(|error| Read(error.into()))?;
        from.seek(SeekFrom::Start(data)).map_err(Read)?;
        to.seek(SeekFrom::Start(data)).map_err(Write)?;
        copy_range(from, to, hole - data, buffer)?;
        position = hole;
    }
    let size = from.metadata().map_err(Read)?.len();
    to.set_len(size).map_err(Write)?;
    Ok(size)
}

fn copy_range(mut from: &File, to: &mut File, length: u64, buffer: &mut [u8]) -> Result<u64, CopyProblem> {
    let mut copied = 0;
    while copied < length {
        let wanted = usize::try_from(length - copied).unwrap_or(usize::MAX).min(buffer.len());
        let read = match from.read(&mut buffer[..wanted]) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(CopyProblem::Read(error)),
        };
        to.write_all(&buffer[..read]).map_err(CopyProblem::Write)?;
        copied += read as u64;
    }
    Ok(copied)
}
