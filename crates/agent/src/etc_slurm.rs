//! `/etc/slurm`, where clients look for slurm.conf: it shows a set, so that `kubectl exec ... scontrol` works.

use std::fs;
use std::io;
use std::path::Path;

use crate::files::{FileSet, link};

/// Where most builds of Slurm look.
pub const ETC_SLURM: &str = "/etc/slurm";

/// Shows the files of a directory at `place`. The directory's own name may be a link that changes later.
///
/// # Errors
///
/// The place can neither be replaced nor written to.
pub fn show(directory: &Path, place: &Path) -> Result<(), String> {
    replace(directory, place)
        .or_else(|_| link_each(directory, place))
        .map_err(|error| format!("cannot show {} at {}: {error}", directory.display(), place.display()))
}

/// One link in place of the image's directory.
fn replace(directory: &Path, place: &Path) -> io::Result<()> {
    if fs::symlink_metadata(place).is_ok_and(|meta| meta.is_dir()) {
        // What is mounted there, or below, must stay: this fails at the first such thing.
        if is_mounted(place) {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        fs::remove_dir_all(place)?;
    }
    link(directory, place)
}

fn is_mounted(place: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    mounts.lines().filter_map(|line| line.split(' ').nth(4)).any(|at| Path::new(at).starts_with(place))
}

/// A link for each file, where the directory itself has to stay.
fn link_each(directory: &Path, place: &Path) -> io::Result<()> {
    for name in FileSet::read(directory)?.files.keys() {
        let target = place.join(name);
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent)?;
        }
        link(&directory.join(name), &target)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_images_directory_gives_way_and_the_link_follows_the_set() {
        let root = tempfile::tempdir().unwrap();
        let (etc, one, in_use) =
            (root.path().join("etc"), root.path().join("one"), root.path().join("in-use"));
        for (directory, text) in [(&etc, "of the image"), (&one, "1")] {
            fs::create_dir(directory).unwrap();
            fs::write(directory.join("slurm.conf"), text).unwrap();
        }
        link(&one, &in_use).unwrap();
        show(&in_use, &etc).unwrap();
        show(&in_use, &etc).unwrap();
        assert_eq!(fs::read_to_string(etc.join("slurm.conf")).unwrap(), "1");
    }

    #[test]
    fn a_directory_that_must_stay_gets_a_link_for_each_file() {
        let root = tempfile::tempdir().unwrap();
        let (etc, one) = (root.path().join("etc"), root.path().join("one"));
        fs::create_dir_all(one.join("scripts")).unwrap();
        fs::create_dir(&etc).unwrap();
        fs::write(etc.join("kept"), "").unwrap();
        fs::write(one.join("scripts/a"), "a").unwrap();
        link_each(&one, &etc).unwrap();
        assert_eq!(fs::read_to_string(etc.join("scripts/a")).unwrap(), "a");
        assert!(etc.join("kept").exists());
    }
}
