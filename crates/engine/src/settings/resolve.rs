//! Takes each value from the first place that has it: flag, environment, file, default.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use super::file::{self, Data, Node};
use super::flags::Flags;
use super::problem::Problem;
use super::setting::Setting;
use super::source::Source;

/// A value as `soperator config show` tells it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The name of the setting in the file.
    pub key: &'static str,
    /// The value that holds.
    pub value: Value,
    /// Where it came from.
    #[serde(serialize_with = "as_text")]
    pub source: Source,
}

fn as_text<S: serde::Serializer>(source: &Source, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(source)
}

/// What is known so far.
pub(super) struct Resolver<'a> {
    flags: &'a Flags,
    env: &'a dyn Fn(&str) -> Option<String>,
    file: BTreeMap<&'static str, (u64, Node)>,
    pub(super) rows: Vec<Row>,
    pub(super) problems: Vec<Problem>,
    pub(super) warnings: Vec<String>,
}

impl<'a> Resolver<'a> {
    /// Reads the file, if there is one.
    pub(super) fn new(flags: &'a Flags, env: &'a dyn Fn(&str) -> Option<String>) -> Self {
        let mut resolver = Self {
            flags,
            env,
            file: BTreeMap::new(),
            rows: Vec::new(),
            problems: Vec::new(),
            warnings: Vec::new(),
        };
        if let Some(path) = &flags.config {
            match std::fs::read_to_string(path) {
                Ok(text) => {
                    let read = file::read(path, &text);
                    resolver.file = read.values;
                    resolver.problems = read.problems;
                    resolver.warnings = read.warnings;
                }
                Err(error) => {
                    let message = format!("cannot read {}: {error}", path.display());
                    resolver.problems.push(Problem::new("--config", message));
                }
            }
        }
        resolver
    }

    /// The text that somebody set, and who.
    fn text(&mut self, setting: &Setting) -> Option<(String, Source)> {
        if let Some(flag) = setting.flag
            && let Some(text) = self.flags.get(flag)
        {
            return Some((text.to_string(), Source::Flag(flag)));
        }
        if let Some(flag) = setting.port_flag
            && let Some(port) = self.flags.get(flag)
        {
            return Some((format!(":{port}"), Source::Flag(flag)));
        }
        if let Some(name) = setting.env
            && let Some(text) = (self.env)(name).filter(|text| !text.is_empty())
        {
            return Some((text, Source::Env(name)));
        }
        let (source, node) = self.node(setting)?;
        match node.data {
            Data::Scalar(text) if text.is_empty() => None,
            Data::Scalar(text) => Some((text, source)),
            other => {
                let message = format!("expects {}, not {}", setting.value, other.noun());
                self.problems.push(Problem::at(&source, setting.key, message));
                None
            }
        }
    }

    /// What the file says about a setting, as it is.
    pub(super) fn node(&self, setting: &Setting) -> Option<(Source, Node)> {
        let (line, node) = self.file.get(setting.key)?.clone();
        Some((Source::File(self.flags.config.clone().unwrap_or_default(), line), node))
    }

    /// The path of the file.
    pub(super) fn path(&self) -> &'a Path {
        self.flags.config.as_deref().unwrap_or(Path::new(""))
    }

    /// The value of a setting; the default if nobody set it, or if it is wrong, which is noted.
    pub(super) fn get<T: Serialize>(
        &mut self,
        setting: &Setting,
        read: impl FnOnce(&str) -> Result<T, String>,
        default: T,
    ) -> T {
        self.get_or(setting, read, || (default, Source::Default))
    }

    /// As [`Self::get`], with a default that has a source of its own.
    pub(super) fn get_or<T: Serialize>(
        &mut self,
        setting: &Setting,
        read: impl FnOnce(&str) -> Result<T, String>,
        default: impl FnOnce() -> (T, Source),
    ) -> T {
        let (value, source) = match self.text(setting) {
            None => default(),
            Some((text, source)) => match read(&text) {
                Ok(value) => (value, source),
                Err(message) => {
                    self.problems.push(Problem::at(&source, setting.key, message));
                    default()
                }
            },
        };
        self.note(setting, &value, source);
        value
    }

    /// Keeps a value for `soperator config show`.
    pub(super) fn note(&mut self, setting: &Setting, value: &impl Serialize, source: Source) {
        let value = serde_json::to_value(value).unwrap_or(Value::Null);
        self.rows.push(Row { key: setting.key, value, source });
    }

    /// Whether somebody set it, and who.
    pub(super) fn source_of(&self, setting: &Setting) -> Source {
        let row = self.rows.iter().find(|row| row.key == setting.key);
        row.map_or(Source::Default, |row| row.source.clone())
    }

    /// Notes that a value is wrong beside others.
    pub(super) fn problem(&mut self, setting: &Setting, message: impl Into<String>) {
        let source = self.source_of(setting);
        self.problems.push(Problem::at(&source, setting.key, message));
    }

    /// Notes something that works otherwise than one might think.
    pub(super) fn warn(&mut self, setting: &Setting, message: impl Into<String>) {
        let source = self.source_of(setting);
        self.warnings.push(Problem::at(&source, setting.key, message).to_string());
    }
}
