//! `logging.outputs`: a list of objects, so it is read by itself.

use std::path::{Path, PathBuf};

use super::file::{Data, Node};
use super::nearest::advice;
use super::problem::Problem;
use super::value::{self, Time};
use crate::logging::{Format, Level, Output, RotatingFile};

const KEYS: &[&str] = &["type", "format", "path", "maxSize", "maxAge", "maxBackups"];
/// Only files have these.
const FILE_KEYS: &[&str] = &["path", "maxSize", "maxAge", "maxBackups"];

const MAX_SIZE: u64 = 100_000_000;
const MAX_AGE: Time = Time(std::time::Duration::from_secs(30 * 24 * 60 * 60));
const MAX_BACKUPS: usize = 3;

/// Reads a level, also one that only the originals have.
pub(crate) fn level(text: &str) -> Result<Level, String> {
    match text.to_ascii_lowercase().as_str() {
        "trace" => Ok(Level::Trace),
        "debug" => Ok(Level::Debug),
        "info" => Ok(Level::Info),
        "warn" | "warning" => Ok(Level::Warn),
        // Levels above error end the process in the originals; nothing here logs at them.
        "error" | "dpanic" | "panic" | "fatal" => Ok(Level::Error),
        _ => Err(format!("{text:?} is no level: write trace, debug, info, warn or error")),
    }
}

/// Reads a format.
pub(super) fn format(text: &str) -> Result<Format, String> {
    match text {
        "json" => Ok(Format::Json),
        "text" | "plain" => Ok(Format::Text),
        _ => Err(format!("{text:?} is no format: write json or text")),
    }
}

/// Reads the list. `usual` is the format of an output that names none.
pub(super) fn read(path: &Path, node: &Node, usual: Format, problems: &mut Vec<Problem>) -> Vec<Output> {
    let key = "logging.outputs";
    let Data::List(items) = &node.data else {
        let message = format!("expects a list, not {}", node.data.noun());
        problems.push(Problem::in_file(path, node.line, key, message));
        return Vec::new();
    };
    if items.is_empty() {
        let message = "is empty: leave it away for standard output, or name an output";
        problems.push(Problem::in_file(path, node.line, key, message));
    }
    let mut outputs = Vec::new();
    for (number, item) in items.iter().enumerate() {
        let item = Item { path, key: format!("{key}[{number}]"), node: item };
        match item.output(usual) {
            Ok(output) => outputs.push(output),
            Err(found) => problems.extend(found),
        }
    }
    outputs
}

/// One output of the list.
struct Item<'a> {
    path: &'a Path,
    key: String,
    node: &'a Node,
}

impl Item<'_> {
    fn problem(&self, line: u64, name: &str, message: String) -> Problem {
        let key = if name.is_empty() { self.key.clone() } else { format!("{}.{name}", self.key) };
        Problem::in_file(self.path, line, &key, message)
    }

    fn output(&self, usual: Format) -> Result<Output, Vec<Problem>> {
        let Data::Map(fields) = &self.node.data else {
            let message = format!("expects an object, not {}", self.node.data.noun());
            return Err(vec![self.problem(self.node.line, "", message)]);
        };
        let mut problems = Vec::new();
        for (name, line, value) in fields {
            if !KEYS.contains(&name.as_str()) {
                let message = format!("unknown key; {}", advice(name, KEYS.iter().copied()));
                problems.push(self.problem(*line, name, message));
            } else if !matches!(value.data, Data::Scalar(_) | Data::Null) {
                let message = format!("expects a single value, not {}", value.data.noun());
                problems.push(self.problem(*line, name, message));
            }
        }
        let format = self.field("format", format, &mut problems).unwrap_or(usual);
        let output = match self.text("type") {
            Some((_, "stdout")) => {
                for name in FILE_KEYS {
                    if let Some((line, _)) = self.text(name) {
                        problems.push(self.problem(line, name, "belongs to outputs of type file".into()));
                    }
                }
                Some(Output::Stdout { format })
            }
            Some((_, "file")) => self.file(format, &mut problems),
            Some((line, other)) => {
                let message = format!("{other:?} is no type of output: write stdout or file");
                problems.push(self.problem(line, "type", message));
                None
            }
            None => {
                problems.push(self.problem(
                    self.node.line,
                    "type",
                    "is missing: write stdout or file".into(),
                ));
                None
            }
        };
        match output {
            Some(output) if problems.is_empty() => Ok(output),
            _ => Err(problems),
        }
    }

    fn file(&self, format: Format, problems: &mut Vec<Problem>) -> Option<Output> {
        let file = RotatingFile {
            max_size: self.field("maxSize", value::size, problems).unwrap_or(MAX_SIZE),
            max_age: self.field("maxAge", Time::parse, problems).unwrap_or(MAX_AGE),
            max_backups: self.field("maxBackups", backups, problems).unwrap_or(MAX_BACKUPS),
            path: PathBuf::from(self.text("path").map_or("", |(_, path)| path)),
        };
        if file.path.as_os_str().is_empty() {
            let message = "is missing: an output of type file needs one".into();
            problems.push(self.problem(self.node.line, "path", message));
            return None;
        }
        Some(Output::File { format, file })
    }

    fn text(&self, name: &str) -> Option<(u64, &str)> {
        let Data::Map(fields) = &self.node.data else { return None };
        fields.iter().find_map(|(key, line, value)| match &value.data {
            Data::Scalar(text) if key == name && !text.is_empty() => Some((*line, text.as_str())),
            _ => None,
        })
    }

    fn field<T>(
        &self,
        name: &str,
        read: fn(&str) -> Result<T, String>,
        problems: &mut Vec<Problem>,
    ) -> Option<T> {
        let (line, text) = self.text(name)?;
        read(text).map_err(|message| problems.push(self.problem(line, name, message))).ok()
    }
}

fn backups(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| format!("{text:?} is no whole number from 0 up"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outputs(text: &str) -> Result<Vec<Output>, String> {
        let node: Node = serde_saphyr::from_str(text).unwrap();
        let mut problems = Vec::new();
        let outputs = read(Path::new("c.yaml"), &node, Format::Text, &mut problems);
        if problems.is_empty() {
            Ok(outputs)
        } else {
            Err(problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
        }
    }

    #[test]
    fn standard_output_and_a_file_are_read() {
        let text = "- type: stdout\n  format: json\n- type: file\n  path: /var/log/soperator.log\n  maxSize: 10MB\n  \
                    maxAge: 7d\n  maxBackups: 0\n";
        let file = RotatingFile {
            path: "/var/log/soperator.log".into(),
            max_size: 10_000_000,
            max_age: Time::parse("7d").unwrap(),
            max_backups: 0,
        };
        assert_eq!(
            outputs(text),
            Ok(vec![Output::Stdout { format: Format::Json }, Output::File { format: Format::Text, file }])
        );
    }

    #[test]
    fn each_mistake_is_told_with_its_line() {
        for (text, message) in [
            ("- type: file", "c.yaml:1: logging.outputs[0].path: is missing"),
            ("- path: x", "c.yaml:1: logging.outputs[0].type: is missing: write stdout or file"),
            ("- type: stdout\n- type: syslog", "c.yaml:2: logging.outputs[1].type: \"syslog\" is no type"),
            (
                "- type: stdout\n  path: x",
                "c.yaml:2: logging.outputs[0].path: belongs to outputs of type file",
            ),
            (
                "- type: file\n  path: x\n  maxSzie: 1",
                "c.yaml:3: logging.outputs[0].maxSzie: unknown key; did you mean `maxSize`?",
            ),
            (
                "- type: file\n  path: x\n  maxSize: 100",
                "c.yaml:3: logging.outputs[0].maxSize: \"100\" is no size",
            ),
            (
                "- type: file\n  path: x\n  maxAge: {}",
                "c.yaml:3: logging.outputs[0].maxAge: expects a single value, not an object",
            ),
            ("- stdout", "c.yaml:1: logging.outputs[0]: expects an object, not a single value"),
            ("stdout", "c.yaml:1: logging.outputs: expects a list, not a single value"),
            ("[]", "c.yaml:1: logging.outputs: is empty"),
        ] {
            let told = outputs(text).unwrap_err();
            assert!(told.starts_with(message), "{text:?} gave {told:?}");
        }
    }

    #[test]
    fn levels_of_the_originals_are_mapped() {
        for (text, meant) in [("debug", Level::Debug), ("dpanic", Level::Error), ("FATAL", Level::Error)] {
            assert_eq!(level(text), Ok(meant));
        }
        assert!(level("loud").unwrap_err().contains("warn or error"));
        assert_eq!(format("plain"), Ok(Format::Text));
    }
}
