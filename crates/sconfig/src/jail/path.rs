//! Paths of files in the jail, checked.

use std::fmt;

/// The longest name of a file.
const LONGEST_NAME: usize = 255;
/// The longest path that the kernel takes.
const LONGEST_PATH: usize = 4095;
/// Files at the top of the jail whose names begin like this tell how complete it is.
const RESERVED: &str = ".soperator-jail";
/// Names of files that are on their way begin like this.
pub(super) const TEMPORARY: &str = ".sconfig-";

/// The path of a file below the jail, without a slash in front. It has no part that leads elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JailPath(String);

impl JailPath {
    /// Reads an absolute path, as users inside the jail write it.
    ///
    /// # Errors
    ///
    /// Why it cannot be the path of a file.
    pub fn parse(text: &str) -> Result<Self, String> {
        let Some(path) = text.strip_prefix('/') else {
            return Err(format!("{text:?} is no absolute path; write it as /etc/slurm/slurm.conf"));
        };
        for part in path.split('/') {
            if part.is_empty() || part == "." || part == ".." {
                return Err(format!(
                    "{text:?} has an empty part, \".\" or \"..\"; write the plain path of a file"
                ));
            }
            if part.len() > LONGEST_NAME || part.contains('\0') {
                return Err(format!("{text:?} has a part that no file can be called"));
            }
            if part.starts_with(TEMPORARY) {
                return Err(format!(
                    "{text:?}: names that begin with {TEMPORARY} are not for users; take another"
                ));
            }
        }
        if path.len() > LONGEST_PATH {
            return Err("the path is longer than the kernel takes".into());
        }
        if path.starts_with(RESERVED) {
            return Err(format!(
                "{text:?} tells how complete the jail is, and is not for users; take another name"
            ));
        }
        Ok(Self(path.to_owned()))
    }

    /// The directory; empty at the top of the jail.
    pub(super) fn parent(&self) -> &str {
        self.0.rsplit_once('/').map_or("", |(parent, _)| parent)
    }

    /// The last part.
    pub(super) fn name(&self) -> &str {
        self.0.rsplit_once('/').map_or(&self.0, |(_, name)| name)
    }
}

impl fmt::Display for JailPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_a_directory_and_a_name() {
        let path = JailPath::parse("/etc/slurm/slurm.conf").unwrap();
        assert_eq!((path.parent(), path.name()), ("etc/slurm", "slurm.conf"));
        assert_eq!(path.to_string(), "/etc/slurm/slurm.conf");
        let top = JailPath::parse("/motd").unwrap();
        assert_eq!((top.parent(), top.name()), ("", "motd"));
    }

    #[test]
    fn paths_that_lead_elsewhere_or_nowhere_are_refused() {
        let long = format!("/{}", "x".repeat(256));
        for text in [
            "",
            "/",
            "etc/motd",
            "/etc/",
            "//etc/motd",
            "/etc//motd",
            "/etc/../motd",
            "/./motd",
            "/..",
            "/a\0b",
            &long,
            "/.soperator-jail.json",
            "/etc/.sconfig-1",
        ] {
            assert!(JailPath::parse(text).is_err(), "{text:?}");
        }
    }
}
