//! Mounted files: read as a set, copied with the owner and mode that a daemon wants, and looked at for changes.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

use slurm::agent::set_hash;
use slurm::config_set::name_of_key;

use crate::lookup::User;

/// The link by which the kubelet replaces all files of a mount at once.
const DATA_LINK: &str = "..data";
/// No set of configuration files is larger: a ConfigMap holds 1 MiB.
const MAX_FILE: u64 = 8 << 20;

/// A set of files, by name below their directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileSet {
    /// The files.
    pub files: BTreeMap<String, Vec<u8>>,
}

impl FileSet {
    /// Reads a mounted directory, all files of one moment.
    ///
    /// # Errors
    ///
    /// A file cannot be read.
    pub fn read(directory: &Path) -> io::Result<Self> {
        loop {
            let link = directory.join(DATA_LINK);
            let before = fs::read_link(&link).ok();
            let from = before.as_ref().map_or_else(|| directory.to_owned(), |target| directory.join(target));
            let mut set = Self::default();
            let outcome = set.add(&from, "");
            // Replaced meanwhile: what was read may be gone or mixed.
            if fs::read_link(&link).ok() == before {
                return outcome.map(|()| set);
            }
        }
    }

    fn add(&mut self, directory: &Path, prefix: &str) -> io::Result<()> {
        for item in fs::read_dir(directory)? {
            let item = item?;
            let Ok(name) = item.file_name().into_string() else { continue };
            if name.starts_with("..") {
                continue;
            }
            let (path, name) = (item.path(), format!("{prefix}{name}"));
            let meta = fs::metadata(&path)?;
            if meta.is_dir() {
                self.add(&path, &format!("{name}/"))?;
            } else if meta.is_file() && meta.len() <= MAX_FILE {
                self.files.insert(name_of_key(&name), fs::read(&path)?);
            }
        }
        Ok(())
    }

    /// The hash of the set.
    pub fn hash(&self) -> String {
        set_hash(self.files.iter().map(|(name, text)| (name.as_str(), text.as_slice())))
    }

    /// The text of a file.
    pub fn text(&self, name: &str) -> Option<String> {
        self.files.get(name).map(|text| String::from_utf8_lossy(text).into_owned())
    }

    /// Writes the files into a new directory.
    ///
    /// # Errors
    ///
    /// The directory cannot be written.
    pub fn write(&self, directory: &Path) -> io::Result<()> {
        make_directory(directory)?;
        for (name, text) in &self.files {
            let path = directory.join(name);
            if let Some(parent) = path.parent() {
                make_directory(parent)?;
            }
            fs::write(&path, text)?;
            // All daemons and clients read it, under whatever user.
            fs::set_permissions(&path, Permissions::from_mode(0o644))?;
        }
        Ok(())
    }
}

/// Makes a directory that everybody may enter.
///
/// # Errors
///
/// It cannot be made.
pub fn make_directory(directory: &Path) -> io::Result<()> {
    if !directory.is_dir() {
        fs::create_dir_all(directory)?;
        fs::set_permissions(directory, Permissions::from_mode(0o755))?;
    }
    Ok(())
}

/// Takes rights to a directory away from others: exactly this mode is left.
///
/// # Errors
///
/// The mode cannot be changed.
pub fn restrict(directory: &Path, mode: u32) -> io::Result<()> {
    if fs::metadata(directory)?.mode() & 0o7777 == mode {
        return Ok(());
    }
    fs::set_permissions(directory, Permissions::from_mode(mode))
}

/// Writes a file in one step: with its owner and mode from the first moment, and never half.
///
/// # Errors
///
/// It cannot be written, named with its path.
pub fn write(path: &Path, content: &[u8], owner: User, mode: u32) -> Result<(), String> {
    let temporary = temporary(path);
    let written = (|| {
        if let Some(parent) = path.parent() {
            make_directory(parent)?;
        }
        let _ = fs::remove_file(&temporary);
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&temporary)?;
        file.write_all(content)?;
        fs::set_permissions(&temporary, Permissions::from_mode(mode))?;
        give(&temporary, owner)?;
        match fs::rename(&temporary, path) {
            // A file that is mounted by itself cannot be replaced.
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                fs::remove_file(&temporary)?;
                fs::write(path, content)
            }
            renamed => renamed,
        }
    })();
    written.map_err(|error: io::Error| format!("cannot write {}: {error}", path.display()))
}

fn temporary(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    path.with_file_name(name)
}

/// Gives a file to a user, if it is not theirs.
///
/// # Errors
///
/// The owner cannot be changed.
pub fn give(path: &Path, owner: User) -> io::Result<()> {
    let meta = fs::symlink_metadata(path)?;
    if (meta.uid(), meta.gid()) == (owner.uid, owner.gid) {
        return Ok(());
    }
    chown(path, Some(owner.uid), Some(owner.gid))
}

/// Gives a directory and all that is in it to a user, if the directory is not theirs.
///
/// # Errors
///
/// An owner cannot be changed.
pub fn give_tree(directory: &Path, owner: User) -> io::Result<()> {
    if fs::metadata(directory)?.uid() == owner.uid {
        return Ok(());
    }
    for item in fs::read_dir(directory)? {
        let item = item?;
        if item.file_type()?.is_dir() {
            give_tree(&item.path(), owner)?;
        } else {
            std::os::unix::fs::lchown(item.path(), Some(owner.uid), Some(owner.gid))?;
        }
    }
    // Last: it says that the rest is done.
    give(directory, owner)
}

/// Points a link at a target, in one step.
///
/// # Errors
///
/// The link cannot be made, for example because a directory is in its place.
pub fn link(target: &Path, link: &Path) -> io::Result<()> {
    if fs::read_link(link).is_ok_and(|now| now == target) {
        return Ok(());
    }
    let temporary = temporary(link);
    let _ = fs::remove_file(&temporary);
    std::os::unix::fs::symlink(target, &temporary)?;
    fs::rename(&temporary, link)
}

/// Files whose changes are noticed.
#[derive(Debug, Default)]
pub struct Watched {
    paths: Vec<PathBuf>,
    seen: Option<String>,
}

impl Watched {
    /// Watches files and whole directories. Those that are missing count as empty.
    pub fn new(paths: impl IntoIterator<Item = impl Into<PathBuf>>) -> Self {
        Self { paths: paths.into_iter().map(Into::into).collect(), seen: None }
    }

    /// Whether they changed since the last call. The first call says no.
    pub fn changed(&mut self) -> bool {
        let now = self.hash();
        self.seen.replace(now.clone()).is_some_and(|before| before != now)
    }

    fn hash(&self) -> String {
        let mut all: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        for path in &self.paths {
            let name = path.display().to_string();
            if path.is_dir() {
                let set = FileSet::read(path).unwrap_or_default();
                all.extend(set.files.into_iter().map(|(file, text)| (format!("{name}/{file}"), text)));
            } else {
                all.insert(name, fs::read(path).unwrap_or_default());
            }
        }
        FileSet { files: all }.hash()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A mount as the kubelet makes it.
    fn mount(directory: &Path, version: &str, files: &[(&str, &str)]) {
        let data = directory.join(version);
        for (name, text) in files {
            let path = data.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
            let first = name.split('/').next().unwrap();
            let _ = symlink(format!("{DATA_LINK}/{first}"), directory.join(first));
        }
        link(Path::new(version), &directory.join(DATA_LINK)).unwrap();
    }

    #[test]
    fn a_mounted_set_is_read_whole_and_with_the_names_that_users_gave() {
        let directory = tempfile::tempdir().unwrap();
        mount(directory.path(), "..1", &[("slurm.conf", "a"), ("scripts/prolog", "b")]);
        let set = FileSet::read(directory.path()).unwrap();
        assert_eq!(set.files.keys().collect::<Vec<_>>(), ["scripts/prolog", "slurm.conf"]);
        let hash = set.hash();
        mount(directory.path(), "..2", &[("slurm.conf", "c")]);
        let set = FileSet::read(directory.path()).unwrap();
        assert_eq!(set.text("slurm.conf").as_deref(), Some("c"));
        assert_eq!(set.files.len(), 1, "a name that the new version lacks is gone");
        assert_ne!(set.hash(), hash);

        let copy = directory.path().join("copy");
        set.write(&copy).unwrap();
        assert_eq!(FileSet::read(&copy).unwrap().hash(), set.hash());
    }

    #[test]
    fn a_change_is_noticed_once_and_a_missing_file_is_no_error() {
        let directory = tempfile::tempdir().unwrap();
        let key = directory.path().join("key");
        let mut watched = Watched::new([key.clone(), directory.path().join("missing")]);
        assert!(!watched.changed());
        fs::write(&key, "1").unwrap();
        assert!(watched.changed());
        assert!(!watched.changed());
        fs::write(&key, "2").unwrap();
        assert!(watched.changed());
    }

    #[test]
    fn a_written_file_has_its_mode_and_takes_the_place_of_the_old_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a/key");
        let meta = fs::metadata(directory.path()).unwrap();
        let me = User { uid: meta.uid(), gid: meta.gid() };
        write(&path, b"1", me, 0o644).unwrap();
        write(&path, b"2", me, 0o600).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"2");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing is left beside it");
    }
}
