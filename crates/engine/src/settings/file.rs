//! The file with settings: YAML into values that know their lines.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

use super::nearest::advice;
use super::problem::Problem;
use super::setting::{NOT_OURS, SETTINGS};

/// A value of the file.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Data {
    /// Nothing, as in `key:`.
    Null,
    /// Text, number or switch, as text.
    Scalar(String),
    /// A list.
    List(Vec<Node>),
    /// An object, in the order of the file.
    Map(Vec<(String, u64, Node)>),
}

impl Data {
    /// What it is, in words.
    pub(super) fn noun(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Scalar(_) => "a single value",
            Self::List(_) => "a list",
            Self::Map(_) => "an object",
        }
    }
}

/// A value and its line.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub(super) line: u64,
    pub(super) data: Data,
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Data>::deserialize(deserializer)?;
        Ok(Self { line: spanned.referenced.line(), data: spanned.value })
    }
}

impl<'de> Deserialize<'de> for Data {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(DataVisitor)
    }
}

struct DataVisitor;

impl<'de> Visitor<'de> for DataVisitor {
    type Value = Data;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Data, E> {
        Ok(Data::Null)
    }

    fn visit_none<E>(self) -> Result<Data, E> {
        Ok(Data::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Data, D::Error> {
        Data::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Data, E> {
        Ok(Data::Scalar(value.to_string()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Data, E> {
        Ok(Data::Scalar(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Data, E> {
        Ok(Data::Scalar(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Data, E> {
        Ok(Data::Scalar(value.to_string()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Data, E> {
        Ok(Data::Scalar(value.to_string()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Data, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Data::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Data, A::Error> {
        let mut map = Vec::new();
        while let Some((key, value)) = entries.next_entry::<Spanned<String>, Node>()? {
            map.push((key.value, key.referenced.line(), value));
        }
        Ok(Data::Map(map))
    }
}

/// What a file says.
#[derive(Debug, Default)]
pub(super) struct Read {
    /// Key to value and the line of the key. What is set to nothing is not here.
    pub(super) values: BTreeMap<&'static str, (u64, Node)>,
    pub(super) problems: Vec<Problem>,
    pub(super) warnings: Vec<String>,
}

/// Reads the text of the file at `path`.
pub(super) fn read(path: &Path, text: &str) -> Read {
    let mut read = Read::default();
    if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
        return read;
    }
    match serde_saphyr::from_str::<Node>(text) {
        Ok(root) => walk(path, "", &root, &mut read),
        Err(error) => {
            let line = error.location().map_or(1, |location| location.line());
            // Without the snippet: a file may hold what must not be shown.
            let message = format!("broken YAML: {}", error.without_snippet());
            read.problems.push(Problem::in_file(path, line, "", message));
        }
    }
    read
}

fn walk(path: &Path, prefix: &str, node: &Node, read: &mut Read) {
    let Data::Map(entries) = &node.data else {
        if node.data != Data::Null {
            let message = format!("expects an object, not {}", node.data.noun());
            read.problems.push(Problem::in_file(path, node.line, prefix, message));
        }
        return;
    };
    for (name, line, value) in entries {
        let key = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
        if let Some(setting) = SETTINGS.iter().find(|setting| setting.key == key) {
            if value.data != Data::Null {
                read.values.insert(setting.key, (*line, value.clone()));
            }
        } else if let Some((_, why)) = NOT_OURS.iter().find(|(known, _)| *known == key) {
            read.warnings.push(format!("{}:{line}: {key}: {why}", path.display()));
        } else if SETTINGS.iter().any(|setting| is_below(setting.key, &key)) {
            walk(path, &key, value, read);
        } else {
            let message = format!("unknown key; {}", advice(name, children(prefix)));
            read.problems.push(Problem::in_file(path, *line, &key, message));
        }
    }
}

fn is_below(key: &str, prefix: &str) -> bool {
    key.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('.'))
}

/// The names that may stand at a place of the file.
fn children(prefix: &str) -> BTreeSet<&'static str> {
    let below = |key: &'static str| match prefix {
        "" => Some(key),
        _ => key.strip_prefix(prefix)?.strip_prefix('.'),
    };
    SETTINGS.iter().filter_map(|setting| below(setting.key)?.split('.').next()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str) -> String {
        let read = read(Path::new("c.yaml"), text);
        read.problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn an_unknown_key_is_told_with_its_line_and_the_one_that_was_meant() {
        assert_eq!(
            problems("logging:\n  format: json\n  levle: info\n"),
            "c.yaml:3: logging.levle: unknown key; did you mean `level`?"
        );
        assert_eq!(
            problems("\n# note\nlogin: {}\n"),
            "c.yaml:3: login: unknown key; did you mean `logging`?"
        );
        assert_eq!(
            problems("health:\n  colour: red\n"),
            "c.yaml:2: health.colour: unknown key; known are bindAddress"
        );
    }

    #[test]
    fn a_value_where_an_object_belongs_is_told() {
        assert_eq!(problems("logging: info"), "c.yaml:1: logging: expects an object, not a single value");
        assert_eq!(problems("- a\n"), "c.yaml:1: expects an object, not a list");
    }

    #[test]
    fn broken_text_is_told_without_showing_it() {
        let told = problems("tls:\n  key: \"s3cret\n");
        assert!(told.starts_with("c.yaml:"), "{told}");
        assert!(told.contains("broken YAML") && !told.contains("s3cret"), "{told}");
        assert!(problems("a: 1\na: 2\n").contains("c.yaml:2"), "{}", problems("a: 1\na: 2\n"));
    }

    #[test]
    fn lines_and_values_are_found_and_nothing_counts_as_not_set() {
        let text =
            "logging:\n  level: warn\n  format:\nmaxConcurrentReconciles: 4\nwebhooks: {enabled: false}\n";
        let read = read(Path::new("c.yaml"), text);
        let seen: Vec<_> = read
            .values
            .iter()
            .map(|(key, (line, node))| match &node.data {
                Data::Scalar(text) => format!("{key}={text}@{line}"),
                other => format!("{key}: {other:?}"),
            })
            .collect();
        assert_eq!(seen, ["logging.level=warn@2", "maxConcurrentReconciles=4@4", "webhooks.enabled=false@5"]);
        assert_eq!(read.problems.len(), 0);
    }

    #[test]
    fn an_empty_file_sets_nothing() {
        for text in ["", "# nothing\n\n", "---\n", "null\n"] {
            assert_eq!(problems(text), "", "{text:?}");
        }
    }

    #[test]
    fn values_of_the_charts_warn() {
        let read =
            read(Path::new("c.yaml"), "metrics:\n  serviceMonitor:\n    enabled: true\ncustomMetrics: []\n");
        assert_eq!(read.problems.len(), 0);
        assert_eq!(read.warnings.len(), 2, "{:?}", read.warnings);
        assert!(read.warnings[0].starts_with("c.yaml:2: metrics.serviceMonitor: has no effect"));
    }
}
