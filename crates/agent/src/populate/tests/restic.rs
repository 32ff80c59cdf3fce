//! The archive of the original's image, with a program in the place of restic.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use super::super::failure::Failure;
use super::super::from::From;
use super::super::restic::Restic;
use super::super::wish::Wish;
use super::super::work;
use super::{STEPWISE, Stop, World};
use crate::jail::ready::is_ready;

/// restic, as far as it is called: it notes how, and copies the archive's files, or fails as it is told.
fn stub(world: &World, fails: &str) -> Restic {
    let archive = world.directory.path().join("archive");
    fs::create_dir_all(archive.join("snapshots")).unwrap();
    fs::write(archive.join("config"), "").unwrap();
    let program = world.directory.path().join("restic");
    let text = format!(
        "#!/bin/sh\nset -e\necho \"$@\" >> {root}/calls\ntest -e {jail}/.soperator-jail.partial\ntest ! -e {jail}/.soperator-jail.json\n\
         if [ -n \"{fails}\" ]; then mkdir -p {jail}/etc; echo \"Fatal: write {jail}/etc: {fails}\" >&2; exit 1; fi\n\
         cp -a {root}/source/. {jail}/\n",
        root = world.directory.path().display(),
        jail = world.jail().display()
    );
    fs::write(&program, text).unwrap();
    fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    Restic::of(program, &archive).unwrap()
}

fn restore(world: &World, wish: &Wish, fails: &str, stop: Stop) -> Result<String, Failure> {
    let restic = stub(world, fails);
    work(&world.top(), wish, || Ok(From::Restic(restic)), STEPWISE, &world.rules(stop))
}

fn calls(world: &World) -> Vec<String> {
    let calls = fs::read_to_string(world.directory.path().join("calls")).unwrap_or_default();
    calls.lines().map(str::to_owned).collect()
}

#[test]
fn restic_restores_and_verifies_and_removes_only_on_request() {
    let world = World::new();
    restore(&world, &Wish::default(), "", Stop::default()).unwrap();
    assert!(world.has("etc/passwd") && world.has_marker() && !world.has_journal());
    assert!(calls(&world)[0].contains("restore latest --verify"), "{:?}", calls(&world));
    assert!(!calls(&world)[0].contains("--delete"));
    restore(&world, &Wish::default(), "", Stop::default()).unwrap();
    assert_eq!(calls(&world).len(), 1, "it is complete");
    restore(&world, &Wish { overwrite: true, job: "two".into() }, "", Stop::default()).unwrap();
    assert!(calls(&world)[1].contains("--delete --exclude /.soperator-jail.*"), "{:?}", calls(&world));
}

#[test]
fn a_restore_that_ends_at_any_step_is_never_taken_for_a_jail() {
    for overwrite in [false, true] {
        for step in 0.. {
            let world = if overwrite { World::lived_in("one") } else { World::new() };
            let wish = Wish { overwrite, job: "two".into() };
            let first = restore(&world, &wish, "", Stop::at(step));
            assert_eq!(is_ready(&world.jail()).unwrap(), world.has_marker(), "step {step}");
            restore(&world, &wish, "", Stop::default()).unwrap();
            assert!(world.has_marker() && !world.has_journal());
            if first.is_ok() {
                assert!(step > 4);
                break;
            }
        }
    }
}

#[test]
fn what_restic_left_of_another_archive_is_removed_if_it_is_ours() {
    let world = World::new();
    restore(&world, &Wish::default(), "input/output error", Stop::default()).unwrap_err();
    restore(&world, &Wish::default(), "input/output error", Stop::default()).unwrap_err();
    assert!(!calls(&world)[1].contains("--delete"), "the same archive");
    fs::write(world.directory.path().join("archive/snapshots/5b1c"), "").unwrap();
    restore(&world, &Wish::default(), "", Stop::default()).unwrap();
    assert!(calls(&world)[2].contains("--delete"), "{:?}", calls(&world));
}

#[test]
fn restic_on_a_full_or_read_only_volume_needs_a_person() {
    for (words, code) in [
        ("no space left on device", 3),
        ("disk quota exceeded", 3),
        ("read-only file system", 3),
        ("input/output error", 1),
    ] {
        let world = World::new();
        let failure = restore(&world, &Wish::default(), words, Stop::default()).unwrap_err();
        assert_eq!(failure.exit_code(), code, "{failure:?}");
        assert!(!is_ready(&world.jail()).unwrap());
        restore(&world, &Wish::default(), "", Stop::default()).unwrap();
    }
}
