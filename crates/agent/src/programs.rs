//! Programs of the image that we are in. No path is assumed: `PATH` and the usual places are searched.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::children::Children;

/// Searched after `PATH`, which of a container often lacks the places of daemons.
const PLACES: [&str; 12] = [
    "/usr/local/sbin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/bin",
    "/sbin",
    "/bin",
    "/opt/slurm/sbin",
    "/opt/slurm/bin",
    "/usr/local/slurm/sbin",
    "/usr/local/slurm/bin",
    "/usr/libexec",
    "/usr/lib/openssh",
];

/// Programs that are reported.
const SLURM: [&str; 10] = [
    "sacct",
    "sbatch",
    "scontrol",
    "slurmctld",
    "slurmd",
    "slurmdbd",
    "slurmrestd",
    "slurmstepd",
    "squeue",
    "srun",
];

/// All directories that programs are searched in.
fn places() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places: Vec<PathBuf> = std::env::split_paths(&path).filter(|place| place.is_absolute()).collect();
    for place in PLACES {
        if !places.iter().any(|known| known == Path::new(place)) {
            places.push(place.into());
        }
    }
    places
}

/// A `PATH` for children that has all these directories.
pub fn search_path() -> String {
    let places: Vec<String> = places().iter().map(|place| place.display().to_string()).collect();
    places.join(":")
}

/// The file of a program, if the image has it.
pub fn find(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return is_program(Path::new(name)).then(|| name.into());
    }
    places().into_iter().map(|place| place.join(name)).find(|file| is_program(file))
}

/// A command of a program that the image must have.
///
/// # Errors
///
/// The image has no such program.
pub fn command(name: &str) -> Result<Command, String> {
    let file = find(name).ok_or_else(|| format!("the image has no program {name}: use one that holds it"))?;
    let mut command = Command::new(file);
    command.env("PATH", search_path());
    Ok(command)
}

fn is_program(file: &Path) -> bool {
    file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// Slurm's programs in this image, and their version.
pub fn survey(children: &Children) -> (Vec<String>, Option<String>) {
    let there: Vec<String> =
        SLURM.iter().filter(|name| find(name).is_some()).map(ToString::to_string).collect();
    let version = there.iter().find_map(|name| {
        let printed = children.run(command(name).ok()?.arg("-V"), Duration::from_secs(10)).ok()?;
        version_in(&printed.stdout)
    });
    (there, version)
}

/// The version in `slurm 24.11.5` or `slurm-wlm 24.11.5`.
pub fn version_in(text: &str) -> Option<String> {
    let (name, version) = text.trim().split_once(' ')?;
    let version = version.split_whitespace().next()?;
    (name.starts_with("slurm") && version.starts_with(|c: char| c.is_ascii_digit()))
        .then(|| version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_by_name_and_what_is_none_is_not() {
        assert!(find("sh").is_some());
        assert_eq!(find("no-such-program"), None);
        assert_eq!(find("/etc/passwd"), None, "not executable");
        let error = command("no-such-program").unwrap_err();
        assert!(error.contains("no program no-such-program"), "{error}");
    }

    #[test]
    fn the_version_is_read_from_packages_of_all_makers() {
        assert_eq!(version_in("slurm 24.11.5\n").as_deref(), Some("24.11.5"));
        assert_eq!(version_in("slurm-wlm 26.05.5").as_deref(), Some("26.05.5"));
        assert_eq!(version_in("bash: no"), None);
        assert_eq!(version_in(""), None);
    }
}
