//! `/etc/slurm`, where clients look for slurm.conf: it shows a set, so that `kubectl exec ... scontrol` works.

use std::fs;
use std::io;
use std::path::Path;

use crate::files::{FileSet, link};

/// Where most builds of Slurm look.
pub const ETC_SLURM: &str = "/etc/slurm";

/// How names of files end that a set replaces as a whole.
const CONFIGURATION: [&str; 5] = [".conf", ".conf.d", ".key", ".example", ".yaml"];

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
        if is_mounted(place) || holds_more_than_configuration(place)? {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        fs::remove_dir_all(place)?;
    }
    link(directory, place)
}

/// Scripts of the image that a configuration may name by their path have to stay.
fn holds_more_than_configuration(place: &Path) -> io::Result<bool> {
    let configuration = |name: &str| CONFIGURATION.iter().any(|end| name.ends_with(end));
    for item in fs::read_dir(place)? {
        if !item?.file_name().to_str().is_some_and(configuration) {
            return Ok(true);
        }
    }
    Ok(false)
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
    // Those of an earlier set that this one does not have.
    for item in fs::read_dir(place)? {
        let path = item?.path();
        if fs::read_link(&path).is_ok_and(|target| target.starts_with(directory)) && !path.exists() {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

/// Puts the image's own slurm.conf out of the way, so that commands find what slurmd has fetched.
///
/// # Errors
///
/// It cannot be renamed.
pub fn hide(place: &Path) -> Result<(), String> {
    let file = place.join("slurm.conf");
    match fs::rename(&file, place.join("slurm.conf.image")) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(format!("cannot rename {}: {error}", file.display()))
        }
        _ => Ok(()),
    }
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
        fs::write(etc.join("prolog.sh"), "").unwrap();
        for name in ["scripts/a", "b.conf"] {
            fs::write(one.join(name), "a").unwrap();
        }
        show(&one, &etc).unwrap();
        assert_eq!(fs::read_to_string(etc.join("scripts/a")).unwrap(), "a");
        fs::remove_file(one.join("b.conf")).unwrap();
        show(&one, &etc).unwrap();
        assert!(etc.join("prolog.sh").exists(), "what the image has beside it stays");
        assert!(fs::symlink_metadata(etc.join("b.conf")).is_err(), "what the set has no more is gone");
    }

    #[test]
    fn the_images_own_slurm_conf_can_be_put_out_of_the_way() {
        let root = tempfile::tempdir().unwrap();
        hide(root.path()).unwrap();
        fs::write(root.path().join("slurm.conf"), "").unwrap();
        hide(root.path()).unwrap();
        assert!(!root.path().join("slurm.conf").exists());
    }
}
