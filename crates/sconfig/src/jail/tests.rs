use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::process::Command;
use std::slice;

use super::*;

fn wanted(path: &str, content: &str, mode: u32) -> Wanted {
    Wanted { path: JailPath::parse(path).unwrap(), mode, content: content.into() }
}

fn file(path: &str, content: &str) -> Wanted {
    wanted(path, content, 0o644)
}

struct Place {
    folder: tempfile::TempDir,
    jail: Jail,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("jail")).unwrap();
        let jail = Jail::open(&folder.path().join("jail")).unwrap();
        Self { folder, jail }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.folder.path().join("jail").join(path)
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.at(path)).unwrap()
    }

    /// All that is there, with what is on its way.
    fn names(&self, path: &str) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.at(path))
            .unwrap()
            .map(|item| item.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

#[test]
fn files_come_with_their_directories_content_and_permissions() {
    let place = Place::new();
    let files = [wanted("/etc/slurm/prolog.sh", "#!/bin/sh\n", 0o755), file("/motd", "hello")];
    assert_eq!(place.jail.write(&files).unwrap(), [], "nothing was there");
    assert_eq!(place.text("etc/slurm/prolog.sh"), "#!/bin/sh\n");
    assert_eq!(fs::metadata(place.at("etc/slurm/prolog.sh")).unwrap().permissions().mode() & 0o7777, 0o755);
    assert_eq!(place.names("etc/slurm"), ["prolog.sh"]);
    for file in &files {
        assert!(matches!(place.jail.compare(file), Ok(Found::Same(_))), "{}", file.path);
    }
}

#[test]
fn an_old_file_stays_beside_the_new_one_until_it_is_cleared() {
    let place = Place::new();
    place.jail.write(&[file("/etc/a", "1")]).unwrap();
    let old = fs::metadata(place.at("etc/a")).unwrap().ino();
    let left = place.jail.write(&[file("/etc/a", "2")]).unwrap();
    assert_eq!((place.text("etc/a").as_str(), left.len()), ("2", 1));
    let path = JailPath::parse("/etc/a").unwrap();
    assert_eq!(place.jail.leftovers(&path), left, "another process finds it, too");
    assert_eq!(fs::metadata(place.at("etc").join(&left[0].name)).unwrap().ino(), old);
    place.jail.clear(&left[0]);
    assert_eq!(place.names("etc"), ["a"]);
}

#[test]
fn a_file_that_is_as_it_should_be_is_known_again_and_every_change_is_seen() {
    let place = Place::new();
    let wanted = file("/etc/a", "1");
    place.jail.write(slice::from_ref(&wanted)).unwrap();
    let Ok(Found::Same(seen)) = place.jail.compare(&wanted) else { panic!("not the same") };
    assert!(place.jail.is_still(&wanted.path, seen));
    assert_eq!(place.jail.compare(&file("/etc/a", "2")), Ok(Found::Other));
    assert_eq!(place.jail.compare(&super::tests::wanted("/etc/a", "1", 0o600)), Ok(Found::Other));
    std::thread::sleep(std::time::Duration::from_millis(20));
    fs::write(place.at("etc/a"), "1").unwrap();
    assert!(!place.jail.is_still(&wanted.path, seen), "somebody wrote it");
    fs::remove_file(place.at("etc/a")).unwrap();
    assert!(!place.jail.is_still(&wanted.path, seen));
    assert_eq!(place.jail.compare(&wanted), Ok(Found::Other));
}

#[test]
fn a_link_at_the_path_or_on_the_way_is_refused_and_nothing_is_written_behind_it() {
    let place = Place::new();
    let outside = place.folder.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("victim"), "untouched").unwrap();
    fs::create_dir(place.at("etc")).unwrap();
    symlink(outside.join("victim"), place.at("etc/a")).unwrap();
    symlink(&outside, place.at("opt")).unwrap();
    symlink("etc", place.at("inside")).unwrap();
    let at = file("/etc/a", "x");
    assert_eq!(place.jail.write(slice::from_ref(&at)), Err(JailError::Link { path: at.path.clone() }));
    assert_eq!(place.jail.compare(&at), Err(JailError::Link { path: at.path.clone() }));
    for path in ["/opt/victim", "/opt/new/file", "/inside/b"] {
        let way = file(path, "x");
        assert_eq!(
            place.jail.write(slice::from_ref(&way)),
            Err(JailError::LinkOnTheWay { path: way.path.clone() })
        );
        place.jail.remove(&way.path).unwrap();
    }
    place.jail.remove(&at.path).unwrap();
    assert!(place.at("etc/a").is_symlink(), "it is not ours to remove");
    assert_eq!(fs::read_to_string(outside.join("victim")).unwrap(), "untouched");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    assert_eq!(place.names("etc"), ["a"]);
}

#[test]
fn what_is_no_file_is_not_replaced() {
    let place = Place::new();
    fs::create_dir_all(place.at("etc/slurm.conf/sub")).unwrap();
    let pipe = place.at("etc/pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let (directory, pipe) = (file("/etc/slurm.conf", "x"), file("/etc/pipe", "x"));
    assert_eq!(place.jail.compare(&directory), Err(JailError::Directory { path: directory.path.clone() }));
    assert_eq!(
        place.jail.write(slice::from_ref(&directory)),
        Err(JailError::Directory { path: directory.path.clone() })
    );
    assert_eq!(
        place.jail.compare(&pipe),
        Err(JailError::NoFile { path: pipe.path.clone() }),
        "and it does not hang"
    );
    place.jail.write(&[file("/etc/plain", "x")]).unwrap();
    let below = file("/etc/plain/below", "x");
    assert_eq!(place.jail.write(slice::from_ref(&below)), Err(JailError::FileOnTheWay { path: below.path }));
    place.jail.remove(&directory.path).unwrap();
    assert!(place.at("etc/slurm.conf/sub").is_dir());
}

#[test]
fn one_file_that_cannot_be_written_keeps_all_as_they_were() {
    let place = Place::new();
    place.jail.write(&[file("/etc/a", "1"), file("/etc/b", "1")]).unwrap();
    fs::create_dir(place.at("etc/c")).unwrap();
    let files = [file("/etc/a", "2"), file("/etc/b", "2"), file("/etc/new", "2"), file("/etc/c", "2")];
    assert!(matches!(place.jail.write(&files), Err(JailError::Directory { .. })));
    assert_eq!((place.text("etc/a"), place.text("etc/b")), ("1".into(), "1".into()));
    assert_eq!(place.names("etc"), ["a", "b", "c"], "nothing is left behind");
}

#[test]
fn swaps_that_were_made_are_taken_back() {
    let place = Place::new();
    place.jail.write(&[file("/etc/a", "1")]).unwrap();
    let staged = place.jail.stage(&file("/etc/a", "2")).unwrap();
    let new = place.jail.stage(&file("/etc/new", "2")).unwrap();
    let (first, second) = (staged.swap().unwrap(), new.swap().unwrap());
    assert_eq!(place.text("etc/a"), "2");
    staged.take_back(first);
    new.take_back(second);
    assert_eq!((place.text("etc/a").as_str(), place.names("etc")), ("1", vec!["a".to_owned()]));
}

#[test]
fn a_link_that_comes_between_the_look_and_the_swap_is_put_back() {
    let place = Place::new();
    place.jail.write(&[file("/etc/a", "1")]).unwrap();
    let staged = place.jail.stage(&file("/etc/a", "2")).unwrap();
    fs::remove_file(place.at("etc/a")).unwrap();
    symlink("/etc/passwd", place.at("etc/a")).unwrap();
    assert!(matches!(staged.swap(), Err(JailError::Link { .. })));
    assert_eq!(fs::read_link(place.at("etc/a")).unwrap(), PathBuf::from("/etc/passwd"));
    assert_eq!(place.names("etc"), ["a"]);
}

#[test]
fn removing_takes_the_file_and_nothing_else() {
    let place = Place::new();
    place.jail.write(&[file("/etc/a", "1"), file("/etc/b", "1")]).unwrap();
    let path = JailPath::parse("/etc/a").unwrap();
    place.jail.remove(&path).unwrap();
    place.jail.remove(&path).unwrap();
    place.jail.remove(&JailPath::parse("/nowhere/x").unwrap()).unwrap();
    assert_eq!(place.names("etc"), ["b"]);
}

#[test]
fn a_jail_is_complete_when_its_marker_is_there_or_as_another_program_left_it() {
    let place = Place::new();
    assert!(!place.jail.is_complete());
    fs::write(place.at("usr"), "").unwrap();
    assert!(!place.jail.is_complete(), "somebody's files");
    fs::create_dir_all(place.at("etc")).unwrap();
    assert!(place.jail.is_complete(), "one of the original");
    fs::write(place.at(JOURNAL), "").unwrap();
    assert!(!place.jail.is_complete(), "one that is being filled");
    fs::write(place.at(MARKER), "{}").unwrap();
    assert!(place.jail.is_complete());
    assert!(slurm::agent::path::JAIL_MARKER.ends_with(&format!("/{MARKER}")));
    assert!(slurm::agent::path::JAIL_JOURNAL.ends_with(&format!("/{JOURNAL}")));
    assert!(matches!(Jail::open(&place.at("none")), Err(JailError::Root { .. })));
}

/// Runs a test of this program where it is root and may mount.
fn in_a_mount_namespace(script: &str, test: &str) {
    let folder = tempfile::tempdir().unwrap();
    let script = format!("set -e; {script}; exec \"$1\" --exact {test} --ignored --nocapture");
    let output = Command::new("unshare")
        .args(["--map-root-user", "--mount", "sh", "-c", &script, "sh"])
        .arg(std::env::current_exe().unwrap())
        .current_dir(folder.path())
        .env("JAIL", folder.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn a_full_jail_keeps_what_it_has() {
    in_a_mount_namespace("mount -t tmpfs -o size=64k none \"$JAIL\"", "jail::tests::inside_a_full_jail");
}

#[test]
fn a_jail_that_is_read_only_is_told_so() {
    in_a_mount_namespace(
        "mount -t tmpfs none \"$JAIL\"; mkdir \"$JAIL/etc\"; echo -n 1 > \"$JAIL/etc/a\"; \
         mount -o remount,ro \"$JAIL\"",
        "jail::tests::inside_a_jail_that_is_read_only",
    );
}

#[test]
#[ignore = "runs inside a_full_jail_keeps_what_it_has"]
fn inside_a_full_jail() {
    let root = PathBuf::from(std::env::var_os("JAIL").unwrap());
    let jail = Jail::open(&root).unwrap();
    jail.write(&[file("/etc/a", "1")]).unwrap();
    let files = [file("/etc/a", "2"), file("/etc/large", &"x".repeat(100 << 10))];
    let error = jail.write(&files).unwrap_err();
    assert!(matches!(error, JailError::Full { .. }), "{error}");
    assert_eq!(fs::read_to_string(root.join("etc/a")).unwrap(), "1");
    assert_eq!(fs::read_dir(root.join("etc")).unwrap().count(), 1, "what could not be written is gone");
}

#[test]
#[ignore = "runs inside a_jail_that_is_read_only_is_told_so"]
fn inside_a_jail_that_is_read_only() {
    let root = PathBuf::from(std::env::var_os("JAIL").unwrap());
    let jail = Jail::open(&root).unwrap();
    for path in ["/etc/a", "/opt/new"] {
        let error = jail.write(&[file(path, "2")]).unwrap_err();
        assert!(matches!(error, JailError::ReadOnly { .. }), "{error}");
    }
    let error = jail.remove(&JailPath::parse("/etc/a").unwrap()).unwrap_err();
    assert!(matches!(error, JailError::ReadOnly { .. }), "{error}");
}
