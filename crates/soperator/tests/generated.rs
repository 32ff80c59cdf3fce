//! Files that are made from code: each must be what the code makes now. `make generate` writes them.

#![allow(clippy::expect_used, reason = "this file is a test")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

/// Makes the tests write the files instead of comparing them.
const GENERATE: &str = "SOPERATOR_GENERATE";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What a chart's folder should hold, by file name.
fn files(
    group: &str,
    change: impl Fn(CustomResourceDefinition) -> CustomResourceDefinition,
) -> BTreeMap<String, String> {
    api::crds()
        .into_iter()
        .filter(|crd| crd.spec.group == group)
        .map(|crd| {
            let name = api::file_name(&crd);
            let text = serde_saphyr::to_string(&change(crd)).expect("YAML");
            (name, format!("# Made by `make generate`.\n{}\n", text.trim_end()))
        })
        .collect()
}

/// Compares the YAML files of a folder with what they should be, or writes them.
fn check(folder: &str, expected: &BTreeMap<String, String>) {
    let path = root().join(folder);
    let found: BTreeMap<String, String> = fs::read_dir(&path)
        .expect("the folder")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .map(|path| {
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            (name, fs::read_to_string(&path).expect("a text"))
        })
        .collect();
    if std::env::var_os(GENERATE).is_some() {
        for name in found.keys().filter(|name| !expected.contains_key(*name)) {
            fs::remove_file(path.join(name)).expect("can be removed");
        }
        for (name, text) in expected {
            fs::write(path.join(name), text).expect("can be written");
        }
        return;
    }
    let names = |files: &BTreeMap<String, String>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&found), names(expected), "{folder}: run `make generate`");
    for (name, text) in expected {
        assert!(found[name] == *text, "{folder}/{name} is old: run `make generate`");
    }
}

#[test]
fn the_chart_soperator_crds_has_the_definitions_of_its_group_and_keeps_them() {
    let keep = |mut crd: CustomResourceDefinition| {
        let annotation = ("helm.sh/resource-policy".to_owned(), "keep".to_owned());
        crd.metadata.annotations.get_or_insert_default().extend([annotation]);
        crd
    };
    let expected = files(api::nebius::GROUP, keep);
    assert_eq!(expected.len(), 6);
    for (name, text) in &expected {
        assert!(!text.contains("{{"), "{name}: Helm would take it for a template");
    }
    check("helm/soperator-crds/templates", &expected);
}

#[test]
fn the_chart_slurm_operator_has_the_definitions_of_its_group() {
    let expected = files(api::slinky::GROUP, |crd| crd);
    assert_eq!(expected.len(), 2);
    check("helm/slurm-operator/crds", &expected);
}
