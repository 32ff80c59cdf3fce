//! The files by which the jail tells how far it is: a lock, a journal while it is filled, and a marker when it is complete.

use std::ffi::CStr;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::failure::{Failure, of_file};
use crate::jail::ready::is_root_like;
use crate::output::say;

/// All files of ours at the jail's top begin with it.
const PREFIX: &str = ".soperator-jail.";
/// Complete. The last part of `slurm::agent::path::JAIL_MARKER`.
pub const MARKER: &CStr = c".soperator-jail.json";
/// Being filled. The last part of `slurm::agent::path::JAIL_JOURNAL`.
const JOURNAL: &CStr = c".soperator-jail.partial";
const LOCK: &CStr = c".soperator-jail.lock";
/// What the journal and the marker are written as first.
const FRESH: &CStr = c".soperator-jail.new";
/// What an empty file system may hold.
const LOST_AND_FOUND: &CStr = c"lost+found";

const FORMAT: u32 = 1;
/// No file of ours is longer.
const LONGEST: u64 = 1 << 20;
/// How often it is said that another one works.
const SAID: Duration = Duration::from_secs(30);

/// Whether a name at the jail's top is one of ours.
pub fn is_ours(name: &CStr) -> bool {
    name.to_bytes().starts_with(PREFIX.as_bytes())
}

/// Whether a name at the jail's top is nobody's data.
pub fn is_kept(name: &CStr) -> bool {
    is_ours(name) || name == LOST_AND_FOUND
}

/// Tells what a complete jail was made from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marker {
    /// Of this file's format.
    pub version: u32,
    /// What it was filled from.
    pub source: String,
    /// Files, directories and links in it.
    pub files: u64,
    /// Bytes of the files.
    pub bytes: u64,
    /// The Job that made it complete, if that is known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub job: String,
}

impl Marker {
    /// A marker of the format of today.
    pub fn new(job: &str, source: String, files: u64, bytes: u64) -> Self {
        Self { version: FORMAT, source, files, bytes, job: job.to_owned() }
    }
}

/// How far it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Journal {
    /// Of this file's format.
    pub version: u32,
    /// What it is filled from: another one makes all of it anew.
    pub source: String,
    /// The last path, in the order of the walk, up to which all is written and safe on the disk.
    pub through: Option<String>,
    /// Files that are not in the source are to be removed, and directories may give way.
    pub replace: bool,
    /// The volume was empty when it began: nothing in it is anybody else's.
    pub own: bool,
    /// The Job that works on it, if that is known.
    pub job: String,
}

impl Journal {
    /// A journal of a volume that was empty.
    pub fn of_empty(job: &str) -> Self {
        Self { version: FORMAT, own: true, job: job.to_owned(), ..Self::default() }
    }

    /// A journal of a volume that holds something, all of which is to be replaced.
    pub fn of_overwrite(job: &str) -> Self {
        Self { version: FORMAT, replace: true, job: job.to_owned(), ..Self::default() }
    }

    /// What is to be done with this source. After another one all is done anew; what only that one had is removed in the end,
    /// if it is known to be nobody else's.
    pub fn with_source(self, source: &str) -> Self {
        if self.source == source {
            return self;
        }
        let other = !self.source.is_empty();
        Self {
            version: FORMAT,
            source: source.to_owned(),
            through: None,
            replace: self.replace || (self.own && other),
            ..self
        }
    }
}

/// What the directory is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing is in it.
    Empty,
    /// All is in it.
    Complete(Marker),
    /// We were here and did not come to the end.
    HalfDone(Journal),
    /// Another program has filled it.
    RootLike,
    /// It holds something else, for example this.
    Foreign(String),
}

/// The top of the jail.
#[derive(Debug)]
pub struct Top {
    fd: OwnedFd,
    path: std::path::PathBuf,
}

/// Held while nobody else may fill the jail.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "it is held, not read")] OwnedFd);

impl Top {
    /// Opens it.
    pub fn open(path: &std::path::Path) -> Result<Self, Failure> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd =
            rustix::fs::open(path, flags, Mode::empty()).map_err(|error| of_file("open", path, error))?;
        Ok(Self { fd, path: path.to_owned() })
    }

    /// The directory.
    pub fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// Where it is.
    pub fn path(&self) -> &std::path::Path {
        &self.path
    }

    fn of(&self, name: &CStr) -> std::path::PathBuf {
        self.path.join(name.to_string_lossy().as_ref())
    }

    fn kind(&self, name: &CStr) -> Result<Option<FileType>, Failure> {
        match rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(FileType::from_raw_mode(stat.st_mode))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(of_file("look at", self.of(name), error)),
        }
    }

    /// What it is now.
    pub fn state(&self) -> Result<State, Failure> {
        match self.kind(MARKER)? {
            Some(FileType::RegularFile) => {
                return Ok(State::Complete(self.read_json(MARKER)?.unwrap_or_default()));
            }
            Some(_) => return Ok(State::Foreign(format!("{} is not a file", self.of(MARKER).display()))),
            None => {}
        }
        if let Some(journal) = self.read_json(JOURNAL)? {
            return Ok(State::HalfDone(journal));
        }
        if is_root_like(&self.fd).map_err(|error| of_file("look at", &self.path, error))? {
            return Ok(State::RootLike);
        }
        let failed = |error: Errno| of_file("read", &self.path, error);
        let mut others = Vec::new();
        for item in Dir::read_from(&self.fd).map_err(failed)? {
            let item = item.map_err(failed)?;
            let name = item.file_name();
            if name != c"." && name != c".." && !is_kept(name) {
                others.push(name.to_string_lossy().into_owned());
            }
        }
        others.sort();
        Ok(others.into_iter().next().map_or(State::Empty, State::Foreign))
    }

    /// What a file of ours says. One that cannot be read tells at least that we were here.
    fn read_json<T: Default + DeserializeOwned>(&self, name: &CStr) -> Result<Option<T>, Failure> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(&self.fd, name, flags, Mode::empty()) {
            Ok(file) => std::fs::File::from(file),
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(of_file("read", self.of(name), error)),
        };
        let mut text = Vec::new();
        file.take(LONGEST).read_to_end(&mut text).map_err(|error| of_file("read", self.of(name), error))?;
        Ok(Some(serde_json::from_slice(&text).unwrap_or_default()))
    }

    /// Writes the journal: what it says is safe on the disk already, and so is itself afterwards.
    pub fn set_journal(&self, journal: &Journal) -> Result<(), Failure> {
        self.replace(JOURNAL, &serde_json::to_vec(journal).unwrap_or_default())
    }

    /// Tells that the jail is complete.
    pub fn set_marker(&self, marker: &Marker) -> Result<(), Failure> {
        let mut text = serde_json::to_vec(marker).unwrap_or_default();
        text.push(b'\n');
        self.replace(MARKER, &text)
    }

    /// Tells that the jail is complete no more.
    pub fn forget_marker(&self) -> Result<(), Failure> {
        self.forget(MARKER)
    }

    /// Forgets the journal.
    pub fn forget_journal(&self) -> Result<(), Failure> {
        self.forget(JOURNAL)
    }

    fn forget(&self, name: &CStr) -> Result<(), Failure> {
        match rustix::fs::unlinkat(&self.fd, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(of_file("remove", self.of(name), error)),
        }
        self.sync_top()
    }

    fn sync_top(&self) -> Result<(), Failure> {
        match rustix::fs::fsync(&self.fd) {
            // Some network file systems have no such call for directories.
            Ok(()) | Err(Errno::INVAL) => Ok(()),
            Err(error) => Err(of_file("sync", &self.path, error)),
        }
    }

    /// Everything that was written is safe on the disk.
    pub fn sync_all(&self) -> Result<(), Failure> {
        rustix::fs::syncfs(&self.fd).map_err(|error| of_file("sync", &self.path, error))
    }

    /// Puts a file there in one step.
    fn replace(&self, name: &CStr, text: &[u8]) -> Result<(), Failure> {
        let written = (|| {
            match rustix::fs::unlinkat(&self.fd, FRESH, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let file = rustix::fs::openat(&self.fd, FRESH, flags, Mode::from_raw_mode(0o644))?;
            let mut file = std::fs::File::from(file);
            file.write_all(text)?;
            file.sync_all()?;
            Ok(rustix::fs::renameat(&self.fd, FRESH, &self.fd, name)?)
        })();
        written.map_err(|error: std::io::Error| of_file("write", self.of(name), error))?;
        self.sync_top()
    }

    /// Waits until nobody else fills this jail.
    pub fn lock(&self) -> Result<Lock, Failure> {
        let failed = |error: Errno| of_file("lock", self.of(LOCK), error);
        let mut said: Option<Instant> = None;
        loop {
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let file =
                rustix::fs::openat(&self.fd, LOCK, flags, Mode::from_raw_mode(0o600)).map_err(failed)?;
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) if self.is_still_there(file.as_fd())? => return Ok(Lock(file)),
                // The one before us has removed it in the end.
                Ok(()) => continue,
                Err(Errno::WOULDBLOCK) => {}
                Err(Errno::NOSYS | Errno::OPNOTSUPP | Errno::NOLCK) => {
                    say(
                        super::NAME,
                        "the volume has no locks: nothing keeps a second process from filling the jail too",
                    );
                    return Ok(Lock(file));
                }
                Err(error) => return Err(failed(error)),
            }
            if said.is_none_or(|said| said.elapsed() >= SAID) {
                say(super::NAME, "waiting: another process fills the jail");
                said = Some(Instant::now());
            }
            std::thread::sleep(Duration::from_millis(500));
        }
    }

    fn is_still_there(&self, lock: std::os::fd::BorrowedFd<'_>) -> Result<bool, Failure> {
        let failed = |error: Errno| of_file("lock", self.of(LOCK), error);
        let own = rustix::fs::fstat(lock).map_err(failed)?;
        match rustix::fs::statat(&self.fd, LOCK, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(there) => Ok((there.st_dev, there.st_ino) == (own.st_dev, own.st_ino)),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(failed(error)),
        }
    }

    /// Lets the next one in, and leaves no file of it behind.
    pub fn unlock(&self, lock: Lock) -> Result<(), Failure> {
        let removed = self.forget(LOCK);
        drop(lock);
        removed
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn each_state_of_a_directory_is_told_apart() {
        let directory = tempfile::tempdir().unwrap();
        let top = Top::open(directory.path()).unwrap();
        assert_eq!(top.state(), Ok(State::Empty));
        fs::create_dir(directory.path().join("lost+found")).unwrap();
        fs::write(directory.path().join(".soperator-jail.lock"), "").unwrap();
        fs::write(directory.path().join(".soperator-jail.new"), "").unwrap();
        assert_eq!(top.state(), Ok(State::Empty));
        fs::write(directory.path().join("a file"), "").unwrap();
        assert_eq!(top.state(), Ok(State::Foreign("a file".into())));
        fs::write(directory.path().join("usr"), "").unwrap();
        assert_eq!(top.state(), Ok(State::Foreign("a file".into())), "a file is no root");
        fs::create_dir(directory.path().join("etc")).unwrap();
        assert_eq!(top.state(), Ok(State::RootLike));

        let journal = Journal { through: Some("usr/bin".into()), ..Journal::of_overwrite("a") };
        top.set_journal(&journal).unwrap();
        assert_eq!(top.state(), Ok(State::HalfDone(journal)));
        fs::write(directory.path().join(".soperator-jail.partial"), "{").unwrap();
        assert_eq!(top.state(), Ok(State::HalfDone(Journal::default())));
        let marker = Marker::new("job", "a".into(), 1, 2);
        top.set_marker(&marker).unwrap();
        assert_eq!(top.state(), Ok(State::Complete(marker.clone())));
        top.forget_journal().unwrap();
        assert_eq!(top.state(), Ok(State::Complete(marker)));
        top.forget_marker().unwrap();
        fs::create_dir(directory.path().join(".soperator-jail.json")).unwrap();
        assert!(matches!(top.state(), Ok(State::Foreign(_))), "a directory is no marker");
    }

    #[test]
    fn the_marker_is_json_that_others_can_read() {
        let directory = tempfile::tempdir().unwrap();
        let top = Top::open(directory.path()).unwrap();
        let set = |job: &str| {
            top.set_marker(&Marker::new(job, "/".into(), 7, 8)).unwrap();
            fs::read_to_string(directory.path().join(".soperator-jail.json")).unwrap()
        };
        assert_eq!(set(""), "{\"version\":1,\"source\":\"/\",\"files\":7,\"bytes\":8}\n");
        assert_eq!(top.state(), Ok(State::Complete(Marker::new("", "/".into(), 7, 8))), "also without a Job");
        assert_eq!(set("u"), "{\"version\":1,\"source\":\"/\",\"files\":7,\"bytes\":8,\"job\":\"u\"}\n");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        for (name, path) in
            [(MARKER, slurm::agent::path::JAIL_MARKER), (JOURNAL, slurm::agent::path::JAIL_JOURNAL)]
        {
            assert_eq!(path, format!("{}/{}", slurm::agent::path::JAIL, name.to_str().unwrap()));
        }
    }

    #[test]
    fn the_second_one_waits_until_the_first_is_done() {
        let directory = tempfile::tempdir().unwrap();
        let first = Top::open(directory.path()).unwrap();
        let lock = first.lock().unwrap();
        let (begun, ended) = (std::sync::mpsc::channel(), std::sync::mpsc::channel());
        let path = directory.path().to_owned();
        let second = std::thread::spawn(move || {
            let top = Top::open(&path).unwrap();
            begun.0.send(()).unwrap();
            let lock = top.lock().unwrap();
            ended.0.send(()).unwrap();
            top.unlock(lock).unwrap();
        });
        begun.1.recv().unwrap();
        assert!(ended.1.recv_timeout(Duration::from_millis(700)).is_err());
        first.unlock(lock).unwrap();
        ended.1.recv_timeout(Duration::from_secs(10)).unwrap();
        second.join().unwrap();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "no lock is left");
    }
}
