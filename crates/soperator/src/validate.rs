//! `soperator validate`: checks manifests without a cluster.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use manifests::{Remark, Validator};
use operator::admission::{self, Severity};
use serde_json::Value;

use crate::cli::Error;

const AFTER_HELP: &str = "\
Each error is a line `FILE:LINE: FIELD: MESSAGE` on standard output, each warning a line with `warning: ` before the \
message; a summary goes to standard error. Objects of other API groups are passed over. What depends on objects in the cluster, or on the former version of an object, is not \
checked.

Exit codes: 0 all manifests are valid, 1 some are not or cannot be read, 2 wrong arguments.";

/// What is checked.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// A file, a folder (its *.yaml, *.yml and *.json, also in folders below) or - for standard input; may be repeated
    #[arg(long = "filename", short, value_name = "FILE", required = true, num_args = 1..)]
    files: Vec<PathBuf>,
}

/// Checks the files, prints what is wrong, and fails if anything is.
pub(crate) fn run(
    args: &Args,
    input: &mut impl Read,
    out: &mut impl Write,
    notes: &mut impl Write,
) -> Result<(), Error> {
    let validator = Validator::new();
    let (mut errors, mut warnings, mut checked, mut passed_over) = (0, 0, 0, 0);
    for file in &args.files {
        for path in manifest_files(file)? {
            let (name, text) = read(&path, input)?;
            let report = validator
                .check_further(&text, &as_admission)
                .map_err(|error| Error::Bug(error.to_string()))?;
            for finding in &report.findings {
                writeln!(out, "{name}:{finding}")?;
            }
            for mut warning in report.warnings {
                warning.message.insert_str(0, "warning: ");
                warnings += 1;
                writeln!(out, "{name}:{warning}")?;
            }
            errors += report.findings.len();
            checked += report.checked;
            passed_over += report.passed_over;
        }
    }
    out.flush()?;
    let mut summary = format!("{checked} checked, {errors} errors");
    if warnings > 0 {
        summary += &format!(", {warnings} warnings");
    }
    if passed_over > 0 {
        summary += &format!(", {passed_over} of other API groups passed over");
    }
    // Without a reader of the note the exit code still tells.
    let _ = writeln!(notes, "{summary}");
    if errors == 0 { Ok(()) } else { Err(Error::Invalid(errors)) }
}

/// What the operator's webhooks would say.
pub(crate) fn as_admission(api_version: &str, kind: &str, object: &Value) -> Vec<Remark> {
    let problems = admission::check(api_version, kind, object).into_iter();
    let remark = |problem: admission::Problem| Remark {
        is_warning: problem.severity == Severity::Warning,
        path: problem.path,
        message: problem.message,
    };
    problems.map(remark).collect()
}

/// The text, and the name for it in messages.
pub(crate) fn read(path: &Path, input: &mut impl Read) -> Result<(String, String), Error> {
    let mut bytes = Vec::new();
    let name = if is_stdin(path) {
        input.read_to_end(&mut bytes).map_err(|error| Error::Unreadable("standard input".into(), error))?;
        "<stdin>".to_owned()
    } else {
        bytes = fs::read(path).map_err(|error| Error::Unreadable(path.into(), error))?;
        path.display().to_string()
    };
    let text = String::from_utf8(bytes).map_err(|error| {
        let line =
            error.as_bytes()[..error.utf8_error().valid_up_to()].iter().filter(|b| **b == b'\n').count() + 1;
        let reason = io::Error::new(io::ErrorKind::InvalidData, format!("line {line} is not UTF-8"));
        Error::Unreadable(path.into(), reason)
    })?;
    Ok((name, text))
}

fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// The file itself, or the manifests in the folder and those below, sorted.
fn manifest_files(path: &Path) -> Result<Vec<PathBuf>, Error> {
    if is_stdin(path) || !path.is_dir() {
        return Ok(vec![path.into()]);
    }
    let mut found = Vec::new();
    collect(path, &mut found).map_err(|error| Error::Unreadable(path.into(), error))?;
    if found.is_empty() {
        let reason = io::Error::new(io::ErrorKind::NotFound, "no *.yaml, *.yml or *.json in this folder");
        return Err(Error::Unreadable(path.into(), reason));
    }
    found.sort();
    Ok(found)
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        // A link to a folder is not followed: it may lead back here.
        if entry.file_type()?.is_dir() {
            collect(&path, found)?;
        } else if path.extension().is_some_and(|end| end == "yaml" || end == "yml" || end == "json")
            && path.is_file()
        {
            found.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "apiVersion: slurm.nebius.ai/v1alpha1\nkind: TopologyConfig\nmetadata: {name: a}\n\
                        spec:\n  clusterName: a\n  nodeLabels: {}\n";

    fn validate(files: &[&Path], input: &str) -> (Result<(), Error>, String, String) {
        let args = Args { files: files.iter().map(|path| (*path).into()).collect() };
        let (mut out, mut notes) = (Vec::new(), Vec::new());
        let result = run(&args, &mut input.as_bytes(), &mut out, &mut notes);
        (result, String::from_utf8(out).unwrap(), String::from_utf8(notes).unwrap())
    }

    #[test]
    fn standard_input_is_a_file() {
        let (result, out, notes) = validate(&[Path::new("-")], GOOD);
        assert!(result.is_ok(), "{out}");
        assert_eq!(notes, "1 checked, 0 errors\n");
        let (result, out, _) = validate(&[Path::new("-")], &GOOD.replace("clusterName", "clustername"));
        assert!(matches!(result, Err(Error::Invalid(2))), "{result:?}");
        assert_eq!(
            out,
            "<stdin>:4: spec.clusterName: required, but missing\n\
             <stdin>:5: spec.clustername: unknown field; did you mean `clusterName`?\n"
        );
    }

    #[test]
    fn what_only_admission_sees_is_told_with_its_line() {
        let bad = GOOD.replace(
            "  nodeLabels: {}\n",
            "  switches:\n  - name: a\n    children: [b]\n  - name: b\n    nodeNames:\n    - gpu-[0-3]\n    - gpu-[3-\n",
        );
        let (result, out, _) = validate(&[Path::new("-")], &bad);
        assert!(matches!(result, Err(Error::Invalid(1))), "{out}");
        assert!(out.starts_with("<stdin>:12: spec.switches[1].nodeNames[1]: column 5: "), "{out}");
        let list = format!("apiVersion: v1\nkind: List\nitems:\n- {}", bad.trim_end().replace('\n', "\n  "));
        let (_, out, _) = validate(&[Path::new("-")], &list);
        assert!(out.starts_with("<stdin>:15: items[0].spec.switches[1].nodeNames[1]: "), "{out}");
    }

    #[test]
    fn warnings_are_told_and_fail_nothing() {
        let set = fs::read_to_string("../../examples/api/slurm.nebius.ai/full/nodeset.yaml").unwrap();
        let set = set.replace("static: Sockets=2", "static: Sokets=2");
        let (result, out, notes) = validate(&[Path::new("-")], &set);
        assert!(result.is_ok(), "{out}");
        assert!(
            out.contains(": spec.nodeConfig.static: warning: unknown key Sokets; did you mean Sockets?"),
            "{out}"
        );
        assert_eq!(notes, "1 checked, 0 errors, 1 warnings\n");
    }

    #[test]
    fn folders_are_searched_in_order_and_other_files_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("b")).unwrap();
        for (name, text) in [
            ("b/one.yml", GOOD.replace("spec:", "spc:")),
            ("a.yaml", GOOD.replace("nodeLabels", "nodeLabel")),
            ("c.json", "{\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\"}".into()),
            ("README.md", "{{".into()),
        ] {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let (result, out, notes) = validate(&[folder.path()], "");
        assert!(result.is_err());
        let lines: Vec<&str> = out.lines().map(|line| line.rsplit_once('/').unwrap().1).collect();
        assert!(lines[0].starts_with("a.yaml:4: spec: write exactly one of nodeLabels"), "{out}");
        assert_eq!(lines[1], "a.yaml:6: spec.nodeLabel: unknown field; did you mean `nodeLabels`?");
        assert!(
            lines.iter().any(|line| line.starts_with("one.yml:4: spc: unknown field; did you mean `spec`?")),
            "{out}"
        );
        assert!(
            notes.starts_with("2 checked, ") && notes.contains(", 1 of other API groups passed over"),
            "{notes}"
        );
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let (result, ..) = validate(&[Path::new("/nowhere/x.yaml")], "");
        assert!(result.unwrap_err().to_string().starts_with("cannot read /nowhere/x.yaml: "));
        let empty = tempfile::tempdir().unwrap();
        let (result, ..) = validate(&[empty.path()], "");
        assert!(result.unwrap_err().to_string().contains("no *.yaml, *.yml or *.json"));
    }
}
