//! Paths inside the jail, as a process that has it as its root would see them: no link leads out of it, whoever planted it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

/// Links that are followed in one path, as in the kernel.
const MAX_LINKS: usize = 40;
/// A lookup is tried again when somebody renames something meanwhile.
const TRIES: usize = 64;
/// The mode of a directory that is only a place.
const PLAIN: u32 = 0o755;

/// A directory that is a root for others.
#[derive(Debug)]
pub struct Root {
    fd: OwnedFd,
    path: PathBuf,
}

/// What is made where nothing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A directory.
    Directory,
    /// An empty file.
    File,
}

impl Root {
    /// Opens the directory.
    ///
    /// # Errors
    ///
    /// It is not there.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self { fd: rustix::fs::open(path, flags, Mode::empty())?, path: path.to_owned() })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where a path inside is for us, to be said.
    pub fn shown(&self, inside: impl AsRef<Path>) -> PathBuf {
        self.path.join(relative(inside.as_ref()))
    }

    fn look_up(&self, inside: &Path, flags: OFlags, more: ResolveFlags) -> Result<OwnedFd, Errno> {
        let inside = relative(inside);
        let inside = if inside.as_os_str().is_empty() { Path::new(".") } else { inside };
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS | more;
        let mut tries = 0;
        loop {
            match rustix::fs::openat2(&self.fd, inside, flags | OFlags::CLOEXEC, Mode::empty(), resolve) {
                Err(Errno::AGAIN) if tries < TRIES => tries += 1,
                outcome => return outcome,
            }
        }
    }

    /// What is there, without opening it.
    ///
    /// # Errors
    ///
    /// Nothing is there.
    pub fn find(&self, inside: impl AsRef<Path>) -> io::Result<OwnedFd> {
        Ok(self.look_up(inside.as_ref(), OFlags::PATH, ResolveFlags::empty())?)
    }

    /// What is there if no part of the path is a link.
    ///
    /// # Errors
    ///
    /// Nothing is there, or by a link only.
    pub fn find_without_links(&self, inside: impl AsRef<Path>) -> io::Result<OwnedFd> {
        Ok(self.look_up(inside.as_ref(), OFlags::PATH, ResolveFlags::NO_SYMLINKS)?)
    }

    /// Facts about what is there.
    ///
    /// # Errors
    ///
    /// Nothing is there.
    pub fn stat(&self, inside: impl AsRef<Path>) -> io::Result<Stat> {
        Ok(rustix::fs::fstat(self.find(inside)?)?)
    }

    /// Whether a file with something in it is there.
    pub fn has_file(&self, inside: impl AsRef<Path>) -> bool {
        let is_filled =
            |stat: &Stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && stat.st_size > 0;
        self.stat(inside).is_ok_and(|stat| is_filled(&stat))
    }

    /// The names in a directory, sorted.
    pub fn names(&self, inside: impl AsRef<Path>) -> Vec<OsString> {
        let opened = self.look_up(inside.as_ref(), OFlags::RDONLY | OFlags::DIRECTORY, ResolveFlags::empty());
        let Ok(directory) = opened.and_then(rustix::fs::Dir::new) else { return Vec::new() };
        let name = |item: rustix::fs::DirEntry| OsString::from_vec(item.file_name().to_bytes().to_vec());
        let mut names: Vec<OsString> = directory.flatten().map(name).collect();
        names.retain(|name| name != "." && name != "..");
        names.sort();
        names
    }

    /// The content of a file, if it is one and not longer than this.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub fn read(&self, inside: impl AsRef<Path>, longest: u64) -> io::Result<Vec<u8>> {
        // Not blocking: a pipe in its place has no one at its other end.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = File::from(self.look_up(inside.as_ref(), flags, ResolveFlags::empty())?);
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is not a file"));
        }
        let mut content = Vec::new();
        file.take(longest + 1).read_to_end(&mut content)?;
        if content.len() as u64 > longest {
            return Err(io::Error::other(format!("it is longer than {longest} bytes")));
        }
        Ok(content)
    }

    /// What is there, made if nothing is.
    ///
    /// # Errors
    ///
    /// It cannot be made, or something of another kind is there.
    pub fn make(&self, inside: impl AsRef<Path>, kind: Kind, mode: u32) -> io::Result<OwnedFd> {
        let mut pending = parts(inside.as_ref());
        let (mut current, mut links) = (PathBuf::new(), 0);
        while let Some(part) = pending.pop() {
            if part == ".." {
                current.pop();
                continue;
            }
            let next = current.join(&part);
            let wants_mode = pending.is_empty() && kind == Kind::Directory && mode != PLAIN;
            match self.look_up(&next, OFlags::PATH, ResolveFlags::empty()) {
                Ok(_) => {
                    if wants_mode {
                        // Whoever made it may have ended before it had its mode. What lies elsewhere is not ours, and what
                        // cannot be changed may do as it is.
                        let parent =
                            self.look_up(&current, OFlags::PATH | OFlags::DIRECTORY, ResolveFlags::empty())?;
                        let _ = set_mode(&parent, &part, mode);
                    }
                    current = next;
                    continue;
                }
                Err(Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
            let parent = self.look_up(&current, OFlags::PATH | OFlags::DIRECTORY, ResolveFlags::empty())?;
            if let Ok(target) = rustix::fs::readlinkat(&parent, &part, Vec::new()) {
                // A link to what is not there yet.
                links += 1;
                if links > MAX_LINKS {
                    return Err(Errno::LOOP.into());
                }
                let target = Path::new(OsStr::from_bytes(target.as_bytes()));
                if target.is_absolute() {
                    current = PathBuf::new();
                }
                pending.extend(parts(target));
                continue;
            }
            let is_last = pending.is_empty();
            let made = match kind {
                Kind::File if is_last => {
                    let flags =
                        OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                    rustix::fs::openat(&parent, &part, flags, Mode::from_raw_mode(mode)).map(drop)
                }
                _ => rustix::fs::mkdirat(&parent, &part, Mode::from_raw_mode(PLAIN)),
            };
            match made {
                Ok(()) | Err(Errno::EXIST) if wants_mode => set_mode(&parent, &part, mode)?,
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            current = next;
        }
        let fd = self.find(&current)?;
        let is_directory = FileType::from_raw_mode(rustix::fs::fstat(&fd)?.st_mode) == FileType::Directory;
        match (kind, is_directory) {
            (Kind::Directory, false) => Err(io::Error::other("a file is where a directory should be")),
            (Kind::File, true) => Err(io::Error::other("a directory is where a file should be")),
            _ => Ok(fd),
        }
    }
}

/// Gives a directory its mode, whatever this process keeps from new files. No link is followed, and no other volume changed.
fn set_mode(parent: &OwnedFd, name: &OsStr, mode: u32) -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    let directory = rustix::fs::openat2(parent, name, flags, Mode::empty(), resolve)?;
    if rustix::fs::fstat(&directory)?.st_mode & 0o7777 != mode {
        rustix::fs::fchmod(directory, Mode::from_raw_mode(mode))?;
    }
    Ok(())
}

/// A name for what is open, for calls that take only names. It leads nowhere else, whatever is renamed meanwhile.
pub fn name_of(fd: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

/// Without the slash at its beginning.
fn relative(path: &Path) -> &Path {
    path.strip_prefix("/").unwrap_or(path)
}

/// The parts of a path, the last one first.
fn parts(path: &Path) -> Vec<OsString> {
    let part = |component: Component<'_>| match component {
        Component::Normal(part) => Some(part.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    };
    path.components().rev().filter_map(part).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    struct World {
        directory: tempfile::TempDir,
    }

    impl World {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            for name in ["jail/etc", "etc"] {
                fs::create_dir_all(directory.path().join(name)).unwrap();
            }
            fs::write(directory.path().join("etc/secret"), "outside").unwrap();
            Self { directory }
        }

        fn jail(&self, name: &str) -> PathBuf {
            self.directory.path().join("jail").join(name)
        }

        fn root(&self) -> Root {
            Root::open(&self.jail("")).unwrap()
        }
    }

    #[test]
    fn links_lead_to_places_inside_only() {
        let world = World::new();
        fs::write(world.jail("etc/secret"), "inside").unwrap();
        symlink("/etc/secret", world.jail("absolute")).unwrap();
        symlink("../../../../../etc/secret", world.jail("etc/up")).unwrap();
        for name in ["absolute", "etc/up", "/etc/secret", "../../etc/secret"] {
            assert_eq!(world.root().read(name, 100).unwrap(), b"inside", "{name}");
        }
        fs::remove_file(world.jail("etc/secret")).unwrap();
        assert!(world.root().read("absolute", 100).is_err(), "the one outside is not seen");
        symlink("/proc/self/root/etc", world.jail("magic")).unwrap();
        assert!(world.root().find("magic/passwd").is_err());
    }

    #[test]
    fn what_is_no_file_or_too_long_is_not_read() {
        let world = World::new();
        fs::write(world.jail("long"), "12345").unwrap();
        assert!(world.root().read("long", 4).unwrap_err().to_string().contains("longer"));
        assert_eq!(world.root().read("long", 5).unwrap(), b"12345");
        assert!(world.root().read("etc", 4).is_err());
        let kind = FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, world.jail("pipe"), kind, Mode::RUSR, 0).unwrap();
        assert!(world.root().read("pipe", 4).is_err(), "and it does not wait for a writer");
    }

    #[test]
    fn places_are_made_inside_also_where_a_link_leads_nowhere() {
        let world = World::new();
        world.root().make("a/b/c", Kind::Directory, 0o1777).unwrap();
        let mode = std::os::unix::fs::MetadataExt::mode(&fs::metadata(world.jail("a/b/c")).unwrap());
        assert_eq!(mode & 0o7777, 0o1777);
        world.root().make("a/b/file", Kind::File, 0o644).unwrap();
        assert_eq!(fs::read(world.jail("a/b/file")).unwrap(), b"");
        // As the resolv.conf of many distributions.
        symlink("../run/resolve/stub.conf", world.jail("etc/resolv.conf")).unwrap();
        world.root().make("etc/resolv.conf", Kind::File, 0o644).unwrap();
        assert!(world.jail("run/resolve/stub.conf").is_file());
        symlink("/etc/nothing/here", world.jail("planted")).unwrap();
        world.root().make("planted", Kind::File, 0o644).unwrap();
        assert!(world.jail("etc/nothing/here").is_file());
        assert!(!world.directory.path().join("etc/nothing").exists(), "nothing is made outside");
        assert!(world.root().make("a/b/file", Kind::Directory, 0o755).is_err());
        assert!(world.root().make("a/b", Kind::File, 0o644).is_err());
        symlink("loop", world.jail("loop")).unwrap();
        assert!(world.root().make("loop", Kind::File, 0o644).is_err());
    }

    #[test]
    fn a_directory_that_was_left_without_its_mode_gets_it() {
        use std::os::unix::fs::PermissionsExt as _;

        let world = World::new();
        let mode = |name: &str| fs::metadata(world.jail(name)).unwrap().permissions().mode() & 0o7777;
        for name in ["outputs", "elsewhere", "private"] {
            fs::create_dir(world.jail(name)).unwrap();
            fs::set_permissions(world.jail(name), fs::Permissions::from_mode(0o700)).unwrap();
        }
        world.root().make("outputs", Kind::Directory, 0o1777).unwrap();
        assert_eq!(mode("outputs"), 0o1777);
        symlink("elsewhere", world.jail("link")).unwrap();
        world.root().make("link", Kind::Directory, 0o1777).unwrap();
        assert_eq!(mode("elsewhere"), 0o700, "a link leads to what is not ours");
        world.root().make("private", Kind::Directory, 0o755).unwrap();
        world.root().make("private/inside", Kind::Directory, 0o777).unwrap();
        assert_eq!((mode("private"), mode("private/inside")), (0o700, 0o777), "places to mount over stay");
    }

    #[test]
    fn an_empty_file_is_a_place_to_mount_over_and_no_program() {
        let world = World::new();
        fs::write(world.jail("empty"), "").unwrap();
        fs::write(world.jail("full"), "x").unwrap();
        assert!(world.root().has_file("full") && !world.root().has_file("empty"));
        assert!(!world.root().has_file("etc") && !world.root().has_file("missing"));
        assert_eq!(world.root().names(""), ["empty", "etc", "full"]);
    }
}
