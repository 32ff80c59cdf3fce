//! Files are written under other names first, and then all of them change places with the old ones.

use std::fs::{File, Permissions};
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;

use nix::errno::Errno;
use nix::fcntl::{OFlag, RenameFlags, openat2, renameat, renameat2};
use nix::sys::stat::{Mode, fstat};
use nix::unistd::{UnlinkatFlags, unlinkat};
use sha2::{Digest as _, Sha256};

use super::path::TEMPORARY;
use super::{Jail, JailError, JailPath, Leftover, Seen, TRIES, Wanted, beneath, is_replaceable, stat};

/// A file that is written under another name.
pub(super) struct Staged {
    directory: OwnedFd,
    path: JailPath,
    temporary: String,
    inode: u64,
}

/// How a file came to its name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Swapped {
    /// It has changed places with an old one.
    Exchanged,
    /// There was none.
    New,
    /// It has replaced an old one, where the file system cannot exchange.
    Replaced,
}

impl Jail {
    /// Writes files, all or none. Old ones are left beside them, to be [cleared](Jail::clear) later: on a shared file system
    /// others know files by their names for a while, and would find nothing.
    ///
    /// # Errors
    ///
    /// The first that cannot be written. All files then are as they were.
    pub fn write(&self, files: &[Wanted]) -> Result<Vec<Leftover>, JailError> {
        let mut staged: Vec<Staged> = Vec::with_capacity(files.len());
        for file in files {
            match self.stage(file) {
                Ok(one) => staged.push(one),
                Err(error) => {
                    staged.iter().for_each(Staged::discard);
                    return Err(error);
                }
            }
        }
        let mut done: Vec<(&Staged, Swapped)> = Vec::with_capacity(staged.len());
        for one in &staged {
            match one.swap() {
                Ok(swapped) => done.push((one, swapped)),
                Err(error) => {
                    done.iter().rev().for_each(|(one, swapped)| one.take_back(*swapped));
                    staged.iter().for_each(Staged::discard);
                    return Err(error);
                }
            }
        }
        let exchanged = done.into_iter().filter(|(_, swapped)| *swapped == Swapped::Exchanged);
        Ok(exchanged.map(|(one, _)| one.leftover()).collect())
    }

    pub(super) fn stage(&self, file: &Wanted) -> Result<Staged, JailError> {
        let path = &file.path;
        let directory =
            self.make_directory(path.parent()).map_err(|error| JailError::on_the_way(path, error))?;
        match stat(&directory, path.name()) {
            Ok(stat) => is_replaceable(path, &stat)?,
            Err(Errno::ENOENT) => {}
            Err(error) => return Err(JailError::of(path, "written", error)),
        }
        let (temporary, opened) = create(&directory, path)?;
        let mut staged = Staged { directory, path: path.clone(), temporary, inode: 0 };
        match fill(opened, file) {
            Ok(inode) => {
                staged.inode = inode;
                Ok(staged)
            }
            Err(error) => {
                staged.discard();
                let error = error.raw_os_error().map_or(Errno::EIO, Errno::from_raw);
                Err(JailError::of(path, "written", error))
            }
        }
    }
}

/// Makes a file that nobody else has.
fn create(directory: &OwnedFd, path: &JailPath) -> Result<(String, File), JailError> {
    let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW;
    let how = beneath(flags).mode(Mode::from_bits_truncate(0o600));
    for _ in 0..TRIES {
        let name = format!("{}{:08x}", temporary_prefix(path), fastrand::u32(..));
        match openat2(directory, name.as_str(), how) {
            Ok(file) => return Ok((name, File::from(file))),
            Err(Errno::EEXIST) => {}
            Err(error) => return Err(JailError::of(path, "written", error)),
        }
    }
    Err(JailError::Disturbed { path: path.clone() })
}

/// The content is on the disk before the file gets its name: a full volume is noticed while the old file is still there.
fn fill(mut file: File, wanted: &Wanted) -> io::Result<u64> {
    file.write_all(&wanted.content)?;
    file.set_permissions(Permissions::from_mode(wanted.mode))?;
    file.sync_all()?;
    Ok(fstat(&file)?.st_ino)
}

/// How the names begin under which a file is written. They are short, however long its own name is.
pub(super) fn temporary_prefix(path: &JailPath) -> String {
    let hash = Sha256::digest(path.to_string());
    let hex: String = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("{TEMPORARY}{hex}-")
}

impl Staged {
    fn leftover(&self) -> Leftover {
        Leftover { directory: self.path.parent().to_owned(), name: self.temporary.clone() }
    }

    fn rename(&self, flags: RenameFlags) -> Result<(), Errno> {
        renameat2(&self.directory, self.temporary.as_str(), &self.directory, self.path.name(), flags)
    }

    fn error(&self, error: Errno) -> JailError {
        JailError::of(&self.path, "written", error)
    }

    pub(super) fn swap(&self) -> Result<Swapped, JailError> {
        for _ in 0..TRIES {
            let swapped = match self.rename(RenameFlags::RENAME_EXCHANGE) {
                Ok(()) => Swapped::Exchanged,
                Err(Errno::ENOENT) => match self.rename(RenameFlags::RENAME_NOREPLACE) {
                    Ok(()) => Swapped::New,
                    // Somebody was faster: there is something to exchange now.
                    Err(Errno::EEXIST) => continue,
                    Err(error) if is_unknown(error) => self.replace()?,
                    Err(error) => return Err(self.error(error)),
                },
                Err(error) if is_unknown(error) => self.replace()?,
                Err(error) => return Err(self.error(error)),
            };
            if let Err(error) = self.check(swapped) {
                self.take_back(swapped);
                return Err(error);
            }
            return Ok(swapped);
        }
        Err(JailError::Disturbed { path: self.path.clone() })
    }

    /// Where the file system cannot exchange, as NFS.
    fn replace(&self) -> Result<Swapped, JailError> {
        renameat(&self.directory, self.temporary.as_str(), &self.directory, self.path.name())
            .map_err(|error| self.error(error))?;
        Ok(Swapped::Replaced)
    }

    /// Others may have been at work since we looked: what came out must be a file, and what is in now must be ours.
    fn check(&self, swapped: Swapped) -> Result<(), JailError> {
        if swapped == Swapped::Exchanged
            && let Ok(old) = stat(&self.directory, &self.temporary)
        {
            is_replaceable(&self.path, &old)?;
        }
        match stat(&self.directory, self.path.name()) {
            Ok(new) if Seen::of(&new).inode == self.inode => Ok(()),
            _ => Err(JailError::Disturbed { path: self.path.clone() }),
        }
    }

    /// Undoes a swap, as far as it can be undone.
    pub(super) fn take_back(&self, swapped: Swapped) {
        match swapped {
            Swapped::Exchanged => {
                // Only ours goes back: what somebody else has put there since is theirs.
                let is_ours =
                    stat(&self.directory, self.path.name()).is_ok_and(|stat| stat.st_ino == self.inode);
                if is_ours && self.rename(RenameFlags::RENAME_EXCHANGE).is_ok() {
                    self.discard();
                }
            }
            Swapped::New => {
                if stat(&self.directory, self.path.name()).is_ok_and(|stat| stat.st_ino == self.inode) {
                    let _ = unlinkat(&self.directory, self.path.name(), UnlinkatFlags::NoRemoveDir);
                }
            }
            Swapped::Replaced => {}
        }
    }

    /// Removes the file under its other name, if it is ours.
    fn discard(&self) {
        let is_ours = |inode: u64| self.inode == 0 || inode == self.inode;
        if stat(&self.directory, &self.temporary).is_ok_and(|stat| is_ours(stat.st_ino)) {
            let _ = unlinkat(&self.directory, self.temporary.as_str(), UnlinkatFlags::NoRemoveDir);
        }
    }
}

/// Whether a file system, or the kernel, does not know the flags.
fn is_unknown(error: Errno) -> bool {
    [Errno::EINVAL, Errno::EOPNOTSUPP, Errno::ENOSYS].contains(&error)
}
