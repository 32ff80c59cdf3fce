//! Package locks: which packages an image was last known to hold, and how what was installed differs.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{Context, Result, bail};

const HEADER: &str =
    "# Every package of this image. Written by `rig build --update-locks`; see docs/images.md.\n";

/// Packages by name, each with its version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Packages(BTreeMap<String, String>);

/// One difference between a lock and what was installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Installed, but not in the lock.
    Added(String, String),
    /// In the lock, but not installed.
    Removed(String, String),
    /// In both, with the locked and the installed version.
    Moved(String, String, String),
}

impl Packages {
    /// Reads a lock file; `file` names it in errors.
    pub(super) fn from_lock(file: &str, text: &str) -> Result<Self> {
        let mut packages = BTreeMap::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let at = || format!("{file}:{}", number + 1);
            let (name, version) =
                line.split_once('=').with_context(|| format!("{}: `{line}` is not package=version", at()))?;
            if packages.insert(name.to_owned(), version.to_owned()).is_some() {
                bail!("{}: {name} is listed twice", at());
            }
        }
        Ok(Self(packages))
    }

    /// Reads dpkg's status file, which lists what is installed in a root file system.
    pub(super) fn from_dpkg_status(text: &str) -> Self {
        let mut packages = BTreeMap::new();
        for paragraph in text.split("\n\n") {
            let field =
                |name: &str| paragraph.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
            if let (Some(package), Some(version), Some(status)) =
                (field("Package:"), field("Version:"), field("Status:"))
                && status.ends_with(" installed")
            {
                packages.insert(package.to_owned(), version.to_owned());
            }
        }
        Self(packages)
    }

    /// Reads what `apt-get --simulate install` prints: lines such as `Inst libc6 (2.41-12 Debian:13/stable [amd64])`.
    pub(super) fn from_apt_simulation(text: &str) -> Self {
        let packages = text.lines().filter_map(|line| {
            let (name, rest) = line.strip_prefix("Inst ")?.split_once(' ')?;
            let version = rest.split_once('(')?.1.split([' ', ')']).next()?;
            Some((name.to_owned(), version.to_owned()))
        });
        Self(packages.collect())
    }

    /// The lock file's text.
    pub(super) fn to_lock(&self) -> String {
        let lines = self.0.iter().map(|(name, version)| format!("{name}={version}\n"));
        std::iter::once(HEADER.to_owned()).chain(lines).collect()
    }

    /// The version of a package, if it is there.
    pub(super) fn version(&self, package: &str) -> Option<&str> {
        self.0.get(package).map(String::as_str)
    }

    /// How many packages there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What changed from this lock to `installed`, sorted by package.
    pub(super) fn changes_to(&self, installed: &Self) -> Vec<Change> {
        let mut changes = BTreeMap::new();
        for (name, locked) in &self.0 {
            let change = match installed.0.get(name) {
                Some(version) if version == locked => continue,
                Some(version) => Change::Moved(name.clone(), locked.clone(), version.clone()),
                None => Change::Removed(name.clone(), locked.clone()),
            };
            changes.insert(name, change);
        }
        for (name, version) in &installed.0 {
            if !self.0.contains_key(name) {
                changes.insert(name, Change::Added(name.clone(), version.clone()));
            }
        }
        changes.into_values().collect()
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Added(name, version) => write!(f, "+ {name} {version}"),
            Self::Removed(name, version) => write!(f, "- {name} {version}"),
            Self::Moved(name, locked, installed) => write!(f, "~ {name} {locked} -> {installed}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(text: &str) -> Packages {
        Packages::from_lock("images/x/packages.lock", text).unwrap()
    }

    #[test]
    fn differences_are_told_by_package() {
        let locked = lock("bash=5.1\nmunge=0.5\nslurmd=24.11\n");
        let installed = lock("bash=5.2\nnano=8.4\nslurmd=24.11\n");
        let told: Vec<_> = locked.changes_to(&installed).iter().map(Change::to_string).collect();
        assert_eq!(told, ["~ bash 5.1 -> 5.2", "- munge 0.5", "+ nano 8.4"]);
        assert!(locked.changes_to(&locked).is_empty());
    }

    #[test]
    fn a_lock_survives_writing_and_reading() {
        let packages = lock("# a comment\n\nzlib1g=1:1.3\nbash=5.2-1+b3\n");
        assert_eq!(packages.to_lock(), format!("{HEADER}bash=5.2-1+b3\nzlib1g=1:1.3\n"));
        assert_eq!(lock(&packages.to_lock()), packages);
    }

    #[test]
    fn a_bad_line_is_told_with_its_place() {
        let error =
            Packages::from_lock("images/x/packages.lock", "# ok\nbash 5.2\n").unwrap_err().to_string();
        assert_eq!(error, "images/x/packages.lock:2: `bash 5.2` is not package=version");
        let error = Packages::from_lock("images/x/packages.lock", "a=1\na=2\n").unwrap_err().to_string();
        assert_eq!(error, "images/x/packages.lock:2: a is listed twice");
    }

    #[test]
    fn dpkg_status_lists_only_installed_packages() {
        let status = "Package: bash\nEssential: yes\nStatus: install ok installed\nVersion: 5.2\nDescription: x\n Version: no\n\n\
                      Package: gone\nStatus: deinstall ok config-files\nVersion: 1\n";
        assert_eq!(Packages::from_dpkg_status(status), lock("bash=5.2"));
    }

    #[test]
    fn an_apt_simulation_lists_what_would_come() {
        let text = "Reading package lists...\nInst libgcc-s1 (14.2.0-19 Debian:13.7/stable [amd64]) []\n\
                    Inst libc6 (2.41-12 Debian:13.7/stable [amd64])\nConf libc6 (2.41-12 Debian:13.7/stable [amd64])\n";
        assert_eq!(Packages::from_apt_simulation(text), lock("libc6=2.41-12\nlibgcc-s1=14.2.0-19"));
    }
}
