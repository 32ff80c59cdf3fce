//! Removes trees of any depth with a few open files: users nest directories as deep as they like.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, Mode, OFlags};
use rustix::io::Errno;

use super::failure::{Failure, of_file};

/// Deeper ones are not said by name.
const SAID: usize = 8;

/// What tells a directory from any other.
type Id = (u64, u64);

/// A directory that is being emptied, above the one that is open.
struct Above {
    id: Id,
    /// The name in it of the one below.
    below: CString,
}

/// Removes a directory that is where the source has something else: an empty one, or any if that is asked for.
pub fn make_way(to: &OwnedFd, name: &CStr, path: &Path, replace: bool) -> Result<(), Failure> {
    if replace {
        return remove(to, name, path);
    }
    match rustix::fs::unlinkat(to, name, AtFlags::REMOVEDIR) {
        Ok(()) => Ok(()),
        Err(Errno::NOTEMPTY | Errno::EXIST) => Err(Failure::Person(format!(
            "{} is a directory with something in it, where the jail has a file: move it away and delete this \
             Job, or set maintenance to downscaleAndOverwritePopulateJail",
            path.display()
        ))),
        Err(error) => Err(of_file("remove", path, error)),
    }
}

/// Removes whatever has this name, with all that is in it, but nothing of another volume.
pub fn remove(from: &OwnedFd, name: &CStr, path: &Path) -> Result<(), Failure> {
    let failed = |error: Errno| of_file("remove", path, error);
    if unlink(from, name).map_err(failed)? {
        return Ok(());
    }
    let top = id(from).map_err(failed)?;
    let mut above = vec![Above { id: top, below: name.to_owned() }];
    let mut current = enter(from, name, top, path, &above)?;
    loop {
        let (own, below) = current;
        let place = shown(path, &above);
        let failed = |error: Errno| of_file("remove", &place, error);
        if let Some(inner) = empty(&below).map_err(failed)? {
            above.push(Above { id: own, below: inner.clone() });
            current = enter(&below, &inner, own, path, &above)?;
            continue;
        }
        let Some(Above { id: wanted, below: name }) = above.pop() else { return Ok(()) };
        if above.is_empty() {
            return remove_directory(from, &name).map_err(failed);
        }
        let up = open(&below, c"..").map_err(failed)?;
        if id(&up).map_err(failed)? != wanted {
            return Err(Failure::Again(format!(
                "{} was moved while it was removed: does something else write to the jail?",
                place.display()
            )));
        }
        remove_directory(&up, &name).map_err(failed)?;
        current = (wanted, up);
    }
}

/// Opens a directory that is to be emptied.
fn enter(
    from: &OwnedFd,
    name: &CStr,
    parent: Id,
    path: &Path,
    above: &[Above],
) -> Result<(Id, OwnedFd), Failure> {
    let failed = |error: Errno| of_file("remove", shown(path, above), error);
    let directory = open(from, name).map_err(failed)?;
    let own = id(&directory).map_err(failed)?;
    if own.0 != parent.0 {
        return Err(Failure::Person(format!(
            "{} is another volume: it is not removed. Unmount it, then delete this Job",
            shown(path, above).display()
        )));
    }
    Ok((own, directory))
}

/// Removes what is in a directory up to the first directory in it, whose name is returned.
fn empty(directory: &OwnedFd) -> Result<Option<CString>, Errno> {
    for item in Dir::read_from(directory)? {
        let item = item?;
        let name = item.file_name();
        if name != c"." && name != c".." && !unlink(directory, name)? {
            return Ok(Some(name.to_owned()));
        }
    }
    Ok(None)
}

/// Removes anything but a directory; says whether it is gone.
fn unlink(from: &OwnedFd, name: &CStr) -> Result<bool, Errno> {
    match rustix::fs::unlinkat(from, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(true),
        Err(Errno::ISDIR) => Ok(false),
        // Other systems say so of a directory, and this one of a file that may not be changed.
        Err(Errno::PERM) => match open(from, name) {
            Ok(_) => Ok(false),
            Err(_) => Err(Errno::PERM),
        },
        Err(error) => Err(error),
    }
}

fn remove_directory(from: &OwnedFd, name: &CStr) -> Result<(), Errno> {
    match rustix::fs::unlinkat(from, name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error),
    }
}

fn open(from: &OwnedFd, name: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(from, name, flags, Mode::empty())
}

#[allow(clippy::unnecessary_cast, reason = "the kernel's types differ by machine")]
fn id(directory: impl AsFd) -> Result<Id, Errno> {
    rustix::fs::fstat(directory).map(|stat| (stat.st_dev as u64, stat.st_ino as u64))
}

/// Where it is, as far as it is worth saying. The first name is the path's own.
fn shown(path: &Path, above: &[Above]) -> PathBuf {
    let mut shown = path.to_owned();
    for Above { below, .. } in above.iter().skip(1).take(SAID) {
        shown.push(below.to_string_lossy().as_ref());
    }
    if above.len() > SAID + 1 {
        shown.push("...");
    }
    shown
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::alone::run_alone;

    #[test]
    fn a_tree_of_any_depth_is_removed_with_a_few_open_files() {
        let few = ["sh", "-c", "ulimit -n 64; exec \"$@\"", "sh"];
        run_alone(&few, "populate::remove::tests::with_few_files");
    }

    #[test]
    #[ignore = "runs inside a_tree_of_any_depth_is_removed_with_a_few_open_files"]
    fn with_few_files() {
        let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let top = OwnedFd::from(fs::File::open(directory.path()).unwrap());
        let mut current = top.try_clone().unwrap();
        for level in 0..20_000 {
            rustix::fs::mkdirat(&current, "deep", Mode::RWXU).unwrap();
            rustix::fs::symlinkat("/", &current, "link").unwrap();
            current = open(&current, c"deep").unwrap();
            // Beside the one that leads down.
            if level % 1000 == 0 {
                rustix::fs::mkdirat(&current, "a", Mode::RWXU).unwrap();
                rustix::fs::mkdirat(&current, "z", Mode::RWXU).unwrap();
            }
        }
        drop(current);
        remove(&top, c"deep", &directory.path().join("deep")).unwrap();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "the link beside it");
    }

    #[test]
    fn everything_below_a_name_goes_and_nothing_that_a_link_leads_to() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        for name in ["gone/a/b", "gone/a/c", "gone/z", "stays/inside"] {
            fs::create_dir_all(at(name)).unwrap();
            fs::write(at(name).join("file"), "").unwrap();
        }
        symlink(at("stays"), at("gone/a/link")).unwrap();
        let top = OwnedFd::from(fs::File::open(directory.path()).unwrap());
        for _ in 0..2 {
            remove(&top, c"gone", &at("gone")).unwrap();
        }
        symlink(at("stays"), at("link")).unwrap();
        remove(&top, c"link", &at("link")).unwrap();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        assert!(at("stays/inside/file").exists());
    }
}
