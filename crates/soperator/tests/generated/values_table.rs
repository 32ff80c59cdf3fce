//! A table of a chart's values, made from `values.yaml`: comments above a key say what it is.

use serde_json::Value;

/// One row: a value that a user can set.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) path: String,
    pub(crate) default: String,
    pub(crate) description: String,
}

/// A key of the file, with the comment that stands directly above it.
struct Key {
    indent: usize,
    path: String,
    comment: String,
}

/// The rows of a values file, in its order. A key with a comment is a row, unless keys below it have comments too; an error
/// names a value without any.
pub(crate) fn rows(text: &str) -> Result<Vec<Row>, String> {
    let values: Value = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
    let keys = keys(text);
    let mut rows = Vec::new();
    for (index, key) in keys.iter().enumerate() {
        let pointer = format!("/{}", key.path.replace('.', "/"));
        let value = values.pointer(&pointer).ok_or_else(|| format!("{}: not read as a value", key.path))?;
        let below = || keys[index + 1..].iter().take_while(|other| other.indent > key.indent);
        let is_group = value.as_object().is_some_and(|fields| !fields.is_empty())
            && (key.comment.is_empty() || below().any(|other| !other.comment.is_empty()));
        let covered = key.comment.is_empty() && is_below_a_row(&rows, &key.path);
        if is_group || covered {
            continue;
        }
        if key.comment.is_empty() {
            return Err(format!("{}: write a comment above it that says what it is", key.path));
        }
        rows.push(Row {
            path: key.path.clone(),
            default: value.to_string(),
            description: key.comment.clone(),
        });
    }
    Ok(rows)
}

fn is_below_a_row(rows: &[Row], path: &str) -> bool {
    rows.iter().any(|row| path.strip_prefix(&row.path).is_some_and(|rest| rest.starts_with('.')))
}

/// The keys of all maps that are written in block style. Items of lists are part of their list's value.
fn keys(text: &str) -> Vec<Key> {
    let mut found = Vec::<Key>::new();
    let mut comment = String::new();
    // The lines of a list or of a block of text are deeper than this and no keys of ours.
    let mut skip_deeper_than = None;
    for line in text.lines() {
        let content = line.trim_start();
        let indent = line.len() - content.len();
        if content.is_empty() {
            comment.clear();
            continue;
        }
        if skip_deeper_than.is_some_and(|limit| indent > limit || content.starts_with("- ")) {
            continue;
        }
        skip_deeper_than = None;
        if let Some(words) = content.strip_prefix('#') {
            if !comment.is_empty() {
                comment.push(' ');
            }
            comment.push_str(words.trim());
            continue;
        }
        let Some((name, value)) = content.split_once(':') else {
            // `{}` alone, or an item of a list.
            comment.clear();
            skip_deeper_than = content.starts_with("- ").then_some(indent.saturating_sub(1));
            continue;
        };
        if content.starts_with("- ") {
            skip_deeper_than = Some(indent.saturating_sub(1));
            continue;
        }
        if value.trim().starts_with(['|', '>']) {
            skip_deeper_than = Some(indent);
        }
        let parent = found.iter().rev().find(|key| key.indent < indent).map(|key| key.path.as_str());
        let name = name.trim().trim_matches(['"', '\'']);
        let path = parent.map_or_else(|| name.to_owned(), |parent| format!("{parent}.{name}"));
        found.push(Key { indent, path, comment: std::mem::take(&mut comment) });
    }
    found
}

/// The table as Markdown.
pub(crate) fn table(rows: &[Row]) -> String {
    if rows.is_empty() {
        return "This chart has no values.\n".into();
    }
    let cell = |text: &str| text.replace('|', "\\|");
    let mut out = String::from("| Value | Default | Description |\n|---|---|---|\n");
    for Row { path, default, description } in rows {
        out.push_str(&format!("| `{path}` | `{}` | {} |\n", cell(default), cell(description)));
    }
    out
}

#[test]
fn comments_become_descriptions() {
    let text = "\
# About the file, not about a value.

# The image
# of all pods.
image:
  # Its name.
  name: soperator
  # Its tag | variant.
  tag: \"\"
# What pods ask for.
resources:
  limits:
    memory: 128Mi
# Arguments.
args:
  - --a: b
  - key: c
    other: d
# A text.
text: |
  not: a key
# Off.
enabled: false
";
    let row = |path: &str, default: &str, description: &str| Row {
        path: path.into(),
        default: default.into(),
        description: description.into(),
    };
    let found = rows(text).expect("rows");
    assert_eq!(
        found,
        [
            row("image.name", "\"soperator\"", "Its name."),
            row("image.tag", "\"\"", "Its tag | variant."),
            row("resources", "{\"limits\":{\"memory\":\"128Mi\"}}", "What pods ask for."),
            row("args", "[{\"--a\":\"b\"},{\"key\":\"c\",\"other\":\"d\"}]", "Arguments."),
            row("text", "\"not: a key\\n\"", "A text."),
            row("enabled", "false", "Off."),
        ]
    );
    assert!(table(&found).contains("| `image.tag` | `\"\"` | Its tag \\| variant. |\n"));
}

#[test]
fn a_value_without_a_comment_is_an_error() {
    assert_eq!(rows("a:\n  b: 1\n"), Err("a.b: write a comment above it that says what it is".into()));
}

#[test]
fn no_values_are_no_rows() {
    assert_eq!(rows("# This chart has no values.\n{}\n"), Ok(vec![]));
    assert_eq!(table(&[]), "This chart has no values.\n");
}
