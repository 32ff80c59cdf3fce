//! Runs the real program, under each of its names.

#![allow(clippy::expect_used, reason = "this file is a test")]

use std::ffi::OsStr;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

/// The exit code for a role that this version does not contain.
const NOT_BUILT: i32 = 3;

/// Program name and subcommand of each role.
const ROLES: [(&str, &str); 5] = [
    ("slurm_operator", "operator"),
    ("soperatorchecks", "soperatorchecks"),
    ("sconfigcontroller", "sconfigcontroller"),
    ("rebooter", "rebooter"),
    ("exporter", "exporter"),
];

/// The roles that this version does not contain.
fn not_built() -> impl Iterator<Item = (&'static str, &'static str)> {
    ROLES.into_iter().filter(|(_, subcommand)| !["operator", "sconfigcontroller"].contains(subcommand))
}

fn soperator() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_soperator"))
}

fn run(program: impl AsRef<OsStr>, args: &[&str]) -> Output {
    Command::new(program).args(args).output().expect("the program starts")
}

/// Runs the program through a symbolic link called `name`.
fn run_as(name: &str, args: &[&str]) -> Output {
    let dir = TempDir::new().expect("a temporary directory");
    let link = dir.path().join(name);
    symlink(soperator(), &link).expect("a symbolic link");
    run(&link, args)
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("UTF-8")
}

#[test]
fn a_link_with_the_name_of_a_role_does_what_the_subcommand_does() {
    for (program, subcommand) in not_built() {
        for flags in [&[][..], &["--metrics-port=8080"], &["positional", "-x"]] {
            let linked = run_as(program, flags);
            let asked = run(soperator(), &[&[subcommand], flags].concat());
            assert_eq!(linked, asked, "{program} {flags:?}");
        }
    }
}

#[test]
fn the_operator_refuses_wrong_settings_by_both_names() {
    for flags in [&["--controllers=nodesets"][..], &["--no-such-flag"]] {
        let linked = run_as("slurm_operator", flags);
        let asked = run(soperator(), &[&["operator"], flags].concat());
        assert!(!asked.status.success() && asked.status.code() == linked.status.code(), "{flags:?}");
        assert!(
            stderr(&linked).contains(flags[0].split('=').next().unwrap_or_default()),
            "{}",
            stderr(&linked)
        );
    }
}

#[test]
fn a_role_without_a_cluster_says_what_to_do() {
    for role in ["operator", "sconfigcontroller"] {
        let output = Command::new(soperator())
            .args([role, "--metrics-bind-address=0", "--health-probe-bind-address=0"])
            .env("KUBECONFIG", "/nowhere/kubeconfig")
            .env("HOME", "/nowhere")
            .env_remove("KUBERNETES_SERVICE_HOST")
            .output()
            .expect("the program starts");
        assert_eq!(output.status.code(), Some(1), "{role}");
        assert!(
            stderr(&output).starts_with("error: no cluster is known: run in a pod"),
            "{}",
            stderr(&output)
        );
    }
}

#[test]
fn the_sconfigcontroller_takes_the_flags_of_the_original_and_warns_of_those_without_effect() {
    let flags = [
        "--cluster-namespace=slurm",
        "--cluster-name=c",
        "--jail-path=/mnt/jail",
        "--slurmapiserver=http://c-rest-svc:6820",
        "--reconfigure-poll-interval=20s",
        "--reconfigure-wait-timeout=1m",
        "--leader-elect=false",
        "--log-level=info",
        "--metrics-bind-address=0",
        "--health-probe-bind-address=0",
        "--debug-bind-address=0",
    ];
    let dir = TempDir::new().expect("a temporary directory");
    let link = dir.path().join("sconfigcontroller");
    symlink(soperator(), &link).expect("a symbolic link");
    let output = Command::new(&link)
        .args(flags)
        .env("KUBECONFIG", "/nowhere/kubeconfig")
        .env("HOME", "/nowhere")
        .env_remove("KUBERNETES_SERVICE_HOST")
        .output()
        .expect("the program starts");
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let log = stdout(&output);
    for flag in ["--slurmapiserver", "--reconfigure-poll-interval"] {
        assert_eq!(log.matches(&format!("{flag} has no effect")).count(), 1, "{log}");
    }
    let wrong = run(&link, &["--reconfigure-wait-timeout=soon"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(stderr(&wrong).contains("is no duration"), "{}", stderr(&wrong));
}

#[test]
fn a_role_that_is_not_built_says_so_and_fails() {
    for (program, subcommand) in not_built() {
        let output = run_as(program, &["--leader-elect"]);
        assert_eq!(output.status.code(), Some(NOT_BUILT), "{program}");
        assert_eq!(stdout(&output), "");
        let expected = format!(
            "error: soperator {} does not contain the role `{subcommand}`",
            env!("CARGO_PKG_VERSION")
        );
        assert!(stderr(&output).starts_with(&expected), "{}", stderr(&output));
    }
}

/// Whether a line of usage ends here, but for the word about options.
fn is_end(rest: &str) -> bool {
    rest.is_empty() || rest == " [OPTIONS]"
}

#[test]
fn help_names_the_program_as_it_was_called() {
    for (program, subcommand) in ROLES {
        for flag in ["--help", "-h"] {
            let linked = run_as(program, &[flag]);
            assert!(linked.status.success(), "{program} {flag}: {}", stderr(&linked));
            let text = stdout(&linked);
            let usage = |line: &str| line.strip_prefix(&format!("Usage: {program}")).is_some_and(is_end);
            assert!(text.lines().any(usage), "{text}");
        }
        let asked = stdout(&run(soperator(), &[subcommand, "--help"]));
        let usage =
            |line: &str| line.strip_prefix(&format!("Usage: soperator {subcommand}")).is_some_and(is_end);
        assert!(asked.lines().any(usage), "{asked}");
    }
}

#[test]
fn help_lists_every_subcommand_and_the_exit_codes() {
    let help = stdout(&run(soperator(), &["--help"]));
    for (_, subcommand) in ROLES.into_iter().chain([("", "version"), ("", "config"), ("", "completion")]) {
        assert!(help.lines().any(|line| line.split_whitespace().next() == Some(subcommand)), "{help}");
    }
    assert!(help.contains("Exit codes: 0 done"), "{help}");
}

#[test]
fn any_other_name_behaves_as_soperator() {
    for name in ["soperator", "slurm-operator", "something"] {
        for args in [&["version"][..], &["--help"], &["exporter"], &["no-such-thing"], &[]] {
            assert_eq!(run_as(name, args), run(soperator(), args), "{name} {args:?}");
        }
    }
}

#[test]
fn version_prints_name_and_version() {
    let expected = format!("soperator {}\n", env!("CARGO_PKG_VERSION"));
    for args in [&["version"][..], &["version", "--output", "text"], &["--version"]] {
        let output = run(soperator(), args);
        assert!(output.status.success(), "{args:?}");
        assert_eq!(stdout(&output), expected, "{args:?}");
    }
}

#[test]
fn version_prints_json_on_request() {
    let output = run(soperator(), &["version", "--output", "json"]);
    assert!(output.status.success());
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(answer, serde_json::json!({ "name": "soperator", "version": env!("CARGO_PKG_VERSION") }));
}

#[test]
fn version_of_a_link_names_the_link() {
    for (program, _) in ROLES {
        let output = run_as(program, &["--version"]);
        assert_eq!(stdout(&output), format!("{program} {}\n", env!("CARGO_PKG_VERSION")));
    }
}

#[test]
fn completion_covers_every_subcommand() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = run(soperator(), &["completion", shell]);
        assert!(output.status.success(), "{shell}");
        let script = stdout(&output);
        for (_, subcommand) in ROLES.into_iter().chain([("", "version"), ("", "config"), ("", "completion")])
        {
            assert!(script.contains(subcommand), "{shell} does not complete {subcommand}");
        }
    }
}

#[test]
fn the_bash_completion_is_valid_bash() {
    let dir = TempDir::new().expect("a temporary directory");
    let script = dir.path().join("soperator.bash");
    std::fs::write(&script, run(soperator(), &["completion", "bash"]).stdout).expect("a file");
    let check =
        run("bash", &["-c", "source \"$1\" && complete -p soperator", "bash", &script.to_string_lossy()]);
    assert!(check.status.success(), "{}", stderr(&check));
}

#[test]
fn wrong_arguments_exit_with_2_and_write_nothing_to_stdout() {
    for args in [&[][..], &["no-such-thing"], &["version", "--output", "yaml"], &["completion"]] {
        let output = run(soperator(), args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert_eq!(stdout(&output), "", "{args:?}");
        assert_ne!(stderr(&output), "", "{args:?}");
    }
}

#[test]
fn output_that_cannot_be_written_is_a_failure_but_a_closed_pipe_is_not() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
    let output = Command::new(soperator()).arg("version").stdout(full).output().expect("the program starts");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).starts_with("error: cannot write to standard output"), "{}", stderr(&output));

    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let output = Command::new(soperator())
        .args(["completion", "bash"])
        .stdout(writer)
        .output()
        .expect("the program starts");
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stderr(&output), "");
}
