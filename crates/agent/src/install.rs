//! `install DIR`: copies this program into the directory that all containers of a pod share.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

const NAME: &str = "slurm-agent";

/// Copies this program into `directory`, in one step.
///
/// # Errors
///
/// It cannot be written.
pub fn install(directory: &Path) -> Result<(), String> {
    let target = directory.join(NAME);
    let temporary = directory.join(format!(".{NAME}.new"));
    (|| {
        fs::create_dir_all(directory)?;
        // Not over the old file: it may be running.
        fs::copy("/proc/self/exe", &temporary)?;
        fs::set_permissions(&temporary, Permissions::from_mode(0o755))?;
        fs::rename(&temporary, &target)
    })()
    .map_err(|error: std::io::Error| format!("cannot install to {}: {error}", target.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_copy_can_be_executed_and_takes_the_place_of_an_older_one() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("bin");
        for _ in 0..2 {
            install(&target).unwrap();
        }
        let meta = fs::metadata(target.join(NAME)).unwrap();
        assert_eq!(meta.permissions().mode() & 0o777, 0o755);
        assert_eq!(meta.len(), fs::metadata("/proc/self/exe").unwrap().len());
        assert_eq!(fs::read_dir(&target).unwrap().count(), 1);
    }
}
