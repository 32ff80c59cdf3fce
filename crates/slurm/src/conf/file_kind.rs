//! Which file it is, and for which Slurm.

use std::fmt;
use std::str::FromStr;

/// A configuration file of Slurm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileKind {
    /// slurm.conf
    Slurm,
    /// slurmdbd.conf
    Slurmdbd,
    /// cgroup.conf
    Cgroup,
    /// gres.conf
    Gres,
    /// topology.conf
    Topology,
    /// plugstack.conf
    Plugstack,
    /// mpi.conf
    Mpi,
    /// job_container.conf
    JobContainer,
}

impl FileKind {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Slurm,
        Self::Slurmdbd,
        Self::Cgroup,
        Self::Gres,
        Self::Topology,
        Self::Plugstack,
        Self::Mpi,
        Self::JobContainer,
    ];

    /// The name of the file.
    #[must_use]
    pub const fn file_name(self) -> &'static str {
        match self {
            Self::Slurm => "slurm.conf",
            Self::Slurmdbd => "slurmdbd.conf",
            Self::Cgroup => "cgroup.conf",
            Self::Gres => "gres.conf",
            Self::Topology => "topology.conf",
            Self::Plugstack => "plugstack.conf",
            Self::Mpi => "mpi.conf",
            Self::JobContainer => "job_container.conf",
        }
    }
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.file_name())
    }
}

/// By the name of the file.
impl FromStr for FileKind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|kind| kind.file_name() == name).ok_or_else(|| {
            let known: Vec<&str> = Self::ALL.iter().map(|kind| kind.file_name()).collect();
            format!("{name:?} is no configuration file that can be checked; these can: {}", known.join(", "))
        })
    }
}

/// A version of Slurm whose keys are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum SlurmVersion {
    /// 24.11
    V24_11,
    /// 26.05
    #[default]
    V26_05,
}

impl SlurmVersion {
    /// All of them, oldest first.
    pub const ALL: [Self; 2] = [Self::V24_11, Self::V26_05];

    /// As Slurm writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V24_11 => "24.11",
            Self::V26_05 => "26.05",
        }
    }
}

impl fmt::Display for SlurmVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// `24.11` or `26.05`, also with a patch version behind it.
impl FromStr for SlurmVersion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_it = |version: &Self| {
            text.strip_prefix(version.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        Self::ALL.into_iter().find(is_it).ok_or_else(|| {
            format!(
                "the keys of Slurm {text:?} are not known here; known are {} and {}",
                Self::V24_11,
                Self::V26_05
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_versions_are_found_by_name() {
        for kind in FileKind::ALL {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        assert!("slurm".parse::<FileKind>().unwrap_err().contains("job_container.conf"));
        assert_eq!("24.11.5".parse(), Ok(SlurmVersion::V24_11));
        assert_eq!("26.05".parse(), Ok(SlurmVersion::V26_05));
        assert!("24.110".parse::<SlurmVersion>().is_err());
    }
}
