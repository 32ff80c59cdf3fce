//! `soperator config show`, run as users run it.

#![allow(clippy::expect_used, reason = "this file is a test")]

use std::process::{Command, Output};

use tempfile::TempDir;

fn show(args: &[&str], env: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_soperator"));
    // Whatever the machine has set must not count.
    command.env_clear().envs(env.iter().copied()).args(["config", "show"]).args(args);
    command.output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

fn json(args: &[&str], env: &[(&str, &str)]) -> serde_json::Value {
    let output = show(&[args, &["-o", "json"]].concat(), env);
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn row(rows: &serde_json::Value, key: &str) -> (serde_json::Value, String) {
    let rows = rows.as_array().expect("a list");
    let row = rows.iter().find(|row| row["key"] == key).expect("the key");
    (row["value"].clone(), row["source"].as_str().expect("a source").to_string())
}

#[test]
fn each_value_is_shown_with_its_source() {
    let dir = TempDir::new().expect("a temporary directory");
    let file = dir.path().join("soperator.yaml");
    std::fs::write(&file, "maxConcurrentReconciles: 4\nlogging:\n  level: warn\n").expect("a file");
    let file = file.display().to_string();
    let args = ["--config", &file, "--log-level", "debug"];
    let env = [("LEADER_ELECTION", "false")];

    let rows = json(&args, &env);
    assert_eq!(row(&rows, "maxConcurrentReconciles"), (4.into(), format!("{file}:1")));
    assert_eq!(row(&rows, "logging.level"), ("debug".into(), "flag --log-level".into()));
    assert_eq!(row(&rows, "leaderElection.enabled"), (false.into(), "env LEADER_ELECTION".into()));
    assert_eq!(row(&rows, "leaderElection.id"), ("slurm-operator".into(), "default".into()));
    assert_eq!(row(&rows, "metrics.bindAddress"), (":8080".into(), "default".into()));

    let table = text(&show(&args, &env).stdout);
    assert!(table.starts_with("KEY "), "{table}");
    let line = |key: &str| table.lines().find(|line| line.starts_with(key)).expect("a line").to_string();
    let words = |key: &str| line(key).split_whitespace().map(String::from).collect::<Vec<_>>();
    assert_eq!(words("logging.level"), ["logging.level", "debug", "flag", "--log-level"]);
    assert_eq!(words("logging.outputs"), ["logging.outputs", "(format=json", "type=stdout)", "default"]);
    assert_eq!(words("optionalKinds.mariadb"), ["optionalKinds.mariadb", "auto", "default"]);
    assert_eq!(words("tls.key"), ["tls.key", "-", "default"]);

    let yaml = text(&show(&[&args[..], &["-o", "yaml"]].concat(), &env).stdout);
    let again: serde_json::Value = serde_saphyr::from_str(&yaml).expect("YAML");
    assert_eq!(again, rows);
}

#[test]
fn another_role_has_other_defaults() {
    let rows = json(&["--role", "soperatorchecks"], &[]);
    assert_eq!(row(&rows, "leaderElection.enabled").0, false);
    assert_eq!(row(&rows, "leaderElection.id").0, "soperatorchecks");
    assert_eq!(row(&rows, "controllers").0, serde_json::Value::Null);
    let rows = json(&["--controllers", "*,-topology"], &[]);
    let served = serde_json::json!([
        "nodeconfigurator",
        "nodeset",
        "slinky-cluster",
        "slinky-nodeset",
        "slurmcluster"
    ]);
    assert_eq!(row(&rows, "controllers").0, served);
}

#[test]
fn mistakes_are_told_line_by_line_and_warnings_apart() {
    let dir = TempDir::new().expect("a temporary directory");
    let file = dir.path().join("c.yaml");
    std::fs::write(&file, "logging:\n  levle: x\n").expect("a file");
    let output = show(&["--config", &file.display().to_string(), "--controllers=node"], &[]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), String::new()));
    let told = text(&output.stderr);
    assert!(told.contains("c.yaml:2: logging.levle: unknown key; did you mean `level`?\n"), "{told}");
    assert!(told.contains("--controllers: no controller is called \"node\""), "{told}");

    let output = show(&["--enable-http2"], &[]);
    assert!(output.status.success());
    assert!(text(&output.stderr).starts_with("warning: --enable-http2: has no effect"));
    assert_eq!(show(&["--no-such-flag"], &[]).status.code(), Some(2));
}
