//! The cache outside the checkout: one directory per part and key, published whole or not at all.
//!
//! A build writes into a temporary directory and renames it, so an interrupted one never looks finished.
//! A manifest lists every file with its size and hash, and every symbolic link: sizes and links are checked at each use,
//! hashes by `rig build`. Its time of change is that of the entry's last use.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result, bail};
use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

const MANIFEST: &str = ".manifest.json";
const TEMPORARY_PREFIX: &str = ".tmp-";
/// How many entries of one part are kept, so that switching branches does not rebuild everything.
const ENTRIES_KEPT: usize = 3;

/// The root of everything the rig keeps between runs.
#[derive(Clone, Debug)]
pub struct Cache {
    root: PathBuf,
}

/// What a finished entry holds.
#[derive(Debug, Serialize, Deserialize)]
struct Manifest {
    files: BTreeMap<PathBuf, FileFacts>,
    /// Where symbolic links point; entries of older programs do not tell.
    #[serde(default)]
    links: BTreeMap<PathBuf, PathBuf>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct FileFacts {
    size: u64,
    sha256: String,
}

impl Cache {
    /// `$XDG_CACHE_HOME/soperator`, or `~/.cache/soperator`.
    pub fn open() -> Result<Self> {
        let base = match std::env::var_os("XDG_CACHE_HOME").filter(|v| !v.is_empty()) {
            Some(dir) => PathBuf::from(dir),
            None => match std::env::var_os("HOME").filter(|v| !v.is_empty()) {
                Some(home) => PathBuf::from(home).join(".cache"),
                None => bail!(
                    "neither XDG_CACHE_HOME nor HOME is set: set one, so that the rig has a place for its cache"
                ),
            },
        };
        Self::at(base.join("soperator"))
    }

    /// A cache at `root`, which is made if it does not exist.
    pub fn at(root: PathBuf) -> Result<Self> {
        fs::create_dir_all(&root)
            .with_context(|| format!("cannot make the cache directory {}", root.display()))?;
        Ok(Self { root })
    }

    /// Where the cache lies.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The directory of `part` under `key` if it is there and whole, by the sizes of its files. It counts as used now.
    pub fn find(&self, part: &str, key: &str) -> Option<PathBuf> {
        let dir = self.entry(part, key);
        let manifest = Manifest::read(&dir).ok()?;
        manifest.check_names_and_sizes(&dir).ok()?;
        mark_used(&dir);
        Some(dir)
    }

    /// The directory of `part` under `key`, made by `build` if it is absent or damaged. With `verify`, contents are hashed.
    ///
    /// Two callers wait for each other; what `build` leaves in the directory it is given becomes the entry.
    pub fn find_or_build(
        &self,
        part: &str,
        key: &str,
        verify: bool,
        say: &dyn Fn(&str),
        build: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<PathBuf> {
        if !verify && let Some(dir) = self.find(part, key) {
            return Ok(dir);
        }
        let part_dir = self.root.join(part);
        fs::create_dir_all(&part_dir).with_context(|| format!("cannot make {}", part_dir.display()))?;
        let _lock = lock(&part_dir.join(".lock"), || say("another build of this part runs; waiting for it"))?;
        remove_temporaries(&part_dir)?;

        let dir = self.entry(part, key);
        if dir.exists() {
            let whole = Manifest::read(&dir).and_then(|manifest| {
                manifest.check_names_and_sizes(&dir)?;
                if verify { manifest.check_hashes(&dir) } else { Ok(()) }
            });
            match whole {
                Ok(()) => {
                    mark_used(&dir);
                    return Ok(dir);
                }
                Err(why) => {
                    say(&format!("the cache entry is damaged ({why:#}); building it again"));
                    fs::remove_dir_all(&dir)
                        .with_context(|| format!("cannot remove the damaged {}", dir.display()))?;
                }
            }
        }

        let temporary = part_dir.join(format!("{TEMPORARY_PREFIX}{key}-{}", std::process::id()));
        fs::create_dir(&temporary).with_context(|| format!("cannot make {}", temporary.display()))?;
        let published = build(&temporary).and_then(|()| {
            fs::set_permissions(&temporary, fs::Permissions::from_mode(0o755))?;
            Manifest::of(&temporary)?.write(&temporary)?;
            fs::rename(&temporary, &dir).with_context(|| format!("cannot publish {}", dir.display()))
        });
        if let Err(error) = published {
            // The build's own error matters more than a failing clean-up, which the next build repeats.
            let _ = fs::remove_dir_all(&temporary);
            return Err(error);
        }
        prune(&part_dir, &dir)?;
        Ok(dir)
    }

    fn entry(&self, part: &str, key: &str) -> PathBuf {
        self.root.join(part).join(key)
    }
}

impl Manifest {
    fn of(dir: &Path) -> Result<Self> {
        let mut manifest = Self { files: BTreeMap::new(), links: BTreeMap::new() };
        manifest.collect(dir, dir)?;
        Ok(manifest)
    }

    fn collect(&mut self, root: &Path, dir: &Path) -> Result<()> {
        for item in fs::read_dir(dir)? {
            let item = item?;
            let (kind, path) = (item.file_type()?, item.path());
            let name = path.strip_prefix(root)?.to_path_buf();
            if kind.is_dir() {
                self.collect(root, &path)?;
            } else if kind.is_file() {
                let facts = FileFacts { size: item.metadata()?.size(), sha256: sha256_of_file(&path)? };
                self.files.insert(name, facts);
            } else if kind.is_symlink() {
                self.links.insert(name, fs::read_link(&path)?);
            }
        }
        Ok(())
    }

    fn read(dir: &Path) -> Result<Self> {
        let bytes = fs::read(dir.join(MANIFEST)).context("it has no manifest")?;
        serde_json::from_slice(&bytes).context("its manifest is not readable")
    }

    fn write(&self, dir: &Path) -> Result<()> {
        let mut file = File::create(dir.join(MANIFEST))?;
        file.write_all(&serde_json::to_vec_pretty(self)?)?;
        file.sync_all()?;
        Ok(())
    }

    fn check_names_and_sizes(&self, dir: &Path) -> Result<()> {
        for (path, target) in &self.links {
            if fs::read_link(dir.join(path)).ok().as_ref() != Some(target) {
                bail!("{} is no link to {} any more", path.display(), target.display());
            }
        }
        for (path, facts) in &self.files {
            let size = fs::metadata(dir.join(path))
                .with_context(|| format!("{} is missing", path.display()))?
                .size();
            if size != facts.size {
                bail!("{} has {size} bytes instead of {}", path.display(), facts.size);
            }
        }
        Ok(())
    }

    fn check_hashes(&self, dir: &Path) -> Result<()> {
        for (path, facts) in &self.files {
            if sha256_of_file(&dir.join(path))? != facts.sha256 {
                bail!("the content of {} has changed", path.display());
            }
        }
        Ok(())
    }
}

/// Notes that the entry that holds `path` was used now: of a part, those that were not used for longest go first.
pub fn mark_used(path: &Path) {
    // Somebody else's cache can be read and not written; that it is used is then not known.
    if let Some(manifest) = manifest_of(path)
        && let Ok(file) = OpenOptions::new().append(true).open(manifest)
    {
        let _ = file.set_modified(SystemTime::now());
    }
}

/// Keeps the entry that holds `path` from being pruned, as long as the returned value or the process lives.
pub fn hold(path: &Path) -> Result<Flock<File>> {
    let manifest = manifest_of(path).with_context(|| format!("{} is not in the cache", path.display()))?;
    let file = File::open(&manifest).with_context(|| format!("cannot read {}", manifest.display()))?;
    Flock::lock(file, FlockArg::LockShared)
        .map_err(|(_, errno)| io::Error::from(errno))
        .with_context(|| format!("cannot lock {}", manifest.display()))
}

/// The manifest of the entry that holds `path`.
fn manifest_of(path: &Path) -> Option<PathBuf> {
    path.ancestors().map(|ancestor| ancestor.join(MANIFEST)).find(|manifest| manifest.is_file())
}

fn is_held(entry: &Path) -> Result<bool> {
    let manifest = entry.join(MANIFEST);
    let file = File::open(&manifest).with_context(|| format!("cannot read {}", manifest.display()))?;
    Ok(Flock::lock(file, FlockArg::LockExclusiveNonblock).is_err())
}

/// Takes the lock file at `path`; calls `waiting` once if somebody else has it. The lock ends with the returned value or the process.
pub fn lock(path: &Path, waiting: impl FnOnce()) -> Result<Flock<File>> {
    if let Some(lock) = try_lock(path)? {
        return Ok(lock);
    }
    waiting();
    Flock::lock(open_lock(path)?, FlockArg::LockExclusive)
        .map_err(|(_, errno)| io::Error::from(errno))
        .with_context(|| format!("cannot lock {}", path.display()))
}

/// Takes the lock file at `path`, or nothing if somebody else has it.
pub fn try_lock(path: &Path) -> Result<Option<Flock<File>>> {
    match Flock::lock(open_lock(path)?, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => Ok(Some(lock)),
        Err((_, nix::errno::Errno::EWOULDBLOCK)) => Ok(None),
        Err((_, errno)) => {
            Err(io::Error::from(errno)).with_context(|| format!("cannot lock {}", path.display()))
        }
    }
}

fn open_lock(path: &Path) -> Result<File> {
    OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
        .with_context(|| format!("cannot open the lock file {}", path.display()))
}

/// Hash of several inputs, short enough for a directory name: the key of what is built from them.
pub fn key_of<I, T>(inputs: I) -> String
where
    I: IntoIterator<Item = T>,
    T: AsRef<[u8]>,
{
    let mut hash = Sha256::new();
    for input in inputs {
        let input = input.as_ref();
        hash.update((input.len() as u64).to_le_bytes());
        hash.update(input);
    }
    hex(&hash.finalize()[..8])
}

/// SHA-256 of a file, in hex.
pub fn sha256_of_file(path: &Path) -> Result<String> {
    let mut file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        let n = file.read(&mut buffer)?;
        if n == 0 {
            return Ok(hex(&hash.finalize()));
        }
        hash.update(&buffer[..n]);
    }
}

/// Lower-case hex of `bytes`.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What an interrupted build left; only called by the holder of the part's lock.
fn remove_temporaries(part_dir: &Path) -> Result<()> {
    for item in fs::read_dir(part_dir)? {
        let item = item?;
        if item.file_name().to_string_lossy().starts_with(TEMPORARY_PREFIX) {
            fs::remove_dir_all(item.path())
                .with_context(|| format!("cannot remove {}", item.path().display()))?;
        }
    }
    Ok(())
}

/// Removes the entries that were not used for longest, but none that somebody holds.
fn prune(part_dir: &Path, current: &Path) -> Result<()> {
    let mut others: Vec<(SystemTime, PathBuf)> = Vec::new();
    for item in fs::read_dir(part_dir)? {
        let path = item?.path();
        if path != current && path.join(MANIFEST).is_file() {
            others.push((fs::metadata(path.join(MANIFEST))?.modified()?, path));
        }
    }
    others.sort();
    let excess = (others.len() + 1).saturating_sub(ENTRIES_KEPT);
    for (_, path) in others.into_iter().take(excess) {
        if is_held(&path)? {
            continue;
        }
        fs::remove_dir_all(&path).with_context(|| format!("cannot remove the old {}", path.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quiet(_: &str) {}

    fn cache() -> (tempfile::TempDir, Cache) {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path().join("cache")).unwrap();
        (dir, cache)
    }

    fn build_file(content: &'static str) -> impl FnOnce(&Path) -> Result<()> {
        move |dir| Ok(fs::write(dir.join("program"), content)?)
    }

    #[test]
    fn a_second_use_finds_what_the_first_built() {
        let (_dir, cache) = cache();
        cache.find_or_build("kube", "k1", false, &quiet, build_file("one")).unwrap();
        let dir =
            cache.find_or_build("kube", "k1", false, &quiet, |_| bail!("must not build again")).unwrap();
        assert_eq!(fs::read_to_string(dir.join("program")).unwrap(), "one");
    }

    #[test]
    fn a_failed_build_leaves_nothing_behind() {
        let (_dir, cache) = cache();
        let failed = cache.find_or_build("kube", "k1", false, &quiet, |dir| {
            fs::write(dir.join("program"), "half")?;
            bail!("compiler says no")
        });
        assert!(failed.unwrap_err().to_string().contains("compiler says no"));
        assert!(cache.find("kube", "k1").is_none());
        let left: Vec<_> =
            fs::read_dir(cache.root().join("kube")).unwrap().map(|i| i.unwrap().file_name()).collect();
        assert_eq!(left, [".lock"]);
    }

    #[test]
    fn what_an_interrupted_build_left_is_removed_by_the_next() {
        let (_dir, cache) = cache();
        let stale = cache.root().join("kube").join(".tmp-k1-1");
        fs::create_dir_all(&stale).unwrap();
        cache.find_or_build("kube", "k1", false, &quiet, build_file("one")).unwrap();
        assert!(!stale.exists());
    }

    #[test]
    fn a_truncated_file_is_noticed_and_built_again() {
        let (_dir, cache) = cache();
        let dir = cache.find_or_build("kube", "k1", false, &quiet, build_file("one")).unwrap();
        fs::write(dir.join("program"), "o").unwrap();
        assert!(cache.find("kube", "k1").is_none());
        let said = std::cell::RefCell::new(String::new());
        let dir = cache
            .find_or_build("kube", "k1", false, &|text| said.borrow_mut().push_str(text), build_file("one"))
            .unwrap();
        assert_eq!(fs::read_to_string(dir.join("program")).unwrap(), "one");
        assert!(said.borrow().contains("damaged (program has 1 bytes instead of 3)"), "{}", said.borrow());
    }

    #[test]
    fn changed_content_of_the_same_size_is_noticed_when_verifying() {
        let (_dir, cache) = cache();
        let dir = cache.find_or_build("kube", "k1", false, &quiet, build_file("one")).unwrap();
        fs::write(dir.join("program"), "two").unwrap();
        let dir = cache.find_or_build("kube", "k1", true, &quiet, build_file("one")).unwrap();
        assert_eq!(fs::read_to_string(dir.join("program")).unwrap(), "one");
    }

    #[test]
    fn two_builds_of_one_part_wait_for_each_other() {
        let (_dir, cache) = cache();
        let building = std::sync::atomic::AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    cache.find_or_build("kube", "k1", false, &quiet, |dir| {
                        building.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                        std::thread::sleep(std::time::Duration::from_millis(50));
                        Ok(fs::write(dir.join("program"), "one")?)
                    })
                });
            }
        });
        assert_eq!(building.into_inner(), 1, "only one of four builds");
    }

    #[test]
    fn old_entries_are_pruned_and_the_current_one_stays() {
        let (_dir, cache) = cache();
        for key in ["k1", "k2", "k3", "k4", "k5"] {
            cache.find_or_build("kube", key, false, &quiet, build_file("one")).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let kept: Vec<_> =
            ["k1", "k2", "k3", "k4", "k5"].into_iter().filter(|k| cache.find("kube", k).is_some()).collect();
        assert_eq!(kept, ["k3", "k4", "k5"]);
    }

    fn kept_after_a_fourth(cache: &Cache, meanwhile: impl FnOnce(&Cache)) -> Vec<&'static str> {
        let build = |key| {
            cache.find_or_build("kube", key, false, &quiet, build_file("one")).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(10));
        };
        ["k1", "k2", "k3"].into_iter().for_each(build);
        meanwhile(cache);
        build("k4");
        ["k1", "k2", "k3", "k4"].into_iter().filter(|key| cache.entry("kube", key).exists()).collect()
    }

    #[test]
    fn an_entry_in_use_outlives_newer_ones_that_are_not() {
        let (_dir, cache) = cache();
        let kept = kept_after_a_fourth(&cache, |cache| drop(cache.find("kube", "k1").unwrap()));
        assert_eq!(kept, ["k1", "k3", "k4"]);
    }

    #[test]
    fn an_entry_that_a_running_rig_holds_is_not_pruned() {
        let (_dir, cache) = cache();
        let mut held = None;
        let kept = kept_after_a_fourth(&cache, |cache| {
            held = Some(hold(&cache.entry("kube", "k1").join("program")).unwrap());
        });
        assert_eq!(kept, ["k1", "k2", "k3", "k4"]);
        drop(held);
        cache.find_or_build("kube", "k5", false, &quiet, build_file("one")).unwrap();
        assert!(!cache.entry("kube", "k1").exists());
    }

    #[test]
    fn a_lost_link_is_noticed_and_made_again() {
        let (_dir, cache) = cache();
        let build = |dir: &Path| {
            fs::write(dir.join("kube"), "one")?;
            Ok(std::os::unix::fs::symlink("kube", dir.join("kube-apiserver"))?)
        };
        let dir = cache.find_or_build("kube", "k1", false, &quiet, build).unwrap();
        for verify in [false, true] {
            fs::remove_file(dir.join("kube-apiserver")).unwrap();
            assert!(cache.find("kube", "k1").is_none());
            cache.find_or_build("kube", "k1", verify, &quiet, build).unwrap();
            assert_eq!(fs::read_to_string(dir.join("kube-apiserver")).unwrap(), "one");
        }
    }

    #[test]
    fn entries_of_programs_that_noted_no_links_still_count() {
        let (_dir, cache) = cache();
        let dir = cache.find_or_build("kube", "k1", false, &quiet, build_file("one")).unwrap();
        let manifest = fs::read_to_string(dir.join(MANIFEST)).unwrap();
        let mut manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
        manifest.as_object_mut().unwrap().remove("links").unwrap();
        fs::write(dir.join(MANIFEST), manifest.to_string()).unwrap();
        assert!(cache.find("kube", "k1").is_some());
    }

    #[test]
    fn keys_tell_inputs_apart_by_their_borders() {
        assert_ne!(key_of(["ab", "c"]), key_of(["a", "bc"]));
    }
}
