//! Reads the syntax that Slurm's configuration files share, and keeps file and line numbers.
//!
//! What Slurm does, found out on 24.11 and 26.05: a `#` begins a comment, also between quotes, unless a `\` stands before it; a `\`
//! at the end of a line joins it with the next; `\x` is `x`; keys are letters, digits, `_` and `.`; blanks may stand around `=`; a
//! value is text without blanks or text between quotes; `include FILE` begins in the first column.
//!
//! Stricter than Slurm on purpose: a quote inside a value is an error. Slurm takes it as a plain character, but whoever wrote it
//! meant something else.

use std::fmt;
use std::sync::Arc;

use super::value::{Key, Value, is_blank};

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The file, as it was named.
    pub file: Arc<str>,
    /// The line, counted from 1. For joined lines the first of them.
    pub line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// One `key=value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The key, in the case in which it was written.
    pub key: Key,
    /// The sign before `=` as in `+=`. Slurm reads it and does nothing with it.
    pub sign: Option<char>,
    /// The value without quotes and escapes.
    pub value: Value,
}

/// A line with at least one pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Where it is.
    pub at: Place,
    /// What is on it.
    pub pairs: Vec<Pair>,
}

/// What was read: the lines of a file, with those of included files in the place of the `include`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Document {
    /// The lines, in order. Lines with errors are not among them.
    pub lines: Vec<Line>,
    /// What could not be understood, in order.
    pub errors: Vec<SyntaxError>,
}

/// Something that Slurm would not understand, or would understand in another way than it looks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {message}")]
pub struct SyntaxError {
    /// Where it is.
    pub at: Place,
    /// What is wrong.
    pub message: String,
}

/// Where the text of an included file comes from. A relative path is meant from the folder of the including file.
pub trait Resolve {
    /// Gives the text of a file, and the name for it in messages.
    ///
    /// # Errors
    ///
    /// The file cannot be read, and why.
    fn resolve(&mut self, path: &str, from: &str) -> Result<(String, String), String>;
}

/// No includes: each is an error.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoIncludes;

impl Resolve for NoIncludes {
    fn resolve(&mut self, _path: &str, _from: &str) -> Result<(String, String), String> {
        Err("files cannot be included here".into())
    }
}

impl<F: FnMut(&str, &str) -> Result<(String, String), String>> Resolve for F {
    fn resolve(&mut self, path: &str, from: &str) -> Result<(String, String), String> {
        self(path, from)
    }
}

/// How deep files may include each other.
pub const MAX_DEPTH: usize = 16;
/// How many files may be included in all.
pub const MAX_FILES: usize = 256;
/// How many bytes all files may have together.
pub const MAX_BYTES: usize = 16 << 20;

/// Reads a text and what it includes.
///
/// Never fails: what is wrong is in [`Document::errors`]. Time and memory are bounded by the length of the texts, and that by
/// [`MAX_BYTES`].
///
/// ```
/// use slurm::conf::{NoIncludes, read};
///
/// let document = read("slurm.conf", "SlurmUser = slurm # who\nNodeName=a CPUs=2 \\\n  RealMemory=100\n", &mut NoIncludes);
/// assert_eq!(document.errors, []);
/// assert_eq!(document.lines[1].at.to_string(), "slurm.conf:2");
/// assert_eq!(document.lines[1].pairs[2].value.as_str(), "100");
/// ```
pub fn read(name: &str, text: &str, resolve: &mut dyn Resolve) -> Document {
    let mut reader = Reader { resolve, document: Document::default(), open: Vec::new(), files: 0, bytes: 0 };
    reader.file(name.into(), text);
    reader.document
}

struct Reader<'a> {
    resolve: &'a mut dyn Resolve,
    document: Document,
    /// The files that include the present one, and itself.
    open: Vec<Arc<str>>,
    files: usize,
    bytes: usize,
}

impl Reader<'_> {
    fn file(&mut self, name: Arc<str>, text: &str) {
        self.bytes = self.bytes.saturating_add(text.len());
        let at = |line| Place { file: Arc::clone(&name), line };
        if self.bytes > MAX_BYTES {
            return self.error(at(1), format!("all files together have more than {MAX_BYTES} bytes"));
        }
        self.open.push(Arc::clone(&name));
        for (line, text) in logical_lines(text) {
            self.line(at(line), &text);
        }
        self.open.pop();
    }

    fn line(&mut self, at: Place, text: &str) {
        if text.contains('\0') {
            return self.error(at, "a NUL character: Slurm would not see the rest of the line".into());
        }
        if let Some(path) = include_path(text) {
            return self.include(at, path);
        }
        match pairs(text) {
            Ok(pairs) if pairs.is_empty() => {}
            Ok(pairs) => self.document.lines.push(Line { at, pairs }),
            Err(message) => self.error(at, message),
        }
    }

    fn include(&mut self, at: Place, path: Result<String, String>) {
        let path = match path.map(|path| self.with_cluster_name(path)) {
            Ok(Ok(path)) => path,
            Ok(Err(message)) | Err(message) => return self.error(at, message),
        };
        self.files += 1;
        if self.files > MAX_FILES {
            return self.error(at, format!("more than {MAX_FILES} files are included"));
        }
        if self.open.len() > MAX_DEPTH {
            return self.error(at, format!("more than {MAX_DEPTH} files include each other"));
        }
        match self.resolve.resolve(&path, &at.file) {
            Err(reason) => self.error(at, format!("cannot include {path}: {reason}")),
            Ok((name, _)) if self.open.iter().any(|open| **open == *name) => {
                self.error(at, format!("{name} includes itself"));
            }
            Ok((name, text)) => self.file(name.into(), &text),
        }
    }

    /// `%c` in a path is the name of the cluster, if it was set before.
    fn with_cluster_name(&self, path: String) -> Result<String, String> {
        if !path.contains("%c") {
            return Ok(path);
        }
        let is_name = |pair: &&Pair| pair.key.as_str().eq_ignore_ascii_case("ClusterName");
        let name = self.document.lines.iter().rev().flat_map(|line| &line.pairs).find(is_name);
        match name {
            Some(name) => Ok(path.replace("%c", &name.value.as_str().to_lowercase())),
            None => Err(format!("`%c` in {path} needs a ClusterName above")),
        }
    }

    fn error(&mut self, at: Place, message: String) {
        self.document.errors.push(SyntaxError { at, message });
    }
}

/// The lines without comments and escapes, those that end with `\` joined with the next, and the number of the first of each.
pub(super) fn logical_lines(text: &str) -> impl Iterator<Item = (usize, String)> {
    let mut lines = text.split('\n').enumerate();
    std::iter::from_fn(move || {
        let (index, first) = lines.next()?;
        let mut joined = String::new();
        let mut line = first;
        loop {
            let line_text = without_comment(line);
            match continued(line_text) {
                Some(before) => joined.push_str(before),
                None => {
                    joined.push_str(line_text);
                    break;
                }
            }
            match lines.next() {
                Some((_, next)) => line = next,
                None => break,
            }
        }
        Some((index + 1, without_escapes(&joined)))
    })
}

/// Up to the first `#` that has no `\` (or an even number of them) before it.
fn without_comment(line: &str) -> &str {
    let mut escaped = false;
    for (index, c) in line.char_indices() {
        match c {
            '#' if !escaped => return &line[..index],
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    line
}

/// The line without the `\` at its end, if there is one that is not itself escaped. Blanks may stand behind it.
fn continued(line: &str) -> Option<&str> {
    let line = line.trim_end_matches(is_blank);
    let slashes = line.len() - line.trim_end_matches('\\').len();
    (slashes % 2 == 1).then(|| &line[..line.len() - 1])
}

fn without_escapes(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => plain.extend(chars.next()),
            _ => plain.push(c),
        }
    }
    plain
}

/// The path of an `include` line, if it is one.
fn include_path(line: &str) -> Option<Result<String, String>> {
    let word = line.get(..7).filter(|word| word.eq_ignore_ascii_case("include"))?;
    let rest = line[word.len()..].strip_prefix(is_blank)?;
    let mut words = rest.split(is_blank).filter(|word| !word.is_empty());
    Some(match (words.next(), words.next()) {
        (Some(path), None) => Ok(path.into()),
        (None, _) => Err("`include` needs the path of a file".into()),
        (Some(path), Some(more)) => Err(format!("`include {path}` is followed by {more:?}")),
    })
}

/// Every `key=value` of a line.
fn pairs(line: &str) -> Result<Vec<Pair>, String> {
    let mut found = Vec::new();
    let mut rest = line.trim_start_matches(is_blank);
    while !rest.is_empty() {
        let (pair, after) = pair(rest)?;
        found.push(pair);
        rest = after.trim_start_matches(is_blank);
    }
    Ok(found)
}

fn pair(text: &str) -> Result<(Pair, &str), String> {
    let is_key = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    let end = text.find(|c| !is_key(c)).unwrap_or(text.len());
    let (key, rest) = text.split_at(end);
    let rest = rest.trim_start_matches(is_blank);
    let sign = rest.chars().next().filter(|c| matches!(c, '-' | '*' | '+' | '/'));
    let rest = rest.strip_prefix(['-', '*', '+', '/']).unwrap_or(rest);
    let Some(rest) = rest.strip_prefix('=').filter(|_| !key.is_empty()) else {
        let hint = if key.eq_ignore_ascii_case("include") {
            "; `include` must begin in the first column"
        } else {
            ""
        };
        return Err(format!("{:?} is not KEY=VALUE{hint}", first_word(text)));
    };
    let (value, after) = value(key, rest.trim_start_matches(is_blank))?;
    let key = Key::new("key", key).map_err(|error| error.to_string())?;
    Ok((Pair { key, sign, value: Value::read(value.into()) }, after))
}

/// The value at the beginning of a text, and what comes behind it.
fn value<'a>(key: &str, text: &'a str) -> Result<(&'a str, &'a str), String> {
    if let Some(quoted) = text.strip_prefix('"') {
        let end =
            quoted.find('"').ok_or_else(|| format!("the quote before the value of {key} is never closed"))?;
        let after = &quoted[end + 1..];
        if !after.is_empty() && !after.starts_with(is_blank) {
            return Err(format!("the value of {key} goes on behind its quotes with {:?}", first_word(after)));
        }
        return Ok((&quoted[..end], after));
    }
    let end = text.find(is_blank).unwrap_or(text.len());
    let (value, after) = text.split_at(end);
    if value.is_empty() {
        return Err(format!("{key} has no value; write {key}=\"\" if that is meant"));
    }
    if value.contains('"') {
        return Err(format!("the value of {key} has a quote in it: {:?}", first_word(value)));
    }
    Ok((value, after))
}

/// Enough of a text to find it again.
fn first_word(text: &str) -> String {
    text.split(is_blank).next().unwrap_or_default().chars().take(60).collect()
}

#[cfg(test)]
mod tests;
