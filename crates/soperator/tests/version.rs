//! VERSION is the one place for our version: `hack/sync-version` stamps it elsewhere, and nothing may drift from it.

#![allow(clippy::expect_used, reason = "this file is a test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs the script that lies in `tree`. By bash, because a file that was just copied is busy while another test's new process
/// still has it open for writing.
fn sync_version(tree: &Path, args: &[&str]) -> Output {
    let script = tree.join("hack/sync-version");
    Command::new("bash").arg(script).args(args).output().expect("hack/sync-version starts")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("UTF-8")
}

const CHART: &str = "\
apiVersion: v2
name: soperator
version: 0.1.0 # ours
appVersion: \"0.1.0\"
dependencies:
  - name: other
    version: 4.5.6
";
const VALUES: &str = "\
image: soperator.local/soperator:0.1.0
images: [\"soperator.local/slurm:0.1.0-slurm24.11\", 'soperator.local/slurm:0.1.0-slurm26.05']
foreign: example.com/slurm:7.8.9
repository: soperator.local/slurm
tag: \"0.1.0-slurm24.11\" # ours
other:
  repository: example.com/slurm
  tag: 7.8.9
";
const POD: &str = "      image: soperator.local/slurm:0.1.0-slurm24.11";
const VENDORED: &str = "name: vendored\nversion: 9.9.9\n";

/// A copy of what the script works on, in which nothing drifts from VERSION 0.1.0.
fn copy() -> TempDir {
    let dir = TempDir::new().expect("a temporary directory");
    let tree = dir.path();
    for folder in ["hack", "helm/soperator/charts/vendored", "examples/deep/er"] {
        fs::create_dir_all(tree.join(folder)).expect("a folder");
    }
    for file in ["hack/sync-version", "Cargo.toml", "Cargo.lock"] {
        fs::copy(root().join(file), tree.join(file)).expect("a copy");
    }
    for (file, text) in [
        ("VERSION", "0.1.0\n"),
        ("helm/soperator/Chart.yaml", CHART),
        ("helm/soperator/values.yaml", VALUES),
        ("helm/soperator/charts/vendored/Chart.yaml", VENDORED),
        ("examples/deep/er/pod.yaml", POD),
    ] {
        fs::write(tree.join(file), text).expect("a file");
    }
    let output = sync_version(tree, &[]);
    assert!(output.status.success(), "{}", stderr(&output));
    dir
}

fn read(dir: &TempDir, file: &str) -> String {
    fs::read_to_string(dir.path().join(file)).expect("a file")
}

fn plant(dir: &TempDir, file: &str, from: &str, to: &str) {
    let text = read(dir, file);
    assert!(text.contains(from), "{file} does not contain {from}");
    fs::write(dir.path().join(file), text.replacen(from, to, 1)).expect("a file");
}

/// The one-based number of the first line of `text` that `is` true of.
fn line_of(text: &str, is: impl Fn(&str) -> bool) -> usize {
    text.lines().position(is).expect("a line") + 1
}

#[test]
fn nothing_in_the_repository_drifts_from_version() {
    let output = sync_version(&root(), &["--check"]);
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    let version = fs::read_to_string(root().join("VERSION")).expect("VERSION");
    assert_eq!(version.trim_end(), env!("CARGO_PKG_VERSION"));
}

#[test]
fn each_drift_is_reported_with_file_and_line() {
    let dir = copy();
    let cargo_line = line_of(&read(&dir, "Cargo.toml"), |line| line == "version = \"0.1.0\"");
    let lock_line = line_of(&read(&dir, "Cargo.lock"), |line| line == "name = \"soperator\"") + 1;
    for (file, line, from, to) in [
        ("Cargo.toml", cargo_line, "\nversion = \"0.1.0\"", "\nversion = \"0.1.1\""),
        ("Cargo.lock", lock_line, "\"soperator\"\nversion = \"0.1.0\"", "\"soperator\"\nversion = \"0.0.9\""),
        ("helm/soperator/Chart.yaml", 3, "\nversion: 0.1.0", "\nversion: 0.2.0"),
        ("helm/soperator/Chart.yaml", 4, "appVersion: \"0.1.0\"", "appVersion: \"0.2.0\""),
        ("helm/soperator/values.yaml", 1, "soperator:0.1.0", "soperator:latest"),
        ("helm/soperator/values.yaml", 2, "0.1.0-slurm26.05", "0.0.1-slurm26.05"),
        ("helm/soperator/values.yaml", 2, "0.1.0-slurm26.05", "0.1.0-rc.1-slurm26.05"),
        ("helm/soperator/values.yaml", 5, "tag: \"0.1.0-", "tag: \"0.2.0-"),
        ("examples/deep/er/pod.yaml", 1, "0.1.0-slurm", "0.3.0-slurm"),
    ] {
        let dir = copy();
        plant(&dir, file, from, to);
        let before = read(&dir, file);
        let output = sync_version(dir.path(), &["--check"]);
        assert_eq!(output.status.code(), Some(1), "{file}: {to}");
        let lines: Vec<String> = stdout(&output).lines().map(str::to_owned).collect();
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].starts_with(&format!("{file}:{line}: ")), "{lines:?}");
        assert!(stderr(&output).contains("make sync-version"), "{}", stderr(&output));
        assert_eq!(read(&dir, file), before, "--check must not write");
    }
}

#[test]
fn a_new_version_is_stamped_everywhere_and_nothing_else_changes() {
    for new in ["2.10.0", "0.2.0-rc.1", "1.0.0"] {
        let dir = copy();
        let cargo_toml = read(&dir, "Cargo.toml");
        // Through a version with a pre-release, to see that its parts are not taken for an image variant.
        for version in ["3.0.0-alpha1.beta", new] {
            fs::write(dir.path().join("VERSION"), format!("{version}\n")).expect("VERSION");
            assert!(sync_version(dir.path(), &[]).status.success());
        }
        assert!(sync_version(dir.path(), &["--check"]).status.success());

        let stamped = |text: &str| text.replace("0.1.0", new);
        assert_eq!(read(&dir, "helm/soperator/Chart.yaml"), stamped(CHART));
        assert_eq!(read(&dir, "helm/soperator/values.yaml"), stamped(VALUES));
        assert_eq!(read(&dir, "examples/deep/er/pod.yaml"), stamped(POD));
        assert_eq!(read(&dir, "helm/soperator/charts/vendored/Chart.yaml"), VENDORED);

        let changed: Vec<(String, String)> = cargo_toml
            .lines()
            .zip(read(&dir, "Cargo.toml").lines())
            .filter(|(old, new)| old != new)
            .map(|(old, new)| (old.to_owned(), new.to_owned()))
            .collect();
        assert_eq!(changed, [("version = \"0.1.0\"".to_owned(), format!("version = \"{new}\""))]);

        let lock = read(&dir, "Cargo.lock");
        assert!(lock.contains(&format!("name = \"soperator\"\nversion = \"{new}\"\ndependencies")), "{new}");
        for package in lock.split("[[package]]\n").skip(1).filter(|package| package.contains("\nsource = ")) {
            assert!(
                fs::read_to_string(root().join("Cargo.lock")).expect("Cargo.lock").contains(package),
                "{package}"
            );
        }
    }
}

#[test]
fn a_version_that_cannot_be_used_changes_nothing() {
    for bad in [
        "",
        "1",
        "1.2",
        "v1.2.3",
        "01.2.3",
        "1.2.3-",
        "1.2.3-01",
        "1.2.3+build",
        "1.2.3 ",
        "1.2.3\n4.5.6",
        "x",
    ] {
        for args in [&[][..], &["--check"]] {
            let dir = copy();
            let before =
                ["Cargo.toml", "Cargo.lock", "helm/soperator/Chart.yaml"].map(|file| read(&dir, file));
            fs::write(dir.path().join("VERSION"), format!("{bad}\n")).expect("VERSION");
            let output = sync_version(dir.path(), args);
            assert_eq!(output.status.code(), Some(2), "{bad:?}: {}", stdout(&output));
            assert!(stderr(&output).starts_with("sync-version: VERSION holds"), "{}", stderr(&output));
            let after =
                ["Cargo.toml", "Cargo.lock", "helm/soperator/Chart.yaml"].map(|file| read(&dir, file));
            assert_eq!(after, before, "{bad:?}");
        }
    }
}

#[test]
fn stamping_twice_says_that_nothing_is_left_to_do() {
    let dir = copy();
    assert_eq!(stdout(&sync_version(dir.path(), &[])), "everything has version 0.1.0 already\n");
}

#[test]
fn unknown_arguments_are_refused() {
    let dir = copy();
    let output = sync_version(dir.path(), &["--force"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--force"), "{}", stderr(&output));
}
