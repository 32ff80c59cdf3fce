//! `soperator conf check`: checks Slurm's configuration files without Slurm.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use slurm::conf::{
    Check, DefinedNodes, Document, FileKind, Finding, Severity, SlurmVersion, SyntaxError, read,
    read_plugstack,
};

use crate::cli::Error;
use crate::validate;

const AFTER_HELP: &str = "\
Each finding is a line `FILE:LINE: MESSAGE` on standard output; a summary goes to standard error. Which file it is follows \
from its name (slurm.conf, slurmdbd.conf, cgroup.conf, gres.conf, topology.conf, plugstack.conf, mpi.conf, \
job_container.conf) or from --kind. `include` is followed from the folder of the including file. When slurm.conf is among the \
files, the nodes that gres.conf and topology.conf name are looked up in it.

An error is something with which a Slurm daemon does not start. A warning is something that it passes over.

Exit codes: 0 no errors, 1 errors or unreadable files, 2 wrong arguments.

Example: soperator conf check /etc/slurm/slurm.conf /etc/slurm/topology.conf --slurm-version 24.11";

/// What is asked about configuration files.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Report unknown keys, duplicates, values of the wrong type and nodes that are not there
    Check(CheckArgs),
}

/// What is checked, and for which Slurm.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
struct CheckArgs {
    /// The files, or - for standard input (with --kind)
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Take every file for this one, whatever its name
    #[arg(long, value_name = "NAME")]
    kind: Option<FileKind>,
    /// The version of Slurm that reads the files
    #[arg(long, value_name = "VERSION", default_value_t = SlurmVersion::default())]
    slurm_version: SlurmVersion,
    /// The files are parts that another file includes: what may stand elsewhere is not missed
    #[arg(long)]
    part: bool,
    /// Let warnings fail too
    #[arg(long)]
    strict: bool,
}

/// Does what the arguments ask for.
pub(crate) fn run(
    args: &Args,
    input: &mut impl Read,
    out: &mut impl Write,
    notes: &mut impl Write,
) -> Result<(), Error> {
    let Command::Check(args) = &args.command;
    check(args, input, out, notes)
}

fn check(
    args: &CheckArgs,
    input: &mut impl Read,
    out: &mut impl Write,
    notes: &mut impl Write,
) -> Result<(), Error> {
    let files = args.files.iter().map(|path| load(path, args.kind, input)).collect::<Result<Vec<_>, _>>()?;
    let nodes =
        files.iter().find(|file| file.kind == FileKind::Slurm).map(|file| DefinedNodes::new(&file.document));
    let (mut errors, mut warnings) = (0, 0);
    for file in &files {
        let check =
            Check { part: args.part, nodes: nodes.as_ref(), ..Check::new(file.kind, args.slurm_version) };
        for finding in findings(&check, file) {
            writeln!(out, "{finding}")?;
            match finding.severity {
                Severity::Error => errors += 1,
                Severity::Warning => warnings += 1,
            }
        }
    }
    out.flush()?;
    // Without a reader of the note the exit code still tells.
    let _ = writeln!(
        notes,
        "{} checked for Slurm {}, {errors} errors, {warnings} warnings",
        files.len(),
        args.slurm_version
    );
    let failures = if args.strict { errors + warnings } else { errors };
    if failures == 0 { Ok(()) } else { Err(Error::Invalid(failures)) }
}

/// A file that was read.
struct Loaded {
    kind: FileKind,
    document: Document,
    /// What is wrong with a plugstack.conf, which is no document of keys.
    plugstack: Vec<SyntaxError>,
}

fn load(path: &Path, kind: Option<FileKind>, input: &mut impl Read) -> Result<Loaded, Error> {
    let kind = kind.map_or_else(|| kind_by_name(path), Ok)?;
    let (name, text) = validate::read(path, input)?;
    if kind == FileKind::Plugstack {
        let (_, plugstack) = read_plugstack(&name, &text);
        return Ok(Loaded { kind, document: Document::default(), plugstack });
    }
    let document = read(&name, &text, &mut include);
    Ok(Loaded { kind, document, plugstack: Vec::new() })
}

fn kind_by_name(path: &Path) -> Result<FileKind, Error> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.parse().map_err(|reason: String| {
        Error::Refused(format!("{}: {reason}. Say with --kind which of them it is", path.display()))
    })
}

/// Reads an included file; a relative path is meant from the folder of the including one.
fn include(path: &str, from: &str) -> Result<(String, String), String> {
    let path = Path::new(from).parent().unwrap_or(Path::new("")).join(path);
    let text = std::fs::read_to_string(&path).map_err(|error| error.to_string())?;
    Ok((path.display().to_string(), text))
}

fn findings(check: &Check<'_>, file: &Loaded) -> Vec<Finding> {
    let plugstack = file.plugstack.iter().map(|error| Finding {
        at: error.at.clone(),
        severity: Severity::Error,
        message: error.message.clone(),
    });
    plugstack.chain(check.run(&file.document)).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn run_check(args: CheckArgs, input: &str) -> (Result<(), Error>, String, String) {
        let (mut out, mut notes) = (Vec::new(), Vec::new());
        let result = check(&args, &mut input.as_bytes(), &mut out, &mut notes);
        (result, String::from_utf8(out).unwrap(), String::from_utf8(notes).unwrap())
    }

    fn args(files: &[PathBuf]) -> CheckArgs {
        CheckArgs {
            files: files.to_vec(),
            kind: None,
            slurm_version: SlurmVersion::V26_05,
            part: false,
            strict: false,
        }
    }

    const GOOD: &str = "ClusterName=c\nSlurmctldHost=h\nNodeName=n[1-2]\nPartitionName=p Nodes=n[1-2]\n";

    #[test]
    fn includes_are_followed_and_nodes_are_looked_up_across_files() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            path
        };
        let slurm = file("slurm.conf", &format!("{GOOD}include parts/a.conf\n"));
        file("parts/a.conf", "\nKillWai=1\ninclude b.conf\n");
        file("parts/b.conf", "KillWait=x\n");
        let topology = file("topology.conf", "SwitchName=s Nodes=n[1-3]\n");
        let plugstack = file("plugstack.conf", "require x.so\n");
        let (result, out, notes) = run_check(args(&[topology, slurm, plugstack]), "");
        assert!(matches!(result, Err(Error::Invalid(3))), "{result:?}");
        let lines: Vec<&str> = out.lines().map(|line| line.rsplit_once('/').unwrap().1).collect();
        assert_eq!(
            lines,
            [
                "topology.conf:1: warning: Nodes: slurm.conf has no node n3",
                "a.conf:2: unknown key KillWai; did you mean KillWait?",
                "b.conf:1: KillWait: \"x\" is no number",
                "plugstack.conf:1: \"require\" is neither `required`, `optional` nor `include`",
            ]
        );
        assert_eq!(notes, "3 checked for Slurm 26.05, 3 errors, 1 warnings\n");
    }

    #[test]
    fn standard_input_is_a_file_of_the_kind_that_is_said() {
        let stdin = || CheckArgs { kind: Some(FileKind::Slurm), ..args(&["-".into()]) };
        let (result, out, _) = run_check(stdin(), GOOD);
        assert!(result.is_ok(), "{out}");
        let (result, out, _) = run_check(stdin(), &format!("{GOOD}KillWait=1\nKillWait=2\n"));
        assert!(result.is_ok());
        assert_eq!(out, "<stdin>:6: warning: KillWait was set before; Slurm takes the last\n");
        let strict = CheckArgs { strict: true, ..stdin() };
        assert!(run_check(strict, &format!("{GOOD}KillWait=1\nKillWait=2\n")).0.is_err());
        let part = CheckArgs { part: true, ..stdin() };
        assert!(run_check(part, "PartitionName=q Nodes=elsewhere\n").0.is_ok());
    }

    #[test]
    fn a_file_of_another_name_needs_its_kind() {
        let error = run_check(args(&["custom.conf".into()]), "").0.unwrap_err().to_string();
        assert!(error.starts_with("custom.conf: ") && error.contains("--kind"), "{error}");
        let error = run_check(args(&["/nowhere/slurm.conf".into()]), "").0.unwrap_err().to_string();
        assert!(error.starts_with("cannot read /nowhere/slurm.conf"), "{error}");
    }
}
