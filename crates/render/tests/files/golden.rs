//! Every file of every case, as it was when somebody looked at it. With SOPERATOR_GENERATE set they are written.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use slurm::conf::{Check, FileKind, NoIncludes, Severity, SlurmVersion, read};

use crate::cases::{ALL, case, tests};

fn folder(case: &str) -> PathBuf {
    tests().join("golden/files").join(case)
}

fn found(folder: &Path) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    for part in fs::read_dir(folder).unwrap() {
        let part = part.unwrap();
        for file in fs::read_dir(part.path()).unwrap() {
            let file = file.unwrap();
            let name = format!("{}/{}", part.file_name().display(), file.file_name().display());
            files.insert(name, fs::read_to_string(file.path()).unwrap());
        }
    }
    files
}

#[test]
fn files_are_those_of_the_golden_folder() {
    for name in ALL {
        let (expected, folder) = (case(name).all_files(), folder(name));
        if std::env::var_os("SOPERATOR_GENERATE").is_some() {
            let _ = fs::remove_dir_all(&folder);
            for (file, text) in &expected {
                let path = folder.join(file);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            continue;
        }
        let found = found(&folder);
        for file in expected.keys().chain(found.keys()) {
            assert!(
                expected.get(file) == found.get(file),
                "{} differs: run `make generate` and look at the change",
                folder.join(file).display()
            );
        }
    }
}

/// Which file it is; plugstack.conf has a syntax of its own.
fn kind(file: &str) -> Option<FileKind> {
    let kind = FileKind::ALL.into_iter().find(|kind| file.ends_with(&format!("/{kind}")))?;
    (kind != FileKind::Plugstack).then_some(kind)
}

#[test]
fn the_check_of_both_slurms_has_nothing_to_say_about_them() {
    for name in ALL {
        for (file, text) in case(name).all_files() {
            let Some(kind) = kind(&file) else {
                continue;
            };
            for version in SlurmVersion::ALL {
                let document = read(&file, &text.replace("include custom_slurm.conf\n", ""), &mut NoIncludes);
                let mut findings = Check::new(kind, version).run(&document);
                // Only the full case asks for it, and an older Slurm refuses it: see docs/compatibility.md.
                findings.retain(|finding| !finding.message.contains("MetricsType"));
                findings.retain(|finding| finding.severity == Severity::Error || name != "full");
                assert!(findings.is_empty(), "{name}, Slurm {version}: {findings:#?}\n{text}");
            }
        }
    }
}
