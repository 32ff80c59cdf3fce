//! The original's populate image: its content is an archive of restic instead of the container's own files.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use super::failure::Failure;
use crate::programs;

/// Where that image has the archive.
const ARCHIVE: &str = "/jail_restic";

/// restic and its archive.
pub struct Restic {
    program: PathBuf,
}

impl Restic {
    /// If this image has both.
    pub fn find() -> Option<Self> {
        let program = programs::find("restic")?;
        Path::new(ARCHIVE).join("config").exists().then_some(Self { program })
    }

    /// What the jail is filled from.
    pub fn name(&self) -> &'static str {
        ARCHIVE
    }

    /// Restores the newest snapshot. What restic has written whole it does not write again.
    pub fn restore(&self, jail: &Path, replace: bool) -> Result<(), Failure> {
        let mut command = std::process::Command::new(&self.program);
        command.args(["--repo", ARCHIVE, "--insecure-no-password", "--no-cache", "restore", "latest"]);
        command.arg("--target").arg(jail).stdin(Stdio::null());
        if replace {
            command.args(["--overwrite", "always", "--delete", "--exclude", "/.soperator-jail.*"]);
        }
        match command.status() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(Failure::Again(format!(
                "restic could not restore {ARCHIVE} to {} ({status}): its own words are above",
                jail.display()
            ))),
            Err(error) => Err(Failure::Again(format!("cannot run {}: {error}", self.program.display()))),
        }
    }
}
