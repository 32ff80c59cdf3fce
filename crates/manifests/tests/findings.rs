//! What users read.

#![allow(clippy::unwrap_used, reason = "this file is a test")]

use std::sync::LazyLock;

use manifests::Validator;

static VALIDATOR: LazyLock<Validator> = LazyLock::new(Validator::new);

fn lines(text: &str) -> Vec<String> {
    let report = VALIDATOR.check(text).unwrap();
    report.findings.iter().map(ToString::to_string).collect()
}

const HEAD: &str = "apiVersion: slurm.nebius.ai/v1alpha1\nkind: JailedConfig\nmetadata:\n  name: motd\n";

#[test]
fn every_definition_can_be_checked() {
    Validator::new().load().unwrap();
}

#[test]
fn a_finding_is_in_the_line_of_its_field() {
    let text = format!(
        "{HEAD}spec:\n  configMap:\n    name: ''\n  items:\n  - key: a\n    path: /a\n  - key: b\n    path: b\n    mode: 512\n"
    );
    assert_eq!(
        lines(&text),
        [
            "7: spec.configMap.name: must have at least 1 characters, and has 0",
            "12: spec.items[1].path: path must be absolute and without '.' and '..' parts, such as /etc/slurm/slurm.conf",
            "13: spec.items[1].mode: 512 must be at most 511",
        ]
    );
}

#[test]
fn a_missing_field_is_in_the_line_of_its_object() {
    let text = format!("{HEAD}spec:\n  items:\n  - key: a\n    path: /a\n  - path: /b\n");
    assert_eq!(
        lines(&text),
        ["5: spec.configMap: required, but missing", "9: spec.items[1].key: required, but missing"]
    );
}

#[test]
fn documents_have_their_own_lines_and_break_alone() {
    let good = format!("{HEAD}spec:\n  configMap: {{name: a}}\n  items: [{{key: a, path: /a}}]\n");
    let text = format!("# comment\n---\n{good}--- # next\na: [b\n---\n{good}  itms: []\n---\n");
    let found = lines(&text);
    assert_eq!(found.len(), 2, "{found:#?}");
    assert!(found[0].starts_with("11:") && found[0].contains("broken YAML"), "{found:#?}");
    assert_eq!(found[1], "20: spec.itms: unknown field; did you mean `items`?");
}

#[test]
fn broken_yaml_names_line_and_column() {
    let found = lines("a: b\nc: \"d\ne: f\n");
    assert_eq!(found.len(), 1, "{found:#?}");
    let mut parts = found[0].split(':');
    assert!(parts.next().unwrap().parse::<usize>().is_ok() && parts.next().unwrap().parse::<usize>().is_ok());
}

#[test]
fn an_unknown_kind_lists_the_known_ones() {
    let found = lines("apiVersion: slurm.nebius.ai/v1\nkind: SlurmClusters\n");
    assert!(
        found[0].starts_with(
            "2: kind: unknown kind slurm.nebius.ai/v1 SlurmClusters; did you mean `SlurmCluster`?"
        )
    );
    for known in ["slurm.nebius.ai/v1 SlurmCluster", "slinky.slurm.net/v1alpha1 Cluster", "TopologyConfig"] {
        assert!(found[0].contains(known), "{found:#?}");
    }
    // The version counts too.
    assert_eq!(lines("apiVersion: slurm.nebius.ai/v1alpha1\nkind: SlurmCluster\n").len(), 1);
}

#[test]
fn other_groups_are_passed_over_and_lists_are_opened() {
    let report = VALIDATOR.check(
        "apiVersion: v1\nkind: List\nitems:\n- apiVersion: apps/v1\n  kind: Deployment\n- apiVersion: slinky.slurm.net/v1alpha1\n  kind: Cluster\n  metadata: {name: a}\n",
    );
    let report = report.unwrap();
    assert_eq!((report.passed_over, report.checked), (1, 1));
    assert_eq!(report.findings[0].to_string(), "6: items[1].spec: required, but missing");
}

#[test]
fn findings_in_metadata_name_their_item_of_a_list() {
    let text = "apiVersion: v1\nkind: List\nitems:\n- apiVersion: slinky.slurm.net/v1alpha1\n  kind: Cluster\n  metadata:\n    name: A\n    labels:\n      a: b c\n    lables: {}\n  spec: {server: 'http://a', token: {secretRef: a}}\n- apiVersion: slinky.slurm.net/v1alpha1\n  kind: Cluster\n  spec: {server: 'http://a', token: {secretRef: a}}\n";
    let paths: Vec<String> =
        VALIDATOR.check(text).unwrap().findings.into_iter().map(|one| one.path).collect();
    assert_eq!(
        paths,
        [
            "items[0].metadata.name",
            "items[0].metadata.labels.a",
            "items[0].metadata.lables",
            "items[1].metadata.name"
        ]
    );
}

#[test]
fn text_that_is_no_object_is_refused() {
    assert_eq!(
        lines("just text\n"),
        ["1: must be an object with apiVersion and kind, and is of type string"]
    );
    assert_eq!(
        lines("a: b\n"),
        ["1: apiVersion: required, and must be text", "1: kind: required, and must be text"]
    );
    assert_eq!(lines(""), Vec::<String>::new());
    assert_eq!(lines("---\n---\n# nothing\n"), Vec::<String>::new());
}

#[test]
fn a_finding_in_merged_fields_is_where_they_are_written() {
    let text = format!(
        "{HEAD}spec:\n  configMap: {{name: a}}\n  items:\n  - &first\n    key: a\n    path: /a\n    mode: 999\n  - <<: *first\n    path: /b\n"
    );
    assert_eq!(
        lines(&text),
        [
            "11: spec.items[0].mode: 999 must be at most 511",
            "11: spec.items[1].mode: 999 must be at most 511"
        ]
    );
}

#[test]
fn hostile_text_ends_soon() {
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let before = format!("*a{}", level - 1);
        bomb += &format!("a{level}: &a{level} [{}]\n", vec![before; 10].join(", "));
    }
    assert!(lines(&bomb)[0].contains("more than 1000000 values"));
    // The parser or the reader stops, and neither by the end of the stack.
    assert_eq!(lines(&"[".repeat(5_000)).len(), 1);
    assert_eq!(lines("a: &a [*a]\n").len(), 1);
}

#[test]
fn json_is_yaml() {
    let text = "{\n\t\"apiVersion\": \"slinky.slurm.net/v1alpha1\",\n\t\"kind\": \"Cluster\",\n\t\"metadata\": {\"name\": \"a\"},\n\t\"spec\": {\"server\": 1}\n}\n";
    assert_eq!(
        lines(text),
        ["5: spec.token: required, but missing", "5: spec.server: 1 must be of type string"]
    );
}
