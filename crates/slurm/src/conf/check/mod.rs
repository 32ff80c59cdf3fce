//! Finds what Slurm would refuse, or would understand in another way than it looks.
//!
//! An error is something with which a daemon does not start. A warning is something that it passes over with a message,
//! or silently.

mod nodes;
mod topology;
mod types;

use std::collections::{HashMap, HashSet};
use std::fmt;

use super::file_kind::{FileKind, SlurmVersion};
use super::known::{self, Kind, Known, Status};
use super::reader::{Document, Line, Pair, Place};
pub use nodes::DefinedNodes;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// A daemon would not start, or a command would fail.
    Error,
    /// It has no effect, or not the one that was meant.
    Warning,
}

/// One thing that is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Where it is.
    pub at: Place,
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong, and what to write instead.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let warning = if self.severity == Severity::Warning { "warning: " } else { "" };
        write!(f, "{}: {warning}{}", self.at, self.message)
    }
}

/// What is checked against what.
#[derive(Clone, Copy, Debug)]
pub struct Check<'a> {
    /// Which file it is.
    pub kind: FileKind,
    /// For which Slurm.
    pub version: SlurmVersion,
    /// Whether the file is only a part of one: what may stand in another part is not missed.
    pub part: bool,
    /// The nodes of slurm.conf, for the files that name nodes. Without them names are not looked up.
    pub nodes: Option<&'a DefinedNodes>,
}

impl<'a> Check<'a> {
    /// Checks a whole file of that kind.
    #[must_use]
    pub fn new(kind: FileKind, version: SlurmVersion) -> Self {
        Self { kind, version, part: false, nodes: None }
    }

    /// Says which nodes there are.
    #[must_use]
    pub fn with_nodes(self, nodes: &'a DefinedNodes) -> Self {
        Self { nodes: Some(nodes), ..self }
    }

    /// Everything that is wrong, file by file and line by line.
    ///
    /// ```
    /// use slurm::conf::{Check, FileKind, NoIncludes, SlurmVersion, read};
    ///
    /// let document = read("cgroup.conf", "ConstrainCore=yes\n", &mut NoIncludes);
    /// let findings = Check::new(FileKind::Cgroup, SlurmVersion::V26_05).run(&document);
    /// assert_eq!(findings[0].to_string(), "cgroup.conf:1: unknown key ConstrainCore; did you mean ConstrainCores?");
    /// ```
    #[must_use]
    pub fn run(&self, document: &Document) -> Vec<Finding> {
        let mut findings = Findings::default();
        for error in &document.errors {
            findings.error(&error.at, error.message.clone());
        }
        let mut seen = HashMap::new();
        for line in &document.lines {
            self.line(line, &mut seen, &mut findings);
        }
        match self.kind {
            FileKind::Slurm => nodes::check(self, document, &mut findings),
            FileKind::Topology => topology::check(self, document, &mut findings),
            FileKind::Gres => nodes::check_names(self, document, "NodeName", &mut findings),
            _ => {}
        }
        findings.sorted(document)
    }

    fn line<'d>(&self, line: &'d Line, seen: &mut HashMap<&'static str, &'d Place>, findings: &mut Findings) {
        let Some((first, rest)) = line.pairs.split_first() else { return };
        let Some(known) = self.pair(line, first, known::keys_of(self.kind), findings) else { return };
        match known.kind {
            Kind::Line(keys) => {
                let mut behind = HashSet::new();
                for pair in rest {
                    let known = self.pair(line, pair, keys, findings);
                    if known.is_some_and(|known| !behind.insert(known.name)) {
                        findings.warning(&line.at, format!("{} comes twice; Slurm takes the last", pair.key));
                    }
                }
            }
            _ => {
                if let Some(pair) = rest.first() {
                    let message =
                        format!("{} must be on a line of its own, not behind {}", pair.key, first.key);
                    findings.error(&line.at, message);
                }
                let again = !matches!(known.kind, Kind::List) && seen.insert(known.name, &line.at).is_some();
                if again {
                    findings.warning(&line.at, format!("{} was set before; Slurm takes the last", first.key));
                }
            }
        }
    }

    /// Checks a key and its value, and gives what is known of the key.
    fn pair(
        &self,
        line: &Line,
        pair: &Pair,
        keys: &'static [Known],
        findings: &mut Findings,
    ) -> Option<&'static Known> {
        let key = &pair.key;
        let known = known::find(keys, key.as_str());
        let status = known.map_or(Status::Unknown, |known| known.status(self.version));
        match status {
            Status::Used => {}
            Status::Defunct | Status::Ignored => {
                let message = format!("{key} has no effect in Slurm {}; remove it", self.version);
                findings.warning(&line.at, message);
            }
            Status::Removed => {
                findings.error(
                    &line.at,
                    format!("{key} was removed; Slurm {} does not start with it", self.version),
                );
            }
            Status::Unknown => findings.error(&line.at, self.unknown(key.as_str(), keys, known)),
        }
        let known = known.filter(|_| !matches!(status, Status::Unknown | Status::Removed))?;
        if let Some(sign) = pair.sign {
            findings.warning(&line.at, format!("{key}{sign}= means the same as {key}= to Slurm"));
        }
        if status != Status::Defunct
            && let Some(problem) = types::problem(&known.kind, pair.value.as_str())
        {
            findings.error(&line.at, format!("{key}: {problem}"));
        }
        Some(known)
    }

    fn unknown(&self, key: &str, keys: &'static [Known], known: Option<&Known>) -> String {
        if known.is_some() {
            return format!("Slurm {} does not know the key {key}; another version does", self.version);
        }
        match known::nearest(keys, self.version, key) {
            Some(name) => format!("unknown key {key}; did you mean {name}?"),
            None => format!("unknown key {key}"),
        }
    }
}

/// Collects findings.
#[derive(Debug, Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn error(&mut self, at: &Place, message: String) {
        self.0.push(Finding { at: at.clone(), severity: Severity::Error, message });
    }

    fn warning(&mut self, at: &Place, message: String) {
        self.0.push(Finding { at: at.clone(), severity: Severity::Warning, message });
    }

    /// By file, in the order in which they come, and by line; in the order of the checks within one.
    fn sorted(mut self, document: &Document) -> Vec<Finding> {
        let mut files: HashMap<&str, usize> = HashMap::new();
        let places =
            document.lines.iter().map(|line| &line.at).chain(document.errors.iter().map(|error| &error.at));
        for place in places {
            let next = files.len();
            files.entry(&place.file).or_insert(next);
        }
        self.0.sort_by_key(|finding| (files.get(&*finding.at.file).copied(), finding.at.line));
        self.0
    }
}

/// The first pair of a line with that key.
fn get<'d>(line: &'d Line, key: &str) -> Option<&'d Pair> {
    line.pairs.iter().find(|pair| pair.key.as_str().eq_ignore_ascii_case(key))
}

/// The value of the last pair with that key, which is the one that Slurm takes.
fn value<'d>(line: &'d Line, key: &str) -> Option<&'d str> {
    line.pairs
        .iter()
        .rev()
        .find(|pair| pair.key.as_str().eq_ignore_ascii_case(key))
        .map(|pair| pair.value.as_str())
}

/// What a line begins with, if it is that key.
fn begins<'d>(line: &'d Line, key: &str) -> Option<&'d str> {
    line.pairs
        .first()
        .filter(|pair| pair.key.as_str().eq_ignore_ascii_case(key))
        .map(|pair| pair.value.as_str())
}

#[cfg(test)]
mod tests;
