//! Text that users write for Slurm's configuration files.
//!
//! Which Slurm an image holds is not known here, so text is refused only for what every Slurm that we know refuses. What one of
//! them refuses, and keys that none of them knows (another version may), are warnings.

use std::sync::Arc;

use slurm::HostList;
use slurm::conf::{
    Check, Document, FileKind, Finding, Key, Line, Name, NoIncludes, Pair, Place, Severity as Slurms,
    SlurmVersion, Value, ValueError, Word, read,
};

use super::problem::{Problems, Severity};

/// Checks a text of several lines that becomes part of a file.
pub fn part(problems: &mut Problems, file: FileKind, path: &str, text: &str) {
    // Files that it includes are in the pods, not here.
    let mut absent = |name: &str, _: &str| Ok((name.to_owned(), String::new()));
    let mut document = read(path, text, &mut absent);
    // The operator writes the name of the cluster above.
    document.errors.retain(|error| !error.message.ends_with("needs a ClusterName above"));
    judge(problems, file, &document, true);
}

/// Checks texts that become one line each, which begins with one of `begins` and has none of the keys in `taken`.
pub fn lines(
    problems: &mut Problems,
    file: FileKind,
    path: &str,
    texts: &[String],
    begins: &[&str],
    taken: &[&str],
) {
    let mut document = Document::default();
    for (index, text) in texts.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let Some(line) = one_line(problems, &path, text, taken) else { continue };
        let first = line.pairs.first().map(|pair| pair.key.as_str()).unwrap_or_default();
        if begins.iter().any(|key| key.eq_ignore_ascii_case(first)) {
            document.lines.push(line);
        } else {
            problems.error(
                path,
                format!("begins with {first}; write a line that begins with {}", begins.join(" or ")),
            );
        }
    }
    judge(problems, file, &document, false);
}

/// Checks settings that are put behind `KEY=NAME` on a line of ours. Keys in `taken` are ours.
pub fn behind(problems: &mut Problems, (key, name): (Key, Value), path: &str, text: &str, taken: &[&str]) {
    let Some(mut line) = one_line(problems, path, text, taken) else { return };
    line.pairs.insert(0, Pair { key, sign: None, value: name });
    judge(problems, FileKind::Slurm, &Document { lines: vec![line], errors: Vec::new() }, false);
}

/// The line that a text is; none if it is empty, or wrong.
fn one_line(problems: &mut Problems, path: &str, text: &str, taken: &[&str]) -> Option<Line> {
    let document = read(path, text, &mut NoIncludes);
    if let Some(error) = document.errors.first() {
        problems.error(path, format!("{}; write KEY=VALUE pairs with blanks between", error.message));
        return None;
    }
    let mut lines = document.lines.into_iter();
    let line = lines.next()?;
    if lines.next().is_some() {
        problems.error(path, "has several lines; write one");
        return None;
    }
    let is_taken = |pair: &&Pair| taken.iter().any(|key| pair.key.as_str().eq_ignore_ascii_case(key));
    if let Some(pair) = line.pairs.iter().find(is_taken) {
        problems.error(path, format!("{} is set by the operator; remove it here", pair.key));
        return None;
    }
    Some(Line { at: Place { file: Arc::clone(&line.at.file), line: 1 }, ..line })
}

/// Checks a text that becomes the value of a setting. Empty means that there is none.
pub fn value(problems: &mut Problems, path: &str, text: &str) {
    if !text.is_empty()
        && let Err(ValueError::Text { problem, .. }) = Value::new(path, text)
    {
        problems.error(path, format!("{problem} cannot be part of a setting of Slurm; remove it"));
    }
}

/// Checks the name of a partition, a switch, a feature or the like.
pub fn name(problems: &mut Problems, path: &str, text: &str) -> Option<Name> {
    let problem = match Name::new(path, text) {
        Ok(name) => return Some(name),
        Err(ValueError::Text { problem, .. }) => problem.to_string(),
        Err(other) => other.to_string(),
    };
    problems.error(
        path,
        format!("{problem} is no name in Slurm; write one word of letters, digits, '-', '_' and '.'"),
    );
    None
}

/// Checks a word of plugstack.conf. Empty means that there is none.
pub fn word(problems: &mut Problems, path: &str, text: &str) {
    if !text.is_empty()
        && let Err(ValueError::Text { problem, .. }) = Word::new(path, text)
    {
        problems.error(
            path,
            format!("{problem} cannot be written into plugstack.conf; write one word without quotes"),
        );
    }
}

/// Checks a host list.
pub fn host_list(problems: &mut Problems, path: &str, text: &str) -> Option<HostList> {
    match HostList::parse(text) {
        Ok(list) if list.is_empty() => problems.error(path, "names no node; write for example gpu-[0-7]"),
        Ok(list) => return Some(list),
        Err(error) => problems.error(path, format!("{error}; write for example gpu-[0-7,10]")),
    }
    None
}

/// Takes over what Slurm's own check finds. The names of files are the paths of fields.
fn judge(problems: &mut Problems, file: FileKind, document: &Document, numbered: bool) {
    let found = SlurmVersion::ALL.map(|version| {
        let check = Check { part: true, ..Check::new(file, version) };
        (version, check.run(document))
    });
    let [(old, of_old), (new, of_new)] = &found;
    let alike = |one: &Finding, version: &SlurmVersion, other: &Finding, of: &SlurmVersion| {
        one.at == other.at && plain(&one.message, *version) == plain(&other.message, *of)
    };
    for finding in of_new {
        let both = of_old.iter().any(|other| alike(finding, new, other, old));
        take(problems, finding, *new, both, numbered);
    }
    for finding in of_old {
        if !of_new.iter().any(|other| alike(finding, old, other, new)) {
            take(problems, finding, *old, false, numbered);
        }
    }
}

/// A message without the version that it speaks of.
fn plain(message: &str, version: SlurmVersion) -> String {
    message.replace(version.as_str(), "")
}

fn take(problems: &mut Problems, finding: &Finding, version: SlurmVersion, both: bool, numbered: bool) {
    let mut message = if numbered { format!("line {}: ", finding.at.line) } else { String::new() };
    message.push_str(&finding.message);
    if !both && !finding.message.contains(version.as_str()) {
        message.push_str(&format!(" (Slurm {version})"));
    }
    let refused = both && finding.severity == Slurms::Error && !finding.message.starts_with("unknown key ");
    let severity = if refused { Severity::Error } else { Severity::Warning };
    problems.add(severity, &*finding.at.file, message);
}

#[cfg(test)]
mod tests {
    use slurm::{key, value as fixed};

    use super::*;

    fn told(problems: Problems) -> Vec<String> {
        let shown = |problem: &crate::Problem| {
            let severity = if problem.severity == Severity::Warning { "warning: " } else { "" };
            format!("{severity}{problem}")
        };
        problems.into_vec().iter().map(shown).collect()
    }

    fn of_part(text: &str) -> Vec<String> {
        let mut problems = Problems::default();
        part(&mut problems, FileKind::Slurm, "p", text);
        told(problems)
    }

    #[test]
    fn what_slurm_refuses_is_an_error_and_what_it_may_know_a_warning() {
        assert_eq!(
            of_part("SchedulerParameters=bf_continue\n# x\ninclude more-%c.conf\n"),
            Vec::<String>::new()
        );
        assert_eq!(of_part("MaxJobCount=many"), ["p: line 1: MaxJobCount: \"many\" is no number"]);
        assert_eq!(of_part("\nnonsense"), ["p: line 2: \"nonsense\" is not KEY=VALUE"]);
        assert_eq!(
            of_part("MaxJobCont=5"),
            ["warning: p: line 1: unknown key MaxJobCont; did you mean MaxJobCount?"]
        );
    }

    #[test]
    fn what_only_one_slurm_refuses_is_a_warning_that_names_it() {
        let found = of_part("CertgenType=x");
        assert_eq!(
            found,
            ["warning: p: line 1: Slurm 24.11 does not know the key CertgenType; another version does"]
        );
        let found = of_part("EpilogTimeout=soon");
        assert_eq!(
            found[0], "warning: p: line 1: EpilogTimeout: \"soon\" is no number (Slurm 26.05)",
            "{found:?}"
        );
        let found = of_part("AccountingStoreJobComment=yes");
        assert!(
            found.len() == 1 && found[0].starts_with("p: line 1: AccountingStoreJobComment was removed"),
            "{found:?}"
        );
    }

    #[test]
    fn text_for_one_line_cannot_bring_more_of_them() {
        for (text, expected) in [
            ("MaxTime=1:00:00 State=UP", None),
            ("", None),
            ("MaxTime=1\nSlurmUser=root", Some("p: has several lines; write one")),
            ("PartitionName=b", Some("p: PartitionName is set by the operator; remove it here")),
            ("MaxTime", Some("p: \"MaxTime\" is not KEY=VALUE; write KEY=VALUE pairs with blanks between")),
            ("include /etc/x", Some("p: cannot include /etc/x")),
            ("MaxTime=soon", Some("p: MaxTime: ")),
            ("MaxTim=1", Some("warning: p: unknown key MaxTim; did you mean MaxTime?")),
        ] {
            let mut problems = Problems::default();
            behind(&mut problems, (key!("PartitionName"), fixed!("a")), "p", text, &["PartitionName"]);
            let found = told(problems);
            match expected {
                None => assert_eq!(found, Vec::<String>::new(), "{text:?}"),
                Some(expected) => {
                    assert!(found.len() == 1 && found[0].starts_with(expected), "{text:?}: {found:?}");
                }
            }
        }
    }

    #[test]
    fn lines_are_checked_one_by_one_and_together() {
        let texts = ["PartitionName=a Nodes=ALL", "NodeName=x", "PartitionName=a", "PartitionName=b\nA=1"];
        let mut problems = Problems::default();
        lines(&mut problems, FileKind::Slurm, "p", &texts.map(String::from), &["PartitionName"], &[]);
        let found = told(problems);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].starts_with("p[1]: begins with NodeName"), "{found:?}");
        assert!(found[1].starts_with("p[3]: has several lines"), "{found:?}");
        assert!(found[2].starts_with("p[2]: PartitionName a was defined before"), "{found:?}");
    }

    #[test]
    fn names_values_words_and_host_lists_are_checked() {
        let mut problems = Problems::default();
        value(&mut problems, "v", "");
        value(&mut problems, "v", "a b");
        value(&mut problems, "v1", "a\nSlurmUser=root");
        name(&mut problems, "n1", "a b");
        name(&mut problems, "n", "a-b");
        word(&mut problems, "w1", "a b");
        host_list(&mut problems, "h1", "gpu-[0-");
        host_list(&mut problems, "h", "gpu-[0-3]");
        let paths: Vec<String> = problems.into_vec().into_iter().map(|problem| problem.path).collect();
        assert_eq!(paths, ["v1", "n1", "w1", "h1"]);
    }
}
