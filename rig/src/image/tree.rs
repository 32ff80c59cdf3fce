//! A root file system between two tar files: read as an index of another tar, changed, and written so that equal
//! contents give equal bytes. Contents stay in the source file until they are copied; memory holds only the index.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, Result, bail};
use tar::{Archive, EntryType};

/// No file in an image is younger: 2026-01-01. Also given to the tools that run at installation.
pub(super) const SOURCE_DATE_EPOCH: u64 = 1_767_225_600;

/// Prefix of the PAX records that hold extended attributes, such as file capabilities.
const XATTR: &str = "SCHILY.xattr.";

/// Entries by path, without a leading or trailing slash; the root itself is the empty path.
#[derive(Default)]
pub(super) struct Tree {
    pub(super) entries: BTreeMap<Vec<u8>, Entry>,
    source: Option<File>,
}

/// What a path holds.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) kind: Kind,
    pub(super) mode: u32,
    pub(super) uid: u64,
    pub(super) gid: u64,
    pub(super) mtime: u64,
    pub(super) xattrs: BTreeMap<String, Vec<u8>>,
}

/// What an entry is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Directory,
    Symlink(Vec<u8>),
    Char(u32, u32),
    Block(u32, u32),
    Fifo,
    /// A file whose content lies in the source; files with the same offset are hard links of each other.
    Stored {
        offset: u64,
        size: u64,
    },
    /// A file given by a recipe.
    Given(Vec<u8>),
}

impl Entry {
    fn new(kind: Kind, mode: u32) -> Self {
        Self { kind, mode, uid: 0, gid: 0, mtime: SOURCE_DATE_EPOCH, xattrs: BTreeMap::new() }
    }
}

impl Tree {
    /// Indexes the tar at `path`.
    pub(super) fn index(path: &Path) -> Result<Self> {
        let open = || File::open(path).with_context(|| format!("cannot read {}", path.display()));
        let mut entries: BTreeMap<Vec<u8>, Entry> = BTreeMap::new();
        let mut archive = Archive::new(open()?);
        for item in archive.entries_with_seek()? {
            let mut item = item.with_context(|| format!("{} is not a whole tar", path.display()))?;
            let name = normal(&item.path_bytes());
            let told = || String::from_utf8_lossy(&name).into_owned();
            let link = item.link_name_bytes().map(|link| link.into_owned());
            let xattrs =
                xattrs_of(&mut item).with_context(|| format!("extended attributes of {}", told()))?;
            let header = item.header();
            let device = || -> Result<(u32, u32)> {
                Ok((header.device_major()?.unwrap_or(0), header.device_minor()?.unwrap_or(0)))
            };
            let kind = match header.entry_type() {
                EntryType::Directory => Kind::Directory,
                EntryType::Symlink => Kind::Symlink(link.context("a symbolic link without a target")?),
                EntryType::Char => device().map(|(major, minor)| Kind::Char(major, minor))?,
                EntryType::Block => device().map(|(major, minor)| Kind::Block(major, minor))?,
                EntryType::Fifo => Kind::Fifo,
                EntryType::Regular | EntryType::Continuous => {
                    Kind::Stored { offset: item.raw_file_position(), size: item.size() }
                }
                EntryType::Link => {
                    // A tar has the target before its links, so the link can share what is known of it.
                    let target = normal(&link.context("a hard link without a target")?);
                    let target =
                        entries.get(&target).with_context(|| format!("{} links to nothing", told()))?;
                    let target = target.clone();
                    entries.insert(name, target);
                    continue;
                }
                other => bail!("{} has the tar entry type {other:?}, which images do not have", told()),
            };
            let (mode, uid, gid, mtime) = (header.mode()?, header.uid()?, header.gid()?, header.mtime()?);
            entries.insert(name, Entry { kind, mode: mode & 0o7777, uid, gid, mtime, xattrs });
        }
        Ok(Self { entries, source: Some(open()?) })
    }

    /// Keeps only the entries that `keep` says.
    pub(super) fn retain(&mut self, keep: impl Fn(&[u8], &Kind) -> bool) {
        self.entries.retain(|path, entry| keep(path, &entry.kind));
    }

    /// The text of a file, if there is one at `path`.
    pub(super) fn read(&self, path: &str) -> Result<Option<String>> {
        let bytes = match self.entries.get(&normal(path.as_bytes())).map(|entry| &entry.kind) {
            Some(Kind::Given(bytes)) => bytes.clone(),
            Some(Kind::Stored { offset, size }) => {
                let mut bytes = Vec::new();
                self.stored(*offset, *size)?.read_to_end(&mut bytes)?;
                bytes
            }
            _ => return Ok(None),
        };
        Ok(Some(String::from_utf8(bytes).with_context(|| format!("{path} in the image is not UTF-8"))?))
    }

    /// Takes an entry out.
    pub(super) fn remove(&mut self, path: &str) {
        self.entries.remove(&normal(path.as_bytes()));
    }

    /// Gives a file that is there another content; owner and mode stay.
    pub(super) fn replace_content(&mut self, path: &str, content: String) {
        if let Some(entry) = self.entries.get_mut(&normal(path.as_bytes())) {
            entry.kind = Kind::Given(content.into_bytes());
        }
    }

    /// Adds a file of root's, in place of what was there.
    pub(super) fn add_file(&mut self, path: &str, mode: u32, content: Vec<u8>) -> Result<()> {
        self.add(path, Entry::new(Kind::Given(content), mode))
    }

    /// Adds a file of root's whose content is copied from the file at `from` when the tree is written.
    pub(super) fn of_one_file(path: &str, mode: u32, from: &Path) -> Result<Self> {
        let source = File::open(from).with_context(|| format!("cannot read {}", from.display()))?;
        let size = source.metadata()?.len();
        let mut tree = Self { entries: BTreeMap::new(), source: Some(source) };
        tree.add(path, Entry::new(Kind::Stored { offset: 0, size }, mode))?;
        Ok(tree)
    }

    /// Adds a symbolic link, in place of what was there.
    pub(super) fn add_link(&mut self, path: &str, target: &str) -> Result<()> {
        self.add(path, Entry::new(Kind::Symlink(target.as_bytes().to_vec()), 0o777))
    }

    /// The content of a [`Kind::Stored`] file.
    pub(super) fn stored(&self, offset: u64, size: u64) -> Result<Stored<'_>> {
        Ok(Stored { source: self.source.as_ref().context("the tree has no source")?, at: offset, left: size })
    }

    fn add(&mut self, path: &str, entry: Entry) -> Result<()> {
        let name = normal(path.as_bytes());
        let slashes = name.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        for end in slashes {
            let parent = self
                .entries
                .entry(name[..end].to_vec())
                .or_insert_with(|| Entry::new(Kind::Directory, 0o755));
            if parent.kind != Kind::Directory {
                let parent = String::from_utf8_lossy(&name[..end]);
                bail!("{path}: /{parent} is not a directory in the image; give the path behind the link");
            }
        }
        if self.entries.get(&name).is_some_and(|old| old.kind == Kind::Directory) {
            bail!("{path} is a directory in the image");
        }
        self.entries.insert(name, entry);
        Ok(())
    }
}

/// Reads just so many bytes, and fails where the source ends before: a short file would shift all that follows in a tar.
pub(super) struct Stored<'a> {
    source: &'a File,
    at: u64,
    left: u64,
}

impl Read for Stored<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let wanted = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let n = self.source.read_at(&mut buffer[..wanted], self.at)?;
        if n == 0 && wanted > 0 {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the source became shorter while it was read",
            ));
        }
        self.at += n as u64;
        self.left -= n as u64;
        Ok(n)
    }
}

fn xattrs_of<R: Read>(item: &mut tar::Entry<'_, R>) -> Result<BTreeMap<String, Vec<u8>>> {
    let mut xattrs = BTreeMap::new();
    for record in item.pax_extensions()?.into_iter().flatten() {
        let record = record?;
        if let Ok(key) = record.key()
            && key.starts_with(XATTR)
        {
            xattrs.insert(key.to_owned(), record.value_bytes().to_vec());
        }
    }
    Ok(xattrs)
}

/// `./usr/bin/` as `usr/bin`.
fn normal(path: &[u8]) -> Vec<u8> {
    let names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty() && *name != b".");
    names.collect::<Vec<_>>().join(&b'/')
}
