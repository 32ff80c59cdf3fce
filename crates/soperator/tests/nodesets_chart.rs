//! What the chart nodesets renders, `soperator validate` takes.

#![allow(clippy::expect_used, reason = "this file is a test")]

use std::fs;
use std::path::Path;
use std::process::Command;

use rig::cache::Cache;

/// The first YAML text of the chart's README: the values that a reader begins with.
fn values_of_readme(chart: &Path) -> String {
    let readme = fs::read_to_string(chart.join("README.md")).expect("a README");
    let (_, rest) = readme.split_once("```yaml\n").expect("an example");
    rest.split_once("```").expect("its end").0.to_owned()
}

#[test]
fn sets_of_the_example_in_the_readme_are_valid() {
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../helm/nodesets");
    let folder = tempfile::tempdir().expect("a folder");
    let (values, rendered) = (folder.path().join("values.yaml"), folder.path().join("sets.yaml"));
    fs::write(&values, values_of_readme(&chart)).expect("written");
    let mut helm = rig::rig::helm(&Cache::open().expect("a cache"), None).expect("Helm");
    helm.args(["template", "workers", "--kube-version", "1.31", "--values"]).arg(values).arg(chart);
    let output = helm.output().expect("helm runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
    assert_eq!(text.matches("kind: NodeSet").count(), 2, "{text}");
    fs::write(&rendered, &text).expect("written");
    let output =
        Command::new(env!("CARGO_BIN_EXE_soperator")).args(["validate", "-f"]).arg(rendered).output();
    let output = output.expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.is_empty(), "{said}\n{text}");
    let summary = String::from_utf8_lossy(&output.stderr);
    assert!(summary.contains("2 checked, 0 errors"), "{summary}");
}
