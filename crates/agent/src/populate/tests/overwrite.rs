//! What others have put into a jail is removed when that is wished, once, and at no other time.

use std::fs;
use std::os::unix::fs::symlink;

use super::{Stop, World};
use crate::jail::ready::is_ready;

#[test]
fn an_overwrite_that_ends_at_any_step_is_never_taken_for_a_jail_and_is_ended_by_the_next_pod() {
    for job in ["", "two"] {
        let (mut step, mut ready) = (0, 0);
        loop {
            let world = World::lived_in("one");
            let before = world.content();
            let first = world.populate_as(true, job, Stop::at(step));
            if first.is_err() {
                let what = format!("ended at step {step}");
                assert!(world.has_marker() || world.has_journal(), "{what}");
                assert_eq!(is_ready(&world.jail()).unwrap(), world.has_marker(), "{what}");
                if world.has_marker() {
                    ready += 1;
                    assert!(
                        world.content() == before || !world.has("home"),
                        "{what}: the old or the new one"
                    );
                }
                let _ = world.populate_as(true, job, Stop::at(step / 2 + 3));
                world.populate_as(true, job, Stop::default()).unwrap();
            }
            assert!(!world.has_journal());
            world.assert_complete(&format!("ended at step {step}"));
            if first.is_ok() {
                break;
            }
            step += 1;
        }
        assert!(step > 40, "only {step} steps were tried");
        assert_eq!(ready, 3, "before the journal, before the marker goes, and after it has come");
    }
}

#[test]
fn a_job_overwrites_once_however_many_pods_it_has() {
    let world = World::lived_in("one");
    world.populate_as(true, "two", Stop::default()).unwrap();
    assert!(!world.has("home"));
    // A user comes, and then a pod that has waited for the lock, or that is tried again.
    fs::write(world.jail().join("data"), "").unwrap();
    world.populate_as(true, "two", Stop::default()).unwrap();
    assert!(world.has("data"), "the same wish");
    world.populate_as(true, "three", Stop::default()).unwrap();
    assert!(!world.has("data"), "another wish");
    // Also of a Job that had nothing to overwrite.
    let world = World::new();
    world.populate_as(true, "one", Stop::default()).unwrap();
    fs::write(world.jail().join("data"), "").unwrap();
    world.populate_as(true, "one", Stop::default()).unwrap();
    assert!(world.has("data"));
}

#[test]
fn an_overwrite_is_not_skipped_because_of_a_journal_that_was_left() {
    let world = World::lived_in("one");
    fs::write(world.jail().join(".soperator-jail.partial"), "{\"through\":\"usr\"}").unwrap();
    world.populate_as(true, "two", Stop::default()).unwrap();
    world.assert_complete("overwritten");
    // Nor is one done that nobody wishes.
    let world = World::lived_in("one");
    let before = world.content();
    fs::write(world.jail().join(".soperator-jail.partial"), "{\"replace\":true}").unwrap();
    world.populate_as(false, "two", Stop::default()).unwrap();
    assert_eq!(world.content(), before);
    assert!(!world.has_journal() && world.has_marker());
}

#[test]
fn an_overwrite_that_is_wished_no_more_removes_nothing_more() {
    let world = World::lived_in("one");
    world.populate_as(true, "two", Stop::at(30)).unwrap_err();
    let before = World::facts(&world.jail());
    assert!(!world.has_marker() && world.has("home/user/thesis"));
    let failure = world.populate_as(false, "three", Stop::default()).unwrap_err();
    assert_eq!(failure.exit_code(), 3);
    assert!(failure.message().contains("downscaleAndOverwritePopulateJail"), "{failure:?}");
    assert_eq!(World::facts(&world.jail()), before, "nothing was changed");
    world.populate_as(true, "four", Stop::default()).unwrap();
    world.assert_complete("wished again");
    // Nobody has anything in a volume that was empty.
    let world = World::new();
    world.populate_as(true, "one", Stop::at(30)).unwrap_err();
    world.populate_as(true, "one", Stop::at(30)).unwrap_err();
    world.populate_as(false, "two", Stop::default()).unwrap();
    world.assert_complete("of an empty volume");
}

#[test]
fn only_who_asks_for_it_has_a_jail_overwritten() {
    let world = World::new();
    world.populate(false, Stop::default()).unwrap();
    fs::remove_file(world.jail().join("usr/empty")).unwrap();
    fs::create_dir_all(world.jail().join("usr/empty/deep")).unwrap();
    fs::remove_file(world.jail().join("usr/link")).unwrap();
    fs::write(world.jail().join("usr/link"), "").unwrap();
    fs::remove_dir_all(world.jail().join("usr/bin")).unwrap();
    // Nothing may be written through it.
    let outside = world.directory.path().join("outside");
    fs::create_dir(&outside).unwrap();
    symlink(&outside, world.jail().join("usr/bin")).unwrap();
    fs::create_dir_all(world.jail().join("home/user/deep")).unwrap();
    fs::write(world.jail().join("home/user/deep/data"), "").unwrap();
    fs::write(world.jail().join("etc/passwd"), "root:x:0:1").unwrap();
    world.populate(true, Stop::default()).unwrap();
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    world.assert_complete("overwritten");
}
