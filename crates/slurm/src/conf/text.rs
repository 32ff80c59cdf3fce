//! A configuration file as a list of lines that can only be well formed.

use std::fmt;

use super::reader::Document;
use super::value::{Key, Problem, Value, ValueError};

/// A file in the syntax that slurm.conf, slurmdbd.conf, cgroup.conf, gres.conf, topology.conf, mpi.conf and
/// job_container.conf share. Printing it gives the text.
///
/// ```
/// use slurm::conf::ConfFile;
/// use slurm::{key, value};
///
/// let mut conf = ConfFile::new();
/// conf.set(key!("ClusterName"), value!("c1")).set(key!("SlurmctldPort"), 6817_u16);
/// assert_eq!(conf.to_string(), "ClusterName=c1\nSlurmctldPort=6817\n");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfFile {
    lines: Vec<Line>,
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Line {
    Pairs(Pairs),
    Include(IncludePath),
    Comment(Comment),
}

impl ConfFile {
    /// A file without lines.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `key=value`.
    pub fn set(&mut self, key: Key, value: impl Into<Value>) -> &mut Self {
        self.push(Pairs::new(key, value))
    }

    /// Adds `key=value` if there is a value.
    pub fn set_some(&mut self, key: Key, value: Option<impl Into<Value>>) -> &mut Self {
        match value {
            Some(value) => self.set(key, value),
            None => self,
        }
    }

    /// Adds a line of several pairs: a node, a partition, a switch and so on.
    pub fn push(&mut self, line: impl Into<Pairs>) -> &mut Self {
        self.lines.push(Line::Pairs(line.into()));
        self
    }

    /// Adds `include path`.
    pub fn include(&mut self, path: IncludePath) -> &mut Self {
        self.lines.push(Line::Include(path));
        self
    }

    /// Adds a comment line.
    pub fn comment(&mut self, comment: Comment) -> &mut Self {
        self.lines.push(Line::Comment(comment));
        self
    }

    /// Removes every line of one pair whose key is one of these. Lines of nodes, partitions and the like stay.
    pub fn remove(&mut self, is_unwanted: impl Fn(&Key) -> bool) -> &mut Self {
        let unwanted = |line: &Line| match line {
            Line::Pairs(pairs) => pairs.rest.is_empty() && is_unwanted(&pairs.first.0),
            Line::Include(_) | Line::Comment(_) => false,
        };
        self.lines.retain(|line| !unwanted(line));
        self
    }

    /// Adds every line of a text that a user wrote and the reader understood, in plain form: comments and continuation lines
    /// are gone, and files that it includes are part of it.
    pub fn append(&mut self, document: &Document) -> &mut Self {
        for line in &document.lines {
            let mut pairs = line.pairs.iter().map(|pair| (pair.key.clone(), pair.value.clone()));
            if let Some((key, value)) = pairs.next() {
                self.push(Pairs { first: (key, value), rest: pairs.collect() });
            }
        }
        self
    }
}

impl fmt::Display for ConfFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.lines {
            match line {
                Line::Pairs(pairs) => writeln!(f, "{pairs}")?,
                Line::Include(path) => writeln!(f, "include {}", path.0)?,
                Line::Comment(comment) => writeln!(f, "{comment}")?,
            }
        }
        Ok(())
    }
}

/// A line `key=value key=value ...`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pairs {
    first: (Key, Value),
    rest: Vec<(Key, Value)>,
}

impl Pairs {
    /// A line with one pair.
    pub fn new(key: Key, value: impl Into<Value>) -> Self {
        Self { first: (key, value.into()), rest: Vec::new() }
    }

    /// Adds a pair.
    #[must_use]
    pub fn with(mut self, key: Key, value: impl Into<Value>) -> Self {
        self.rest.push((key, value.into()));
        self
    }

    /// Adds a pair if there is a value.
    #[must_use]
    pub fn with_some(self, key: Key, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.with(key, value),
            None => self,
        }
    }

    /// Adds pairs.
    #[must_use]
    pub fn with_all(mut self, pairs: impl IntoIterator<Item = (Key, Value)>) -> Self {
        self.rest.extend(pairs);
        self
    }

    /// Every key with its value, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &Value)> {
        std::iter::once(&self.first).chain(&self.rest).map(|(key, value)| (key, value))
    }
}

impl fmt::Display for Pairs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.first.0, self.first.1)?;
        for (key, value) in &self.rest {
            write!(f, " {key}={value}")?;
        }
        Ok(())
    }
}

/// The path of an included file: no blanks, nothing that Slurm would read as something else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncludePath(String);

impl IncludePath {
    /// Checks a path. A relative one is looked for beside the including file.
    ///
    /// # Errors
    ///
    /// The path is empty or has a blank, a quote or another character that would end it.
    pub fn new(field: &str, path: impl Into<String>) -> Result<Self, ValueError> {
        let path = path.into();
        let value = Value::new(field, path.clone())?;
        let text = value.as_str();
        let problem = match text {
            "" => Problem::Empty,
            _ if text.contains(char::is_whitespace) => Problem::Inside,
            _ => return Ok(Self(path)),
        };
        Err(ValueError::Text { field: field.into(), problem })
    }

    /// The path.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A line that Slurm passes over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comment(String);

impl Comment {
    /// Makes a comment of any text: what would end the line becomes a blank, and so does a `\` at the end, which would make a
    /// comment of the next line.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        Self(line.trim_end_matches(|c: char| c == '\\' || c.is_whitespace()).to_owned())
    }
}

impl fmt::Display for Comment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { f.write_str("#") } else { write!(f, "# {}", self.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{key, value};

    #[test]
    fn a_file_prints_its_lines_in_order() {
        let mut conf = ConfFile::new();
        conf.comment(Comment::new("Made by soperator"))
            .set(key!("ClusterName"), value!("c1"))
            .set_some(key!("Prolog"), None::<Value>)
            .set_some(key!("Epilog"), Some(value!("/opt/my epilog.sh")))
            .comment(Comment::new(""))
            .push(Pairs::new(key!("NodeName"), value!("a-[0-1]")).with(key!("CPUs"), 2_u32))
            .include(IncludePath::new("f", "custom_slurm.conf").unwrap());
        assert_eq!(
            conf.to_string(),
            "# Made by soperator\n\
             ClusterName=c1\n\
             Epilog=\"/opt/my epilog.sh\"\n\
             #\n\
             NodeName=a-[0-1] CPUs=2\n\
             include custom_slurm.conf\n"
        );
    }

    #[test]
    fn settings_are_removed_and_lines_of_nodes_stay() {
        let mut conf = ConfFile::new();
        conf.set(key!("KillWait"), 1_u16)
            .set(key!("WaitTime"), 2_u16)
            .push(Pairs::new(key!("NodeName"), value!("a")).with(key!("KillWait"), 3_u16));
        conf.remove(|key| *key == key!("killwait") || *key == key!("nodename"));
        assert_eq!(conf.to_string(), "WaitTime=2\nNodeName=a KillWait=3\n");
    }

    #[test]
    fn no_comment_reaches_the_next_line() {
        assert_eq!(Comment::new("a\nSlurmUser=root\r").to_string(), "# a SlurmUser=root");
        assert_eq!(Comment::new("a \\ ").to_string(), "# a");
        assert_eq!(Comment::new("\\\\").to_string(), "#");
    }

    #[test]
    fn an_include_is_one_path() {
        for path in ["", "a b", "a\nb", "a#b", "\"a\"", "a\u{a0}b"] {
            assert!(IncludePath::new("f", path).is_err(), "{path:?}");
        }
    }
}
