//! Layers: trees written as tar files so that equal contents give equal bytes, and hashed on the way.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::PathBuf;

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};
use tar::{Builder, EntryType, Header};

use super::tree::{Kind, SOURCE_DATE_EPOCH, Tree};
use crate::cache::{hex, sha256_of_file};

/// How long a tar header's name and link fields are.
const NAME_FIELD: usize = 100;

/// A layer in a file, with its hash in hex and its size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layer {
    pub(super) path: PathBuf,
    pub(super) sha256: String,
    pub(super) size: u64,
}

impl Layer {
    /// The layer that lies in a file.
    pub(super) fn of(path: PathBuf) -> Result<Self> {
        let size = std::fs::metadata(&path).with_context(|| format!("cannot read {}", path.display()))?.len();
        Ok(Self { sha256: sha256_of_file(&path)?, size, path })
    }
}

/// Writes a file and hashes it at the same time.
pub(super) struct LayerWriter {
    path: PathBuf,
    file: BufWriter<File>,
    hash: Sha256,
    size: u64,
}

impl LayerWriter {
    /// Starts a layer at `path`.
    pub(super) fn create(path: PathBuf) -> Result<Self> {
        let file = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self { path, file: BufWriter::with_capacity(1 << 20, file), hash: Sha256::new(), size: 0 })
    }

    /// Ends the layer.
    pub(super) fn finish(mut self) -> Result<Layer> {
        self.file.flush().with_context(|| format!("cannot write {}", self.path.display()))?;
        Ok(Layer { path: self.path, sha256: hex(&self.hash.finalize()), size: self.size })
    }
}

impl Write for LayerWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write_all(bytes)?;
        self.hash.update(bytes);
        self.size += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Tree {
    /// Writes all entries as a tar: sorted, no time after [`SOURCE_DATE_EPOCH`], owners by number only.
    pub(super) fn write(&self, out: impl Write) -> Result<()> {
        let mut tar = Builder::new(out);
        let mut written: HashMap<u64, &[u8]> = HashMap::new();
        // Name by name, so that a directory is followed by all that is below it: tar gives it its time when it leaves it.
        let names = |path: &[u8]| path.split(|byte| *byte == b'/').map(<[u8]>::to_vec).collect::<Vec<_>>();
        let mut sorted: Vec<_> = self.entries.iter().collect();
        sorted.sort_by_cached_key(|(path, _)| names(path));
        for (path, entry) in sorted {
            let mut header = Header::new_ustar();
            header.set_mode(entry.mode);
            header.set_uid(entry.uid);
            header.set_gid(entry.gid);
            header.set_mtime(entry.mtime.min(SOURCE_DATE_EPOCH));
            let mut name = path.clone();
            let mut link: &[u8] = b"";
            let mut content: (u64, Box<dyn Read>) = (0, Box::new(io::empty()));
            let kind = match &entry.kind {
                Kind::Directory => {
                    name.extend_from_slice(if path.is_empty() { b"./" } else { b"/" });
                    EntryType::Directory
                }
                Kind::Symlink(target) => {
                    link = target;
                    EntryType::Symlink
                }
                Kind::Char(major, minor) | Kind::Block(major, minor) => {
                    header.set_device_major(*major)?;
                    header.set_device_minor(*minor)?;
                    if matches!(entry.kind, Kind::Char(..)) { EntryType::Char } else { EntryType::Block }
                }
                Kind::Fifo => EntryType::Fifo,
                Kind::Given(bytes) => {
                    content = (bytes.len() as u64, Box::new(bytes.as_slice()));
                    EntryType::Regular
                }
                Kind::Stored { offset, size } => match written.get(offset) {
                    Some(target) => {
                        link = target;
                        EntryType::Link
                    }
                    None => {
                        written.insert(*offset, path);
                        content = (*size, Box::new(self.stored(*offset, *size)?));
                        EntryType::Regular
                    }
                },
            };
            header.set_entry_type(kind);
            header.set_size(content.0);
            let mut records: BTreeMap<&str, &[u8]> = BTreeMap::new();
            if let Some(ustar) = header.as_ustar_mut() {
                set_name(&mut ustar.name, "path", &name, &mut records);
                set_name(&mut ustar.linkname, "linkpath", link, &mut records);
            }
            if kind != EntryType::Link {
                records.extend(entry.xattrs.iter().map(|(key, value)| (key.as_str(), value.as_slice())));
            }
            header.set_cksum();
            tar.append_pax_extensions(records)?;
            tar.append(&header, content.1)?;
        }
        tar.into_inner()?.flush()?;
        Ok(())
    }
}

/// Puts a name into its header field, and where it does not fit, or is not plain ASCII, into a PAX record too.
fn set_name<'a>(
    field: &mut [u8; NAME_FIELD],
    key: &'static str,
    name: &'a [u8],
    records: &mut BTreeMap<&'a str, &'a [u8]>,
) {
    let fitting = name.len().min(NAME_FIELD);
    field[..fitting].copy_from_slice(&name[..fitting]);
    if fitting < name.len() || !name.is_ascii() {
        records.insert(key, name);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    type Part = (Header, String, &'static [u8], Vec<(&'static str, &'static [u8])>);

    /// A tar as an installation leaves it: unsorted, young, with everything that a root file system can hold.
    fn source(dir: &Path, order: &[usize]) -> std::path::PathBuf {
        let long = format!("./usr/share/{}/file", "long-name/".repeat(15).trim_end_matches('/'));
        let mut parts: Vec<Part> = Vec::new();
        let mut part = |kind: EntryType,
                        name: &str,
                        link: &str,
                        content: &'static [u8],
                        xattrs: &[(&'static str, &'static [u8])]| {
            let mut header = Header::new_gnu();
            header.set_entry_type(kind);
            header.set_mode(if kind == EntryType::Directory { 0o1777 } else { 0o4755 });
            header.set_uid(64030);
            header.set_gid(101);
            header.set_mtime(SOURCE_DATE_EPOCH + 1000);
            header.set_size(content.len() as u64);
            header.set_device_major(1).unwrap();
            header.set_device_minor(3).unwrap();
            header.set_username("somebody").unwrap();
            if !link.is_empty() {
                header.set_link_name(link).unwrap();
            }
            parts.push((header, name.to_owned(), content, xattrs.to_vec()));
        };
        part(EntryType::Directory, "./", "", b"", &[]);
        part(
            EntryType::Regular,
            "./usr/bin/perl",
            "",
            b"perl program",
            &[("SCHILY.xattr.security.capability", CAPABILITY)],
        );
        // GNU tar sorts each directory by itself, so a link can sort before its target.
        part(EntryType::Link, "./usr/bin/a-link", "./usr/bin/perl", b"", &[]);
        part(EntryType::Symlink, "./usr/bin/sh", "dash", b"", &[]);
        part(EntryType::Char, "./dev/null", "", b"", &[]);
        part(EntryType::Fifo, "./run/pipe", "", b"", &[]);
        part(EntryType::Regular, &long, "", b"far away", &[]);
        part(EntryType::Regular, "./etc/F\u{151}", "", b"not ASCII", &[]);
        let file = dir.join("source.tar");
        let mut tar = Builder::new(File::create(&file).unwrap());
        for at in order {
            let (header, name, content, xattrs) = &parts[*at];
            tar.append_pax_extensions(xattrs.clone()).unwrap();
            tar.append_data(&mut header.clone(), name, *content).unwrap();
        }
        tar.into_inner().unwrap();
        file
    }

    const CAPABILITY: &[u8] = b"\x01\0\0\x02\0 \0\0";
    const ORDER: [usize; 8] = [0, 1, 2, 3, 4, 5, 6, 7];

    fn written(tree: &Tree) -> Vec<u8> {
        let mut bytes = Vec::new();
        tree.write(&mut bytes).unwrap();
        bytes
    }

    /// `tar tv`, with the system's tar: what another program makes of the bytes.
    fn listed(bytes: &[u8]) -> Vec<String> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("layer.tar");
        std::fs::write(&file, bytes).unwrap();
        let mut command = std::process::Command::new("tar");
        command
            .args(["--numeric-owner", "--xattrs", "--xattrs-include=*", "--utc", "-tvvf"])
            .arg(&file)
            .env("LC_ALL", "C.UTF-8");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    }

    #[test]
    fn everything_survives_and_is_sorted_and_clamped() {
        let dir = tempfile::tempdir().unwrap();
        let tree = Tree::index(&source(dir.path(), &ORDER)).unwrap();
        let long = format!("usr/share/{}/file", "long-name/".repeat(15).trim_end_matches('/'));
        assert_eq!(
            listed(&written(&tree)),
            [
                "drwxrwxrwt 64030/101 0 2026-01-01 00:00 ./",
                "crwsr-xr-x 64030/101 1,3 2026-01-01 00:00 dev/null",
                "-rwsr-xr-x 64030/101 9 2026-01-01 00:00 etc/F\u{151}",
                "prwsr-xr-x 64030/101 0 2026-01-01 00:00 run/pipe",
                "-rwsr-xr-x* 64030/101 12 2026-01-01 00:00 usr/bin/a-link",
                "hrwsr-xr-x 64030/101 0 2026-01-01 00:00 usr/bin/perl link to usr/bin/a-link",
                "lrwsr-xr-x 64030/101 0 2026-01-01 00:00 usr/bin/sh -> dash",
                &format!("-rwsr-xr-x 64030/101 8 2026-01-01 00:00 {long}"),
            ]
        );
    }

    #[test]
    fn file_capabilities_survive_with_their_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let tree = Tree::index(&source(dir.path(), &ORDER)).unwrap();
        let again = dir.path().join("layer.tar");
        std::fs::write(&again, written(&tree)).unwrap();
        let again = Tree::index(&again).unwrap();
        let with: Vec<_> = again.entries.iter().filter(|(_, entry)| !entry.xattrs.is_empty()).collect();
        assert_eq!(with.len(), 2, "the file and its hard link");
        assert_eq!(with[0].1.xattrs["SCHILY.xattr.security.capability"], CAPABILITY);
    }

    #[test]
    fn the_order_of_the_source_does_not_matter() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let one = Tree::index(&source(one.path(), &ORDER)).unwrap();
        let two = Tree::index(&source(two.path(), &[7, 6, 5, 4, 3, 1, 2, 0])).unwrap();
        assert_eq!(written(&one), written(&two));
    }

    #[test]
    fn a_link_keeps_the_content_when_its_target_goes() {
        let dir = tempfile::tempdir().unwrap();
        let mut tree = Tree::index(&source(dir.path(), &ORDER)).unwrap();
        tree.remove("/usr/bin/perl");
        assert_eq!(tree.read("/usr/bin/a-link").unwrap().as_deref(), Some("perl program"));
        let bytes = written(&tree);
        assert!(listed(&bytes).iter().any(|line| line.starts_with("-rwsr-xr-x* 64030/101 12 ")));
    }

    #[test]
    fn given_files_replace_and_get_their_directories() {
        let mut tree = Tree::default();
        tree.add_link("/bin", "usr/bin").unwrap();
        tree.add_file("/etc/a-base", 0o600, b"".to_vec()).unwrap();
        tree.add_file("/etc/a/b", 0o600, b"one".to_vec()).unwrap();
        tree.add_file("/etc/a/b", 0o644, b"two".to_vec()).unwrap();
        assert_eq!(
            listed(&written(&tree)),
            [
                "lrwxrwxrwx 0/0 0 2026-01-01 00:00 bin -> usr/bin",
                "drwxr-xr-x 0/0 0 2026-01-01 00:00 etc/",
                "drwxr-xr-x 0/0 0 2026-01-01 00:00 etc/a/",
                "-rw-r--r-- 0/0 3 2026-01-01 00:00 etc/a/b",
                "-rw------- 0/0 0 2026-01-01 00:00 etc/a-base",
            ]
        );
        let error = tree.add_file("/bin/sh", 0o755, Vec::new()).unwrap_err().to_string();
        assert!(error.contains("/bin is not a directory"), "{error}");
    }

    #[test]
    fn a_source_that_shrinks_is_an_error_and_no_broken_tar() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("program");
        std::fs::write(&file, "12345").unwrap();
        let tree = Tree::of_one_file("/usr/bin/program", 0o755, &file).unwrap();
        std::fs::write(&file, "123").unwrap();
        assert!(tree.write(Vec::new()).unwrap_err().to_string().contains("shorter"));
    }
}
