//! What a test can choose about a Slurm machine.

use std::collections::BTreeMap;
use std::fmt;

/// A Slurm release that we have an image of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// Slurm 24.11.
    V24_11,
    /// Slurm 26.05.
    V26_05,
}

impl Version {
    /// All of them, oldest first.
    pub const ALL: [Version; 2] = [Version::V24_11, Version::V26_05];

    /// The name of its image.
    pub fn image(self) -> &'static str {
        match self {
            Version::V24_11 => "slurm-24.11",
            Version::V26_05 => "slurm-26.05",
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.image().trim_start_matches("slurm-"))
    }
}

/// How a Slurm machine is made.
#[derive(Clone, Debug)]
pub struct Options {
    pub(super) version: Version,
    pub(super) nodes: u16,
    pub(super) emulated: u32,
    pub(super) accounting: bool,
    pub(super) database_files: bool,
    pub(super) rest: bool,
    pub(super) controller: bool,
    pub(super) extra_conf: String,
    pub(super) files: BTreeMap<String, String>,
}

impl Options {
    /// Two nodes in the partition `main`, slurmrestd, no accounting.
    pub fn new(version: Version) -> Self {
        Self {
            version,
            nodes: 2,
            emulated: 0,
            accounting: false,
            database_files: false,
            rest: true,
            controller: true,
            extra_conf: String::new(),
            files: BTreeMap::new(),
        }
    }

    /// Only munged and slurmctld, for tests of configuration.
    pub fn controller_only(version: Version) -> Self {
        Self { nodes: 0, rest: false, ..Self::new(version) }
    }

    /// Only munged: the test starts Slurm itself, by [`super::SlurmMachine::start_daemon`], when its files are in place.
    pub fn nothing_started(version: Version) -> Self {
        Self { nodes: 0, rest: false, controller: false, ..Self::new(version) }
    }

    /// So many nodes, each with a slurmd: `node-1`, `node-2`, ...
    #[must_use]
    pub fn nodes(mut self, nodes: u16) -> Self {
        self.nodes = nodes;
        self
    }

    /// So many nodes more that have no slurmd, `e-1`, `e-2`, ..., and count as idle. A real slurmctld, for measurements with
    /// thousands of nodes. `salloc --no-shell` runs jobs on them; a job with a script or a step cannot start there.
    #[must_use]
    pub fn emulated(mut self, nodes: u32) -> Self {
        self.emulated = nodes;
        self
    }

    /// With slurmdbd and MariaDB, an account `testing` and the user `tester` in it.
    #[must_use]
    pub fn accounting(mut self) -> Self {
        self.accounting = true;
        self
    }

    /// With MariaDB's files below [`super::DATABASE_ROOT`], for a test that starts it itself.
    #[must_use]
    pub fn database_files(mut self) -> Self {
        self.database_files = true;
        self
    }

    /// With slurmrestd, where it is not there by default.
    #[must_use]
    pub fn rest(mut self) -> Self {
        self.rest = true;
        self
    }

    /// More lines at the end of slurm.conf.
    #[must_use]
    pub fn extra_conf(mut self, lines: &str) -> Self {
        self.extra_conf.push_str(lines);
        self.extra_conf.push('\n');
        self
    }

    /// A file in `/etc/slurm`, in place of ours of that name. A `slurm.conf` of the test's own starts best with
    /// [`super::basic_lines`].
    #[must_use]
    pub fn file(mut self, name: &str, text: &str) -> Self {
        self.files.insert(name.to_string(), text.to_string());
        self
    }
}
