//! Tests that want a process of their own: with other rights or limits than the others, or as the parent of all children.

use std::process::Command;

/// Runs a test that is ignored otherwise, by this command if one is given.
pub fn run_alone(by: &[&str], test: &str) {
    let own = std::env::current_exe().unwrap();
    let mut command = match by.split_first() {
        Some((program, arguments)) => {
            let mut command = Command::new(program);
            command.args(arguments).arg(own);
            command
        }
        None => Command::new(own),
    };
    let output = command.args(["--exact", test, "--ignored"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}{words}");
}
