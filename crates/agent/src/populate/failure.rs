//! Why the jail could not be filled, and whether it is worth another try.

use std::fmt::Display;
use std::path::Path;

use rustix::io::Errno;

/// Why it stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// May work when it is tried again.
    Again(String),
    /// Somebody has to do something first.
    Person(String),
}

impl Failure {
    /// What the process ends with.
    pub fn exit_code(&self) -> u8 {
        match self {
            Failure::Again(_) => 1,
            Failure::Person(_) => 3,
        }
    }

    /// Of a full volume, also how much the jail needs.
    pub fn with_size(self, bytes: u64) -> Self {
        match self {
            Failure::Person(words) if words.contains(FULL) => {
                Failure::Person(format!("{words}. All of the jail needs {} MB", (bytes >> 20) + 1))
            }
            other => other,
        }
    }

    /// What is wrong and what to do.
    pub fn message(&self) -> &str {
        match self {
            Failure::Again(message) | Failure::Person(message) => message,
        }
    }
}

/// What is said of a volume that is full.
const FULL: &str = "The jail's volume is full";

/// What went wrong with a file, by the kernel's own words, with what to do where that is known.
pub fn of_file(doing: &str, path: impl AsRef<Path>, error: impl Into<std::io::Error>) -> Failure {
    let error = error.into();
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    let what = format!("cannot {doing} {}: {error}", path.as_ref().display());
    let person = |advice: &dyn Display| Failure::Person(format!("{what}. {advice}"));
    match errno {
        Some(Errno::NOSPC | Errno::DQUOT) => person(&format!(
            "{FULL}: make it larger (or its quota), then delete this Job; the next one goes on where this one stopped"
        )),
        Some(Errno::ROFS) => person(
            &"The jail's volume is read-only: mount it writable, then delete this Job; the next one fills it",
        ),
        Some(Errno::PERM | Errno::ACCESS) => person(
            &"The volume does not let root do this: an NFS export needs no_root_squash. Then delete this Job; the next one \
              goes on where this one stopped",
        ),
        _ => Failure::Again(what),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_pass_by_itself_is_tried_again() {
        let code = |errno: Errno| of_file("write", "/mnt/jail/a", errno).exit_code();
        assert_eq!([code(Errno::NOSPC), code(Errno::DQUOT), code(Errno::ROFS), code(Errno::PERM)], [3; 4]);
        assert_eq!([code(Errno::IO), code(Errno::STALE)], [1; 2]);
        let failure = of_file("write", "/mnt/jail/a", Errno::NOSPC);
        assert!(failure.message().starts_with("cannot write /mnt/jail/a: No space left"), "{failure:?}");
    }
}
