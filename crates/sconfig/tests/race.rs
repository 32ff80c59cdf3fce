//! Somebody in the jail swaps directories and files for links as fast as they can, while files are written: no write lands
//! outside of the jail, and none goes through a link.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "this file is a test")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use sconfig::jail::{Jail, JailError, JailPath, Wanted};

/// The variable that makes this program the one who swaps.
const SWAPS: &str = "SCONFIG_TEST_SWAPS";
/// Writes in `make test`.
const SHORT: usize = 500;
/// Writes where `SOPERATOR_SOAK` is set.
const LONG: usize = 10_000;

struct Swapper(Child);

impl Drop for Swapper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Another process, as a user in the jail would have one.
fn start_swapping(folder: &Path) -> Swapper {
    let program = std::env::current_exe().unwrap();
    let swapper = Command::new(program)
        .args(["--exact", "swaps_until_it_is_killed", "--ignored", "--nocapture"])
        .env(SWAPS, folder)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    Swapper(swapper)
}

#[test]
#[ignore = "is the other side of the race"]
fn swaps_until_it_is_killed() {
    let Some(folder) = std::env::var_os(SWAPS).map(PathBuf::from) else { return };
    let (jail, outside) = (folder.join("jail"), folder.join("outside"));
    let (etc, slurm) = (jail.join("etc"), jail.join("etc/slurm"));
    let step = |result: std::io::Result<()>| drop(result);
    for round in 0_u64.. {
        match round % 4 {
            // The directory becomes a link that leads out, and a directory again.
            0 => {
                step(fs::remove_dir_all(etc.join("kept")));
                step(fs::rename(&slurm, etc.join("kept")));
                step(symlink(&outside, &slurm));
                step(fs::remove_file(&slurm));
                step(fs::rename(etc.join("kept"), &slurm));
            }
            // The file becomes a link to somebody else's, then a directory.
            1 => {
                step(symlink(outside.join("victim"), slurm.join("link")));
                step(fs::rename(slurm.join("link"), slurm.join("a.conf")));
                step(fs::remove_file(slurm.join("a.conf")));
                step(fs::create_dir(slurm.join("a.conf")));
                step(fs::remove_dir(slurm.join("a.conf")));
            }
            // What is on its way becomes a link.
            2 if round % 32 == 2 => {
                for item in fs::read_dir(&slurm).into_iter().flatten().flatten() {
                    if item.file_name().to_string_lossy().starts_with(".sconfig-") {
                        step(fs::remove_file(item.path()));
                        step(symlink(outside.join("victim"), item.path()));
                    }
                }
            }
            // A file of the user, never written through a link, and now and then a moment in which a write can succeed.
            _ => {
                step(fs::write(slurm.join("own"), "of the user"));
                step(fs::rename(slurm.join("own"), slurm.join("a.conf")));
                if round % 64 == 3 {
                    std::thread::sleep(std::time::Duration::from_millis(10));
                }
            }
        }
    }
}

/// All files of a directory with their content.
fn content(folder: &Path) -> BTreeMap<PathBuf, String> {
    let items = fs::read_dir(folder).unwrap().map(|item| item.unwrap().path());
    items.map(|path| (path.clone(), fs::read_to_string(&path).unwrap())).collect()
}

#[test]
fn no_write_lands_outside_of_the_jail() {
    let rounds = if std::env::var_os("SOPERATOR_SOAK").is_some() { LONG } else { SHORT };
    let folder = tempfile::tempdir().unwrap();
    let (root, outside) = (folder.path().join("jail"), folder.path().join("outside"));
    fs::create_dir_all(root.join("etc/slurm")).unwrap();
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("victim"), "untouched").unwrap();
    fs::write(outside.join("a.conf"), "untouched").unwrap();
    let before = content(&outside);

    let swapper = start_swapping(folder.path());
    let jail = Jail::open(&root).unwrap();
    let path = |path: &str| JailPath::parse(path).unwrap();
    let (mut written, mut refused) = (0, 0);
    for round in 0..rounds {
        let file =
            |name: &str| Wanted { path: path(name), mode: 0o644, content: format!("{round}").into_bytes() };
        match jail.write(&[file("/etc/slurm/a.conf"), file("/etc/slurm/b.conf")]) {
            Ok(left) => {
                written += 1;
                left.iter().for_each(|leftover| jail.clear(leftover));
            }
            Err(JailError::Root { .. } | JailError::Full { .. } | JailError::ReadOnly { .. }) => {
                unreachable!()
            }
            Err(_) => refused += 1,
        }
        // Reading and removing follow no link either.
        let _ = jail.compare(&file("/etc/slurm/a.conf"));
        let _ = jail.remove(&path("/etc/slurm/victim"));
        jail.leftovers(&path("/etc/slurm/a.conf")).iter().for_each(|leftover| jail.clear(leftover));
    }
    drop(swapper);
    println!("{written} writes, {refused} refusals");
    assert_eq!(content(&outside), before, "something was written outside of the jail");
    assert!(written > 0 && refused > 0, "{written} writes and {refused} refusals: there was no race");
}
