//! Machines: process trees in namespaces of their own.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use serde_json::json;

/// A supervisor outlives builds of `rig`, which replace the file that it runs.
#[test]
fn a_machine_starts_although_the_file_of_the_program_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let (program, spec) = (dir.path().join("rig"), dir.path().join("spec.json"));
    // Copied by another process: what a test beside us starts at this moment would inherit our open file, and what is
    // open for writing cannot be run.
    assert!(Command::new("cp").arg(env!("CARGO_BIN_EXE_rig")).arg(&program).status().unwrap().success());
    let description = json!({
        "hostname": "gone", "binds": [], "shared_mounts": false, "restart": false, "programs": [],
        "log_dir": dir.path().join("log"),
    });
    fs::write(&spec, description.to_string()).unwrap();
    // Machines are root's; who is not may be it in a user namespace.
    let as_root: &[&str] =
        if nix::unistd::geteuid().is_root() { &["env"] } else { &["unshare", "--user", "--map-root-user"] };
    let mut machine = Command::new(as_root[0])
        .args(&as_root[1..])
        .args(["sh", "-c", "exec 9< \"$1\"; rm \"$1\"; exec /proc/self/fd/9 machine \"$2\"", "sh"])
        .args([&program, &spec])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(machine.stdout.take().unwrap()).lines();
    let init: u32 = said.next().unwrap().unwrap().parse().unwrap();
    assert_eq!(said.next().unwrap().unwrap(), "ready");
    assert!(!program.exists());
    assert_eq!(fs::read_to_string(format!("/proc/{init}/comm")).unwrap(), "rig\n");
    drop(machine.stdin.take());
    assert!(machine.wait().unwrap().success());
}
