//! A first way through the source: how much there is, and a hash by which the same source is known again.

use std::fmt::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::failure::Failure;
use super::source::{Entry, Kind, Source, Visit};

/// What the source is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survey {
    /// Where it is, with a hash of all names, sizes, owners, modes and times.
    pub source: String,
    /// Entries.
    pub files: u64,
    /// Bytes of them.
    pub bytes: u64,
}

#[derive(Default)]
struct Counting {
    hasher: Sha256,
    files: u64,
    bytes: u64,
}

impl Survey {
    /// Goes through the source.
    pub fn of(source: &Source) -> Result<Self, Failure> {
        let mut counting = Counting::default();
        source.walk(&mut counting, ())?;
        let hash = counting.hasher.finalize().iter().take(8).fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        });
        let source = format!("{}@{hash}", source.base().display());
        Ok(Self { source, files: counting.files, bytes: counting.bytes })
    }
}

impl Counting {
    fn count(&mut self, path: &Path, entry: &Entry) {
        let (path, facts) = (path.as_os_str().as_bytes(), &entry.facts);
        // The container's runtime makes places for mounts in directories, so their times differ from pod to pod.
        let changed = if facts.kind == Kind::Directory { 0 } else { facts.times.last_modification.tv_sec };
        self.hasher.update((path.len() as u64).to_be_bytes());
        self.hasher.update(path);
        self.hasher.update([facts.kind as u8]);
        for number in [facts.mode, facts.uid, facts.gid] {
            self.hasher.update(number.to_be_bytes());
        }
        self.hasher.update(facts.size.to_be_bytes());
        self.hasher.update(changed.to_be_bytes());
        self.files += 1;
        self.bytes += facts.size;
    }
}

impl Visit for Counting {
    type Place = ();

    fn enter(&mut self, _parent: &(), path: &Path, entry: &Entry) -> Result<(), Failure> {
        self.count(path, entry);
        Ok(())
    }

    fn entry(&mut self, _: &(), _: &Arc<OwnedFd>, path: &Path, entry: &Entry) -> Result<(), Failure> {
        self.count(path, entry);
        Ok(())
    }
}
