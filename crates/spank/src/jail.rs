//! A process goes into the jail: a mount namespace of its own, in which the jail is the root and the pod's own files are nowhere.

use std::fmt;
use std::path::{Path, PathBuf};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{chdir, pivot_root};

/// Steps whose processes are not those of a user: the one that outlives others for `pam_slurm_adopt` (`SLURM_EXTERN_CONT`).
const EXTERN_STEP: u32 = 0xffff_fffc;

/// Whether the processes of a step run inside the jail: those of batch scripts, interactive steps and all that users number.
#[must_use]
pub const fn is_inside(step: u32) -> bool {
    step != EXTERN_STEP
}

/// The directory that plugstack.conf names.
///
/// # Errors
///
/// There is none, more than one, or it is not absolute.
pub fn directory(arguments: &[String]) -> Result<PathBuf, Error> {
    match arguments {
        [one] if one.starts_with('/') => Ok(PathBuf::from(one)),
        _ => Err(Error::Argument(arguments.join(" "))),
    }
}

/// Why a process is not in the jail.
#[derive(Debug)]
pub enum Error {
    /// plugstack.conf does not name the jail.
    Argument(String),
    /// A system call failed.
    Call(&'static str, PathBuf, nix::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Argument(words) => write!(
                formatter,
                "its line in plugstack.conf must have one absolute path, the jail's, such as `required chroot.so /mnt/jail`; \
                 it has `{words}`"
            ),
            Self::Call(what, path, error) => {
                write!(
                    formatter,
                    "the step cannot enter the jail {}: {what}: {}",
                    path.display(),
                    error.desc()
                )
            }
        }
    }
}

/// Makes the jail the root of the calling thread, and of all that it starts later. The other threads of the process stay where they
/// are: those of slurmstepd speak with slurmd.
///
/// What is mounted into the jail later, from outside, is seen inside. What is mounted inside is not seen outside.
///
/// # Errors
///
/// A call failed. The caller may be half inside, and must end.
pub fn enter(jail: &Path) -> Result<(), Error> {
    let failed = |what| move |error| Error::Call(what, jail.to_owned(), error);
    let nothing = None::<&str>;
    unshare(CloneFlags::CLONE_NEWNS).map_err(failed("a mount namespace cannot be made"))?;
    mount(nothing, "/", nothing, MsFlags::MS_REC | MsFlags::MS_SLAVE, nothing)
        .map_err(failed("mounts cannot be made slaves of those outside"))?;
    chdir(jail).map_err(failed("it cannot be changed to"))?;
    // With the same directory twice the old root lies over the new one, so that no place for it is needed inside.
    pivot_root(".", ".").map_err(failed("it cannot become the root; is a volume mounted there?"))?;
    umount2(".", MntFlags::MNT_DETACH).map_err(failed("the pod's own files cannot be detached"))?;
    chdir("/").map_err(failed("its root cannot be changed to"))?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("proc"), "/proc", Some("proc"), flags, nothing)
        .map_err(failed("/proc cannot be mounted in it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_steps_of_users_run_inside() {
        let (batch, interactive) = (0xffff_fffb, 0xffff_fffa);
        assert!(is_inside(0) && is_inside(17) && is_inside(batch) && is_inside(interactive));
        assert!(!is_inside(0xffff_fffc), "it runs nothing of the user");
    }

    #[test]
    fn a_line_without_one_absolute_path_is_told() {
        let words = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(directory(&words(&["/mnt/jail"])).unwrap(), Path::new("/mnt/jail"));
        for wrong in [&[][..], &["mnt/jail"], &["/mnt/jail", "/other"]] {
            let error = directory(&words(wrong)).unwrap_err().to_string();
            assert!(error.contains("required chroot.so /mnt/jail"), "{error}");
        }
    }
}
