//! Files that are made from code: each must be what the code makes now. `make generate` writes them.

#![allow(clippy::expect_used, clippy::panic, reason = "this file is a test")]

mod api_reference;
mod chart_schema;
mod chart_values;
mod crds;
mod values_table;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Makes the tests write the files instead of comparing them.
const GENERATE: &str = "SOPERATOR_GENERATE";

fn generating() -> bool {
    std::env::var_os(GENERATE).is_some()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Compares one file with what it should be, or writes it.
fn check_file(file: &Path, expected: &str) {
    if generating() {
        fs::write(file, expected).expect("can be written");
        return;
    }
    let found = fs::read_to_string(file).expect("a text");
    assert!(found == expected, "{} is old: run `make generate`", file.display());
}

/// Compares the files of a folder that end with `extension` with what they should be, or writes them.
fn check(folder: &str, extension: &str, expected: &BTreeMap<String, String>) {
    let path = root().join(folder);
    if generating() {
        fs::create_dir_all(&path).expect("can be made");
    }
    let found: Vec<String> = fs::read_dir(&path)
        .expect("the folder")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .map(|path| path.file_name().expect("a name").to_string_lossy().into_owned())
        .collect();
    for name in found.iter().filter(|name| !expected.contains_key(*name)) {
        assert!(generating(), "{folder}/{name} is left over: run `make generate`");
        fs::remove_file(path.join(name)).expect("can be removed");
    }
    for (name, text) in expected {
        assert!(generating() || found.contains(name), "{folder}/{name} is missing: run `make generate`");
        check_file(&path.join(name), text);
    }
}
