//! Small trees, filled and ended at every step, with the disk and the kernel of this machine.

mod overwrite;
mod restic;

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::entry::Rules;
use super::failure::Failure;
use super::fill::Pace;
use super::source::Source;
use super::state::{State, Top};
use super::wish::Wish;
use super::{From, work};
use crate::jail::ready::is_ready;

/// Ends the work at the k-th step, as a kill would.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    left: Option<Arc<AtomicU64>>,
}

impl Stop {
    fn at(step: u64) -> Self {
        Self { left: Some(Arc::new(AtomicU64::new(step))) }
    }

    pub fn step(&self) -> Result<(), Failure> {
        let Some(left) = &self.left else { return Ok(()) };
        let still = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        still.map(drop).map_err(|_| Failure::Again("killed".into()))
    }
}

/// One thread and a checkpoint after each file: the same steps each time.
const STEPWISE: Pace = Pace { threads: 1, checkpoint: Duration::ZERO };

/// In memory where that is to be had: every checkpoint waits for the disk.
fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

struct World {
    directory: tempfile::TempDir,
}

impl World {
    /// A source with everything that a root file system has.
    fn new() -> Self {
        let world = Self { directory: directory() };
        fs::create_dir(world.jail()).unwrap();
        let source = world.source();
        for directory in ["etc", "usr/bin", "proc/1", "tmp", "var/lib/empty"] {
            fs::create_dir_all(source.join(directory)).unwrap();
        }
        for (name, text, mode) in [
            ("etc/passwd", "root:x:0:0", 0o644),
            ("etc/shadow", "secret", 0o600),
            ("usr/bin/tool", "#!/bin/sh", 0o4755),
            ("usr/bin/big", &"x".repeat(300_000), 0o755),
            ("proc/1/status", "not to be taken", 0o444),
            ("tmp/scratch", "not to be taken", 0o600),
            ("usr/empty", "", 0o640),
        ] {
            fs::write(source.join(name), text).unwrap();
            fs::set_permissions(source.join(name), Permissions::from_mode(mode)).unwrap();
        }
        fs::hard_link(source.join("usr/bin/tool"), source.join("usr/bin/zz-same-tool")).unwrap();
        fs::hard_link(source.join("usr/bin/tool"), source.join("etc/same-tool")).unwrap();
        symlink("/etc/passwd", source.join("usr/link")).unwrap();
        symlink("nowhere", source.join("dangling")).unwrap();
        fs::set_permissions(source.join("tmp"), Permissions::from_mode(0o1777)).unwrap();
        fs::set_permissions(source.join("var/lib/empty"), Permissions::from_mode(0o555)).unwrap();
        let sparse = fs::File::create(source.join("var/sparse")).unwrap();
        sparse.set_len(1 << 20).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&sparse, b"in the middle", 1 << 19).unwrap();
        world
    }

    fn source(&self) -> PathBuf {
        self.directory.path().join("source")
    }

    fn jail(&self) -> PathBuf {
        self.directory.path().join("jail")
    }

    fn top(&self) -> Top {
        Top::open(&self.jail()).unwrap()
    }

    fn populate(&self, overwrite: bool, stop: Stop) -> Result<String, Failure> {
        self.populate_as(overwrite, "", stop)
    }

    /// A pod of this Job.
    fn populate_as(&self, overwrite: bool, job: &str, stop: Stop) -> Result<String, Failure> {
        let source = Source::new(&self.source());
        let wish = Wish { overwrite, job: job.into() };
        work(&self.top(), &wish, || Ok(From::Directory(source)), STEPWISE, &self.rules(stop))
    }

    /// A jail that somebody has filled and lived in.
    fn lived_in(job: &str) -> Self {
        let world = Self::new();
        world.populate_as(false, job, Stop::default()).unwrap();
        fs::create_dir_all(world.jail().join("home/user")).unwrap();
        fs::write(world.jail().join("home/user/thesis"), "years of work").unwrap();
        fs::write(world.jail().join("etc/passwd"), "changed by a user").unwrap();
        world
    }

    fn has(&self, name: &str) -> bool {
        self.jail().join(name).exists()
    }

    fn has_marker(&self) -> bool {
        self.has(".soperator-jail.json")
    }

    fn has_journal(&self) -> bool {
        self.has(".soperator-jail.partial")
    }

    /// Everything in the jail but files of ours.
    fn content(&self) -> BTreeMap<PathBuf, String> {
        let mut facts = Self::facts(&self.jail());
        facts.retain(|path, _| !path.to_string_lossy().starts_with(".soperator-jail."));
        facts
    }

    fn rules(&self, stop: Stop) -> Rules {
        let owner = self.directory.path().metadata().unwrap().uid();
        Rules { stop, owner, root_key: false, ..Rules::default() }
    }

    /// Everything about the tree that must be the same.
    fn facts(root: &Path) -> BTreeMap<PathBuf, String> {
        fn add(root: &Path, path: &Path, facts: &mut BTreeMap<PathBuf, String>) {
            let mut names: Vec<_> = fs::read_dir(path).unwrap().map(|item| item.unwrap().path()).collect();
            names.sort();
            for path in names {
                let meta = path.symlink_metadata().unwrap();
                let content = match meta.file_type() {
                    kind if kind.is_symlink() => format!("-> {}", fs::read_link(&path).unwrap().display()),
                    kind if kind.is_file() => {
                        let content = fs::read(&path).unwrap();
                        let sum = content
                            .iter()
                            .fold(7_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)));
                        format!("{} bytes, sum {sum}, {} names", content.len(), meta.nlink())
                    }
                    _ => String::new(),
                };
                let times = if meta.is_dir() { 0 } else { meta.mtime() };
                let line = format!("{:o} {}:{} {times} {content}", meta.mode(), meta.uid(), meta.gid());
                facts.insert(path.strip_prefix(root).unwrap().to_owned(), line);
                if meta.is_dir() {
                    add(root, &path, facts);
                }
            }
        }
        let mut facts = BTreeMap::new();
        add(root, root, &mut facts);
        facts
    }

    /// The jail as it has to be, without what belongs to us and to root's key pair.
    fn assert_complete(&self, what: &str) {
        let mut wanted = Self::facts(&self.source());
        wanted.retain(|path, _| !path.starts_with("proc/1") && !path.starts_with("tmp/scratch"));
        let mut found = Self::facts(&self.jail());
        let marker = found.remove(Path::new(".soperator-jail.json"));
        assert!(marker.is_some(), "{what}: there is a marker");
        found.retain(|path, _| !path.starts_with("root"));
        assert_eq!(found, wanted, "{what}");
        let same = |name: &str| self.jail().join(name).metadata().unwrap().ino();
        assert_eq!(same("usr/bin/tool"), same("etc/same-tool"), "{what}");
        assert_eq!(self.jail().metadata().unwrap().mode() & 0o7777, 0o755);
        let sparse = self.jail().join("var/sparse").metadata().unwrap();
        assert!(sparse.blocks() * 512 < 1 << 18, "{what}: holes stay holes");
    }
}

#[test]
fn an_empty_jail_is_filled_with_everything_that_counts() {
    let world = World::new();
    fs::create_dir(world.jail().join("lost+found")).unwrap();
    world.populate(false, Stop::default()).unwrap();
    fs::remove_dir(world.jail().join("lost+found")).unwrap();
    world.assert_complete("from nothing");
    let marker: super::Marker =
        serde_json::from_slice(&fs::read(world.jail().join(".soperator-jail.json")).unwrap()).unwrap();
    assert!(marker.version == 1 && marker.files > 15 && marker.bytes > 300_000, "{marker:?}");
    // And once more: nothing is done.
    fs::write(world.jail().join("etc/passwd"), "changed by a user").unwrap();
    let nothing = || unreachable!("the source of a complete jail is not looked at");
    work(&world.top(), &Wish::default(), nothing, STEPWISE, &world.rules(Stop::default())).unwrap();
    assert_eq!(fs::read_to_string(world.jail().join("etc/passwd")).unwrap(), "changed by a user");
}

#[test]
fn a_process_that_ends_at_any_step_leaves_a_jail_that_the_next_one_completes() {
    let (mut step, mut with_marker) = (0, 0);
    loop {
        let world = World::new();
        let first = world.populate(false, Stop::at(step));
        if first.is_err() {
            assert_eq!(is_ready(&world.jail()).unwrap(), world.has_marker(), "ended at step {step}");
            if world.has_marker() {
                // Only the journal is left to be removed.
                assert!(world.has_journal(), "ended at step {step}");
                with_marker += 1;
            }
            // The next one is ended too, a bit later.
            let _ = world.populate(false, Stop::at(step / 2 + 3));
            world.populate(false, Stop::default()).unwrap();
        }
        world.assert_complete(&format!("ended at step {step}"));
        if first.is_ok() {
            break;
        }
        step += 1;
    }
    assert!(step > 40, "only {step} steps were tried");
    assert_eq!(with_marker, 1, "the marker is made by the very last step but one");
}

#[test]
fn a_journal_that_cannot_be_read_is_no_leave_to_remove() {
    let world = World::new();
    fs::write(world.jail().join(".soperator-jail.partial"), "{").unwrap();
    fs::write(world.jail().join("thesis"), "years of work").unwrap();
    world.populate(false, Stop::default()).unwrap();
    assert!(world.has("thesis") && world.has_marker());
}

#[test]
fn a_jail_is_filled_from_its_snapshot_and_from_nothing_else() {
    let world = World::new();
    // As the snapshot of a jail has it.
    fs::write(world.source().join(".soperator-jail.json"), "of the snapshot").unwrap();
    let found = || From::snapshot(&world.source(), true).map(|found| found.unwrap());
    work(&world.top(), &Wish::default(), found, STEPWISE, &world.rules(Stop::default())).unwrap();
    fs::remove_file(world.source().join(".soperator-jail.json")).unwrap();
    world.assert_complete("from a snapshot");

    let world = World::lived_in("one");
    let before = World::facts(&world.jail());
    let other = world.directory.path().join("other");
    fs::create_dir_all(other.join("jail/etc")).unwrap();
    let found = || From::snapshot(&other, true).map(|found| found.unwrap());
    let wish = Wish { overwrite: true, job: "two".into() };
    let failure = work(&world.top(), &wish, found, STEPWISE, &world.rules(Stop::default())).unwrap_err();
    assert_eq!(failure.exit_code(), 3);
    assert!(failure.message().contains("holds no jail"), "{failure:?}");
    assert_eq!(World::facts(&world.jail()), before, "nothing was changed");
    assert!(From::snapshot(&other, false).unwrap().is_none(), "where none is asked for");
}

#[test]
fn what_a_killed_process_left_is_written_again_where_it_is_not_whole() {
    let world = World::new();
    for step in [30, 8] {
        world.populate(false, Stop::at(step)).unwrap_err();
    }
    // Half of a file, as after a loss of power, and a name of our own that a killed process had in use.
    let file = world.jail().join("etc/passwd");
    fs::write(&file, "ro").unwrap();
    fs::write(world.jail().join("etc/.soperator-jail.tmp-0"), "left over").unwrap();
    world.populate(false, Stop::default()).unwrap();
    world.assert_complete("after a loss");
}

#[test]
fn another_image_takes_the_place_of_one_that_was_not_complete() {
    let world = World::new();
    world.populate(false, Stop::at(50)).unwrap_err();
    fs::remove_file(world.source().join("etc/passwd")).unwrap();
    fs::remove_file(world.source().join("etc/same-tool")).unwrap();
    fs::create_dir(world.source().join("etc/passwd")).unwrap();
    fs::write(world.source().join("etc/passwd/inside"), "").unwrap();
    fs::hard_link(world.source().join("usr/bin/tool"), world.source().join("etc/same-tool")).unwrap();
    fs::remove_file(world.source().join("etc/shadow")).unwrap();
    world.populate(false, Stop::default()).unwrap();
    world.assert_complete("of the second image");
}

#[test]
fn the_original_s_jail_is_adopted_and_a_foreign_directory_is_left_alone() {
    let world = World::new();
    fs::create_dir(world.jail().join("etc")).unwrap();
    fs::write(world.jail().join("etc/passwd"), "of the original").unwrap();
    world.populate(false, Stop::default()).unwrap();
    assert_eq!(fs::read_to_string(world.jail().join("etc/passwd")).unwrap(), "of the original");
    assert!(matches!(world.top().state(), Ok(State::Complete(_))));

    let world = World::new();
    fs::write(world.jail().join("thesis.txt"), "years of work").unwrap();
    let failure = world.populate(false, Stop::default()).unwrap_err();
    assert_eq!(failure.exit_code(), 3);
    assert!(failure.message().contains("thesis.txt"), "{failure:?}");
    assert_eq!(fs::read_dir(world.jail()).unwrap().count(), 1, "nothing was changed");
}

#[test]
fn a_directory_in_the_place_of_a_file_is_kept_if_something_is_in_it() {
    let world = World::new();
    world.populate(false, Stop::at(2)).unwrap_err();
    fs::create_dir_all(world.jail().join("usr/empty/deep")).unwrap();
    let failure = world.populate(false, Stop::default()).unwrap_err();
    assert_eq!(failure.exit_code(), 3);
    assert!(failure.message().contains("usr/empty is a directory"), "{failure:?}");
    fs::remove_dir(world.jail().join("usr/empty/deep")).unwrap();
    world.populate(false, Stop::default()).unwrap();
    world.assert_complete("after an empty one");
}

#[test]
fn a_file_that_changes_while_it_is_checked_is_no_complete_jail() {
    let world = World::new();
    let top = world.top();
    let source = Source::new(&world.source());
    let rules = Rules::default();
    let journal = super::Journal::of_empty("");
    super::fill::fill(&source, &top, journal, &rules, &super::Done::default(), STEPWISE).unwrap();
    fs::write(world.jail().join("etc/shadow"), "longer than it was").unwrap();
    let failure = super::finish::finish(&source, &top, &rules).unwrap_err();
    assert!(failure.message().contains("etc/shadow is not as it was written: its size"), "{failure:?}");
}

#[test]
fn a_link_that_leads_elsewhere_is_no_complete_jail() {
    let world = World::new();
    let (top, source, rules) = (world.top(), Source::new(&world.source()), Rules::default());
    let journal = super::Journal::of_empty("");
    super::fill::fill(&source, &top, journal, &rules, &super::Done::default(), STEPWISE).unwrap();
    let link = world.jail().join("dangling");
    let time = link.symlink_metadata().unwrap().modified().unwrap();
    fs::remove_file(&link).unwrap();
    symlink("nowhera", &link).unwrap();
    let seconds = time.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let time = rustix::fs::Timespec { tv_sec: i64::try_from(seconds).unwrap(), tv_nsec: 0 };
    let times = rustix::fs::Timestamps { last_access: time, last_modification: time };
    rustix::fs::utimensat(rustix::fs::CWD, &link, &times, rustix::fs::AtFlags::SYMLINK_NOFOLLOW).unwrap();
    let failure = super::finish::finish(&source, &top, &rules).unwrap_err();
    assert!(failure.message().contains("dangling is not as it was written: it leads to"), "{failure:?}");
}
