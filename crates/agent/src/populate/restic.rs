//! The original's populate image: its content is an archive of restic instead of the container's own files.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::io::Errno;
use sha2::{Digest as _, Sha256};

use super::failure::{Failure, of_file};
use crate::programs;

/// Where that image has the archive.
const ARCHIVE: &str = "/jail_restic";
/// The kernel's words as restic says them, for what only a person can help with.
const HOPELESS: [(&str, Errno); 3] = [
    ("no space left on device", Errno::NOSPC),
    ("disk quota exceeded", Errno::DQUOT),
    ("read-only file system", Errno::ROFS),
];

/// restic and its archive.
#[derive(Clone, Debug)]
pub struct Restic {
    program: PathBuf,
    archive: PathBuf,
}

impl Restic {
    /// If this image has both.
    pub fn find() -> Option<Self> {
        Self::of(programs::find("restic")?, Path::new(ARCHIVE))
    }

    /// A program with this archive, if it is one.
    pub fn of(program: PathBuf, archive: &Path) -> Option<Self> {
        archive.join("config").exists().then(|| Self { program, archive: archive.to_owned() })
    }

    /// What the jail is filled from: the archive, with a hash of its snapshots' names, which are hashes of what they hold.
    pub fn name(&self) -> String {
        let items = std::fs::read_dir(self.archive.join("snapshots")).into_iter().flatten().flatten();
        let mut names: Vec<_> = items.map(|item| item.file_name().into_encoded_bytes()).collect();
        names.sort();
        let mut hasher = Sha256::new();
        for name in names {
            hasher.update(name);
            hasher.update([0]);
        }
        let mut text = format!("{}@", self.archive.display());
        for byte in hasher.finalize().iter().take(8) {
            let _ = write!(text, "{byte:02x}");
        }
        text
    }

    /// Restores the newest snapshot and reads it again. What restic has written whole it does not write again.
    pub fn restore(&self, jail: &Path, replace: bool) -> Result<(), Failure> {
        let mut command = Command::new(&self.program);
        command.arg("--repo").arg(&self.archive);
        command.args(["--insecure-no-password", "--no-cache", "restore", "latest", "--verify", "--target"]);
        command.arg(jail).stdin(Stdio::null()).stderr(Stdio::piped());
        if replace {
            command.args(["--overwrite", "always", "--delete"]);
            command.args(["--exclude", "/.soperator-jail.*", "--exclude", "/lost+found"]);
        }
        let failed =
            |error: std::io::Error| Failure::Again(format!("cannot run {}: {error}", self.program.display()));
        let mut child = command.spawn().map_err(failed)?;
        let hopeless = child.stderr.take().and_then(pass_on);
        let status = child.wait().map_err(failed)?;
        match hopeless {
            _ if status.success() => Ok(()),
            Some(error) => Err(of_file("restore to", jail, error)),
            None => Err(Failure::Again(format!(
                "restic could not restore {} to {} ({status}): its own words are above",
                self.archive.display(),
                jail.display()
            ))),
        }
    }
}

/// Says what restic says; returns what of it only a person can help with.
fn pass_on(words: impl std::io::Read) -> Option<Errno> {
    let mut hopeless = None;
    for line in BufReader::new(words).split(b'\n').map_while(Result::ok) {
        let mut own = std::io::stderr().lock();
        let _ = own.write_all(&line).and_then(|()| own.write_all(b"\n"));
        let line = String::from_utf8_lossy(&line).to_lowercase();
        let known = HOPELESS.iter().find(|(words, _)| line.contains(words));
        hopeless = hopeless.or(known.map(|(_, error)| *error));
    }
    hopeless
}
