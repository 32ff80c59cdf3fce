//! Where a rig keeps its state: below the cache, one directory per rig.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::cache::{Cache, key_of};

/// Files and directories of one rig.
#[derive(Clone, Debug)]
pub struct RigPaths {
    name: String,
    parent: PathBuf,
}

/// Longest name: it goes into cgroup and host names.
const MAX_NAME: usize = 30;

impl RigPaths {
    /// The paths of the rig `name`.
    pub fn new(cache: &Cache, name: &str) -> Result<Self> {
        let valid = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(valid) || name.starts_with('-') {
            bail!(
                "{name:?} is not a name for a rig: 1 to {MAX_NAME} lower-case letters, digits and hyphens, not starting with one"
            );
        }
        Ok(Self { name: name.to_string(), parent: cache.root().join("rigs") })
    }

    /// The paths of every rig that runs or left something behind.
    pub fn all(cache: &Cache) -> Result<Vec<Self>> {
        let mut names = Vec::new();
        if let Ok(items) = fs::read_dir(cache.root().join("rigs")) {
            for item in items {
                let item = item?;
                if item.file_type()?.is_dir()
                    && let Ok(name) = item.file_name().into_string()
                {
                    names.push(name);
                }
            }
        }
        names.sort();
        // What is not a rig's name is not a rig's directory: those of failed starts, for one.
        Ok(names.iter().filter_map(|name| Self::new(cache, name).ok()).collect())
    }

    /// The rig's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The directory of the rig's state, which goes when the rig goes.
    pub fn root(&self) -> PathBuf {
        self.parent.join(&self.name)
    }

    /// Where the logs of the last failed start are kept.
    pub fn failed_logs(&self) -> PathBuf {
        self.parent.join(format!("{}.failed", self.name))
    }

    /// Held by the supervisor while it lives.
    pub fn supervisor_lock(&self) -> PathBuf {
        self.parent.join(format!("{}.lock", self.name))
    }

    /// Held while a rig is being started or stopped, so that two callers do not do it at once.
    pub fn start_lock(&self) -> PathBuf {
        self.parent.join(format!("{}.start.lock", self.name))
    }

    /// Where the supervisor listens.
    pub fn socket(&self) -> PathBuf {
        self.root().join("supervisor.sock")
    }

    /// Output of the supervisor.
    pub fn supervisor_log(&self) -> PathBuf {
        self.root().join("supervisor.log")
    }

    /// kubeconfig of someone who may do everything, from outside the rig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.root().join("kubeconfig")
    }

    /// The audit log.
    pub fn audit_log(&self) -> PathBuf {
        self.root().join("audit.log")
    }

    /// Directory of the control plane's certificates and configuration.
    pub fn control_plane(&self) -> PathBuf {
        self.root().join("control-plane")
    }

    /// Directory of provisioned volumes.
    pub fn volumes(&self) -> PathBuf {
        self.root().join("volumes")
    }

    /// Directory of one node.
    pub fn node(&self, node: &str) -> PathBuf {
        self.root().join("nodes").join(node)
    }

    /// Names of the nodes that have a directory.
    pub fn known_nodes(&self) -> Vec<String> {
        let items = fs::read_dir(self.root().join("nodes")).into_iter().flatten().flatten();
        let mut names: Vec<String> = items.filter_map(|item| item.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// The root cgroup of one node: rigs of another cache may have the same name.
    pub fn cgroup(&self, node: &str) -> String {
        format!("rig-{}-{}-{node}", self.name, &key_of([self.parent.as_os_str().as_encoded_bytes()])[..6])
    }

    /// The parent of all rigs, made if need be.
    pub fn make_parent(&self) -> Result<&Path> {
        fs::create_dir_all(&self.parent)?;
        Ok(&self.parent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_leave_the_directory_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path().into()).unwrap();
        for name in ["", "..", "a/b", "-x", "Upper", "a.b", &"x".repeat(31)] {
            assert!(RigPaths::new(&cache, name).is_err(), "{name:?}");
        }
        assert!(RigPaths::new(&cache, "test-1").is_ok());
    }
}
