//! Every object of every case, as it was when somebody looked at it. `make generate` writes the files.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::cases::{ALL, case};

fn folder(case: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/objects").join(case)
}

/// One file for each part, with its objects in the order in which they are rendered.
fn expected(name: &'static str) -> BTreeMap<String, String> {
    let case = case(name);
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    let mut write = |part: &str, object: &Value| {
        let text = serde_saphyr::to_string(object).unwrap();
        let file = files.entry(format!("{part}.yaml")).or_default();
        file.push_str(&format!("---\n{}\n", text.trim_end()));
    };
    for rendered in case.rendered() {
        let mut value = rendered.object.to_value();
        // Texts of files have golden files of their own.
        for text in value.get_mut("data").and_then(Value::as_object_mut).into_iter().flatten() {
            *text.1 = "...".into();
        }
        write(rendered.component.as_str(), &value);
    }
    for value in case.node_set_values() {
        write("pods-of-nodesets", &value);
    }
    files
}

#[test]
fn objects_are_those_of_the_golden_files() {
    let generating = std::env::var_os("SOPERATOR_GENERATE").is_some();
    for name in ALL {
        let expected = expected(name);
        let folder = folder(name);
        if generating {
            let _ = fs::remove_dir_all(&folder);
            fs::create_dir_all(&folder).unwrap();
            for (file, text) in &expected {
                fs::write(folder.join(file), text).unwrap();
            }
            continue;
        }
        let found: BTreeMap<String, String> = fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .map(|path| {
                let file = path.file_name().unwrap().to_string_lossy().into_owned();
                (file, fs::read_to_string(&path).unwrap())
            })
            .collect();
        for file in expected.keys().chain(found.keys()) {
            assert!(
                expected.get(file) == found.get(file),
                "{} differs: run `make generate` and look at the change",
                folder.join(file).display()
            );
        }
    }
}

#[test]
fn the_same_manifest_gives_the_same_objects() {
    for name in ALL {
        assert_eq!(expected(name), expected(name), "{name}");
    }
}
