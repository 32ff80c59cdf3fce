//! Whether the jail can be lived in. A jail that another program has filled has no marker of ours; one that is being filled
//! has a journal from before its first change until after its last one.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use slurm::agent::path;

/// Whether the jail is filled: by us, which its marker tells, or by another program.
///
/// # Errors
///
/// It cannot be looked at.
pub fn is_ready(jail: &Path) -> io::Result<bool> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let top: OwnedFd = rustix::fs::open(jail, flags, Mode::empty())?;
    let marker = kind(&top, name_of(path::JAIL_MARKER))?;
    if marker == Some(FileType::RegularFile) {
        return Ok(true);
    }
    // In this order: what makes it look like a root file system comes after the journal.
    Ok(is_root_like(&top)? && kind(&top, name_of(path::JAIL_JOURNAL))?.is_none())
}

/// Whether the top of a volume looks like that of a root file system.
///
/// # Errors
///
/// It cannot be looked at.
pub fn is_root_like(top: impl AsFd) -> Result<bool, Errno> {
    for name in path::JAIL_ROOT_LIKE {
        if kind(&top, name)? == Some(FileType::Directory) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn kind(top: impl AsFd, name: &str) -> Result<Option<FileType>, Errno> {
    match rustix::fs::statat(top, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(FileType::from_raw_mode(stat.st_mode))),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The last part of a path.
fn name_of(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_jail_is_ready_by_its_marker_or_as_another_program_left_it() {
        let directory = tempfile::tempdir().unwrap();
        let (jail, at) = (directory.path(), |name: &str| directory.path().join(name));
        let ready = || is_ready(jail).unwrap();
        assert!(!ready(), "an empty one");
        fs::create_dir(at("lost+found")).unwrap();
        fs::write(at("thesis.txt"), "").unwrap();
        fs::write(at("usr"), "").unwrap();
        assert!(!ready(), "somebody's files");
        fs::create_dir(at("etc")).unwrap();
        assert!(ready(), "one of the original");
        fs::write(at(".soperator-jail.partial"), "").unwrap();
        assert!(!ready(), "one that is being filled");
        fs::write(at(".soperator-jail.json"), "").unwrap();
        assert!(ready(), "one that is complete");
        fs::remove_file(at(".soperator-jail.json")).unwrap();
        fs::create_dir(at(".soperator-jail.json")).unwrap();
        assert!(!ready(), "a directory is no marker");
        assert!(is_ready(&at("none")).is_err());
    }
}
