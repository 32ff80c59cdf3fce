//! What the jail is filled from: the snapshot, the archive of the original's image, or this container itself.

use std::path::Path;

use slurm::agent::path;

use super::failure::Failure;
use super::restic::Restic;
use super::source::Source;
use crate::mountinfo;

/// What the jail is filled from.
pub enum From {
    /// All of a directory.
    Directory(Source),
    /// An archive.
    Restic(Restic),
}

impl From {
    /// What this container has.
    ///
    /// # Errors
    ///
    /// A snapshot is mounted that is none of a jail.
    pub fn find() -> Result<Self, Failure> {
        let snapshot = Path::new(path::JAIL_SNAPSHOT);
        if let Some(source) = Self::snapshot(snapshot, mountinfo::is_mount_point(snapshot))? {
            return Ok(source);
        }
        Ok(match Restic::find() {
            Some(restic) => From::Restic(restic),
            None => From::Directory(Source::new(Path::new("/"))),
        })
    }

    /// The snapshot, if there is one. Nothing else is taken in the place of one that was asked for.
    pub fn snapshot(snapshot: &Path, is_mounted: bool) -> Result<Option<Self>, Failure> {
        if ["etc", "usr"].iter().any(|directory| snapshot.join(directory).is_dir()) {
            return Ok(Some(From::Directory(Source::new(snapshot))));
        }
        if is_mounted {
            return Err(Failure::Person(format!(
                "the snapshot at {} holds no jail: it has neither etc nor usr. Name another volume in \
                 populateJail.jailSnapshotVolume, or none to have the image's own files; then delete this Job",
                snapshot.display()
            )));
        }
        Ok(None)
    }
}
