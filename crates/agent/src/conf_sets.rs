//! Private copies of configuration sets, in slurmctld's spool so that they outlive the pod: the one in use, the last good
//! one, and what Slurm said about the one that it refused.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::files::{self, FileSet};
use crate::lookup::ROOT;

const DIRECTORY: &str = "soperator-conf";
const SETS: &str = "sets";
const IN_USE: &str = "in-use";
const SHOWN: &str = "shown";
const GOOD: &str = "good";
const REFUSED: &str = "refused.json";

/// The copies.
pub struct ConfSets {
    directory: PathBuf,
}

/// A set that Slurm refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Its hash.
    pub hash: String,
    /// The version of Slurm that refused it: another may take it.
    pub version: String,
    /// In Slurm's words.
    pub why: String,
}

impl ConfSets {
    /// The copies below a spool.
    pub fn new(spool: &Path) -> Self {
        Self { directory: spool.join(DIRECTORY) }
    }

    /// The directory of the set in use, by a name that stays the same.
    pub fn in_use(&self) -> PathBuf {
        self.directory.join(IN_USE)
    }

    /// The directory of the last set that worked, by a name that stays the same: what others should see.
    pub fn shown(&self) -> PathBuf {
        self.directory.join(SHOWN)
    }

    /// The directory of a set.
    pub fn directory_of(&self, hash: &str) -> PathBuf {
        self.directory.join(SETS).join(hash)
    }

    /// Keeps a copy of a set.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub fn store(&self, set: &FileSet) -> Result<(), String> {
        let (hash, written) =
            (set.hash(), |error| format!("cannot write {}: {error}", self.directory.display()));
        if self.load(&hash).is_some() {
            return Ok(());
        }
        let target = self.directory_of(&hash);
        let temporary = target.with_extension("new");
        (|| -> io::Result<()> {
            for old in [&target, &temporary] {
                if old.exists() {
                    fs::remove_dir_all(old)?;
                }
            }
            files::make_directory(&self.directory.join(SETS))?;
            set.write(&temporary)?;
            fs::rename(&temporary, &target)
        })()
        .map_err(written)
    }

    /// A set that was kept, if it is whole.
    pub fn load(&self, hash: &str) -> Option<FileSet> {
        if hash.is_empty() || hash.contains(['/', '.']) {
            return None;
        }
        FileSet::read(&self.directory_of(hash)).ok().filter(|set| set.hash() == hash)
    }

    /// Makes a kept set the one in use.
    ///
    /// # Errors
    ///
    /// The link cannot be changed.
    pub fn use_set(&self, hash: &str) -> Result<(), String> {
        files::link(&Path::new(SETS).join(hash), &self.in_use())
            .map_err(|error| format!("cannot change {}: {error}", self.in_use().display()))
    }

    /// Shows the set in use to others.
    ///
    /// # Errors
    ///
    /// The link cannot be changed.
    pub fn show(&self) -> Result<(), String> {
        fs::read_link(self.in_use())
            .and_then(|target| files::link(&target, &self.shown()))
            .map_err(|error| format!("cannot change {}: {error}", self.shown().display()))
    }

    /// The last good set, if there is one.
    pub fn good(&self) -> Option<FileSet> {
        self.load(fs::read_to_string(self.directory.join(GOOD)).ok()?.trim())
    }

    /// Notes that Slurm runs with a set, and forgets all others but the one in use.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub fn set_good(&self, hash: &str) -> Result<(), String> {
        files::write(&self.directory.join(GOOD), hash.as_bytes(), ROOT, 0o644)?;
        let in_use = fs::read_link(self.in_use()).unwrap_or_default();
        for item in fs::read_dir(self.directory.join(SETS)).into_iter().flatten().flatten() {
            if item.file_name() != hash && Some(item.file_name().as_os_str()) != in_use.file_name() {
                // What cannot be removed now goes the next time.
                let _ = fs::remove_dir_all(item.path());
            }
        }
        Ok(())
    }

    /// The set that Slurm refused last.
    pub fn refused(&self) -> Option<Refused> {
        let text = fs::read(self.directory.join(REFUSED)).ok()?;
        let value: serde_json::Value = serde_json::from_slice(&text).ok()?;
        let text = |key: &str| value.get(key)?.as_str().map(str::to_owned);
        Some(Refused { hash: text("hash")?, version: text("version")?, why: text("why")? })
    }

    /// Notes that Slurm refused a set.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub fn set_refused(&self, refused: &Refused) -> Result<(), String> {
        let value = json!({"hash": refused.hash, "version": refused.version, "why": refused.why});
        files::write(&self.directory.join(REFUSED), value.to_string().as_bytes(), ROOT, 0o644)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str) -> FileSet {
        FileSet { files: [("slurm.conf".to_owned(), text.as_bytes().to_vec())].into() }
    }

    #[test]
    fn the_last_good_set_outlives_the_pod_and_a_damaged_copy_counts_as_none() {
        let spool = tempfile::tempdir().unwrap();
        let sets = ConfSets::new(spool.path());
        assert_eq!(sets.good(), None);
        let (one, two) = (set("1"), set("2"));
        sets.store(&one).unwrap();
        sets.use_set(&one.hash()).unwrap();
        sets.set_good(&one.hash()).unwrap();
        sets.store(&two).unwrap();
        sets.use_set(&two.hash()).unwrap();
        assert_eq!(fs::read_to_string(sets.in_use().join("slurm.conf")).unwrap(), "2");

        let later = ConfSets::new(spool.path());
        assert_eq!(later.good(), Some(one.clone()));
        fs::write(later.directory_of(&one.hash()).join("slurm.conf"), "x").unwrap();
        assert_eq!(later.good(), None);
        later.store(&one).unwrap();
        assert_eq!(later.good(), Some(one));

        later.set_good(&two.hash()).unwrap();
        let kept = fs::read_dir(later.directory.join(SETS)).unwrap().count();
        assert_eq!(kept, 1, "sets that nobody needs are removed");
    }

    #[test]
    fn what_was_refused_is_remembered_with_slurms_words() {
        let spool = tempfile::tempdir().unwrap();
        let sets = ConfSets::new(spool.path());
        assert_eq!(sets.refused(), None);
        let refused =
            Refused { hash: "a".into(), version: "24.11.5".into(), why: "fatal: \"no\"\nreally".into() };
        sets.set_refused(&refused).unwrap();
        assert_eq!(ConfSets::new(spool.path()).refused(), Some(refused));
    }
}
