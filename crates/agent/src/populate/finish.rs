//! The third way through the source: the facts of everything are looked at once more (not the content of files), what does not
//! belong is removed, and directories get their attributes, which making files in them would have changed.

use std::collections::BTreeSet;
use std::ffi::CStr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, Uid};

use super::entry::{Maker, Rules, TEMPORARY, names_in, wrong_with};
use super::failure::{Failure, of_file};
use super::remove::remove;
use super::source::{Entry, Source, Visit};
use super::state::{Top, is_kept};

struct Finishing<'a> {
    top: &'a Top,
    maker: Maker<'a>,
}

/// Checks everything against the source, and makes the directories as the source has them.
pub fn finish(source: &Source, top: &Top, rules: &Rules) -> Result<(), Failure> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::openat(top.fd(), ".", flags, Mode::empty());
    let root = root.map_err(|error| of_file("open", top.path(), error))?;
    let mut finishing = Finishing { top, maker: Maker::new(rules, 0) };
    source.walk(&mut finishing, root).map(drop)
}

/// The one mode with which sshd takes the jail as a root.
pub fn make_top(top: &Top, rules: &Rules) -> Result<(), Failure> {
    rustix::fs::fchown(top.fd(), Some(Uid::from_raw(rules.owner)), None)
        .and_then(|()| rustix::fs::fchmod(top.fd(), Mode::from_raw_mode(0o755)))
        .map_err(|error| of_file("change the mode of", top.path(), error))
}

impl Finishing<'_> {
    fn is_foreign(&self, path: &Path, known: &BTreeSet<&CStr>, name: &CStr) -> bool {
        // Left over from a process that was killed.
        if name.to_bytes().starts_with(TEMPORARY.as_bytes()) {
            return true;
        }
        let is_top = path.as_os_str().is_empty();
        self.maker.rules.replace && !known.contains(name) && !(is_top && is_kept(name))
    }
}

impl Visit for Finishing<'_> {
    type Place = OwnedFd;

    fn enter(&mut self, parent: &OwnedFd, path: &Path, entry: &Entry) -> Result<OwnedFd, Failure> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(parent, &entry.name, flags, Mode::empty())
            .map_err(|error| of_file("open", self.top.path().join(path), error))
    }

    fn content(&mut self, place: &OwnedFd, path: &Path, entries: &[Entry]) -> Result<(), Failure> {
        let shown = self.top.path().join(path);
        let known: BTreeSet<&CStr> = entries.iter().map(|entry| entry.name.as_c_str()).collect();
        for name in names_in(place, &shown)? {
            if self.is_foreign(path, &known, &name) {
                self.maker.rules.step()?;
                remove(place, &name, &shown.join(name.to_string_lossy().as_ref()))?;
            }
        }
        Ok(())
    }

    fn entry(
        &mut self,
        place: &OwnedFd,
        source: &Arc<OwnedFd>,
        path: &Path,
        entry: &Entry,
    ) -> Result<(), Failure> {
        match wrong_with(source, entry, place, &self.top.path().join(path))? {
            None => Ok(()),
            Some(wrong) => Err(Failure::Again(format!(
                "{} is not as it was written: {wrong}. Does something else write to the jail, or does its volume not keep owners and \
                 modes?",
                self.top.path().join(path).display()
            ))),
        }
    }

    fn leave(&mut self, place: OwnedFd, source: &OwnedFd, path: &Path, entry: &Entry) -> Result<(), Failure> {
        self.maker.rules.step()?;
        // What is mounted over the place in this container has attributes of its own.
        let source = (!entry.facts.hollow).then_some(source);
        self.maker.finish(source, &place, &self.top.path().join(path), &entry.facts)
    }
}
