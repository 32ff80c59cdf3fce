//! Keeps the crates in their layers: who may use whom, and what must not be reached at all.
//!
//! The rules are in [`rules`]. The checks are pure functions over what Cargo and the sources say, so that the
//! tests below can plant a violation and see it caught.

#![allow(clippy::expect_used, clippy::panic, reason = "this file is a test")]

mod rules;
mod source;
mod tree;

use std::path::{Path, PathBuf};
use std::process::Command;

use rules::{RULES, check_direction, check_reach, check_workspace_reach};
use source::names_of_kube_api;
use tree::{Member, Reach};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the root of the workspace")
}

/// What `cargo ARGS` prints. Never needs the network, and never changes Cargo.lock.
fn cargo(args: &[&str]) -> String {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(program)
        .args(args)
        .args(["--offline", "--locked"])
        .current_dir(root())
        .output()
        .expect("cargo starts");
    assert!(output.status.success(), "cargo {args:?} failed:\n{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn members() -> Vec<Member> {
    let metadata = cargo(&["metadata", "--no-deps", "--format-version", "1"]);
    Member::parse(&metadata).expect("cargo metadata prints what we know")
}

fn assert_none(violations: &[String]) {
    assert!(violations.is_empty(), "\n{}\n", violations.join("\n"));
}

#[test]
fn crates_use_only_the_crates_below_them() {
    let members = members();
    assert!(members.iter().any(|member| member.name == "soperator"), "no members found: {members:?}");
    assert_none(&check_direction(&members, RULES));
}

#[test]
fn crates_reach_nothing_that_their_layer_forbids() {
    let mut violations = Vec::new();
    for member in members() {
        let Some(rule) = RULES.iter().find(|rule| rule.name == member.name) else {
            continue; // `crates_use_only_the_crates_below_them` reports it.
        };
        let mut args = vec!["tree", "-p", &member.name, "-e", "features,no-dev", "--prefix", "none"];
        if rule.core_only {
            args.push("--no-default-features");
        }
        let reach = Reach::parse(&cargo(&args));
        assert!(reach.packages.contains(&member.name), "{reach:?}");
        violations.extend(check_reach(rule, &reach));
    }
    assert_none(&violations);
}

#[test]
fn ring_is_the_only_cryptography() {
    let reach = Reach::parse(&cargo(&["tree", "--workspace", "-e", "features", "--prefix", "none"]));
    assert!(reach.packages.contains("ring"), "the rig speaks TLS, so ring should be here: {reach:?}");
    assert_none(&check_workspace_reach(&reach));
}

#[test]
fn only_the_engine_names_kube_api() {
    let mut violations = Vec::new();
    let mut files = 0;
    for (name, file) in sources_of_shipped_crates() {
        files += 1;
        let text = std::fs::read_to_string(&file).expect("a source file");
        let Ok(lines) = names_of_kube_api(&text) else {
            panic!("{} is no Rust", file.display());
        };
        if rules::may_name_kube_api(&name) {
            continue;
        }
        let shown = file.strip_prefix(root()).unwrap_or(&file).display().to_string();
        violations.extend(lines.into_iter().map(|line| {
            format!("{shown}:{line}: names kube::Api; only `engine` talks to Kubernetes, put the call there")
        }));
    }
    assert!(files > 0, "no source files found");
    assert_none(&violations);
}

/// Every Rust file below `crates/*/src`, with the name of the crate's folder.
fn sources_of_shipped_crates() -> Vec<(String, PathBuf)> {
    let mut files = Vec::new();
    for folder in std::fs::read_dir(root().join("crates")).expect("crates/") {
        let folder = folder.expect("an entry of crates/");
        let name = folder.file_name().to_string_lossy().into_owned();
        let mut open = vec![folder.path().join("src")];
        while let Some(path) = open.pop() {
            if path.is_dir() {
                open.extend(std::fs::read_dir(&path).expect("a folder").map(|e| e.expect("an entry").path()));
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push((name.clone(), path));
            }
        }
    }
    files.sort();
    files
}
