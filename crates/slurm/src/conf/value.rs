//! Keys, values and the other pieces of which lines are made.
//!
//! Everything here is safe by construction: a piece that exists can be written into a file and is read back by Slurm as
//! the same piece, and as nothing else. Pieces of fixed text are checked by the compiler ([`key!`](crate::key),
//! [`value!`](crate::value)), pieces from elsewhere when they are made.

use std::borrow::Cow;
use std::fmt;

use crate::hostlist::HostList;
use crate::memory::Memory;
use crate::node_name::NodeName;
use crate::time_limit::TimeLimit;
use crate::tres::Tres;

/// Why a text cannot be written into a configuration file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// It would end the line, or part of it would be taken for something else.
    #[error("{field}: {problem} cannot be written into a Slurm configuration file")]
    Text {
        /// Where the text came from: the path of the field.
        field: String,
        /// What is wrong.
        problem: Problem,
    },
    /// It is no key.
    #[error("{field}: {key:?} is no key of a Slurm configuration file: write letters, digits, `_` and `.`")]
    Key {
        /// Where the text came from.
        field: String,
        /// The text, shortened.
        key: String,
    },
}

/// What makes a text unfit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// A character that begins or ends something: newline, `#`, `"`, `\`, other control characters.
    Character(char),
    /// A blank at the beginning or the end, which would be lost.
    Blank,
    /// Nothing where something is needed.
    Empty,
    /// A blank inside a word.
    Inside,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Character(c) => write!(f, "text with {c:?}"),
            Self::Blank => f.write_str("text that begins or ends with a blank"),
            Self::Empty => f.write_str("an empty text"),
            Self::Inside => f.write_str("a name with a blank in it"),
        }
    }
}

/// The name of a setting, such as `SlurmctldPort`. Case does not count when keys are compared.
#[derive(Clone, Debug)]
pub struct Key(Cow<'static, str>);

impl Key {
    /// Checks a name that comes from outside.
    ///
    /// # Errors
    ///
    /// There are other characters than letters, digits, `_` and `.` in it, or none.
    pub fn new(field: &str, name: impl Into<String>) -> Result<Self, ValueError> {
        let name = name.into();
        if is_key(&name) {
            Ok(Self(name.into()))
        } else {
            Err(ValueError::Key { field: field.into(), key: name.chars().take(80).collect() })
        }
    }

    /// Only for [`key!`](crate::key), which has it checked by the compiler.
    #[doc(hidden)]
    #[must_use]
    pub const fn checked(name: &'static str) -> Self {
        Self(Cow::Borrowed(name))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.0.eq_ignore_ascii_case(&other.0)
    }
}

impl Eq for Key {}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether a text is a key. Usable by the compiler.
#[doc(hidden)]
#[must_use]
pub const fn is_key(name: &str) -> bool {
    let bytes = name.as_bytes();
    let mut index = 0;
    while index < bytes.len() {
        if !(bytes[index].is_ascii_alphanumeric() || bytes[index] == b'_' || bytes[index] == b'.') {
            return false;
        }
        index += 1;
    }
    !bytes.is_empty()
}

/// A key of fixed text; the compiler refuses what is none.
///
/// ```
/// let port = slurm::key!("SlurmctldPort");
/// ```
/// ```compile_fail
/// let wrong = slurm::key!("Slurmctld Port");
/// ```
#[macro_export]
macro_rules! key {
    ($name:literal) => {{
        const { assert!($crate::conf::is_key($name), "this is no key of a Slurm configuration file") };
        $crate::conf::Key::checked($name)
    }};
}

/// What a setting is set to. Quotes are put around it where they are needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value(Cow<'static, str>);

impl Value {
    /// Checks a text that comes from outside. The field is named in the error.
    ///
    /// Quotes, `#`, `\`, control characters and blanks at the ends are refused.
    ///
    /// # Errors
    ///
    /// The text cannot be written so that exactly it is read again.
    pub fn new(field: &str, text: impl Into<String>) -> Result<Self, ValueError> {
        let text = text.into();
        match problem(&text) {
            None => Ok(Self(text.into())),
            Some(problem) => Err(ValueError::Text { field: field.into(), problem }),
        }
    }

    /// As [`Value::new`], but takes `#` and `\` too and writes them as Slurm wants it (`\#`, `\\`).
    ///
    /// For what nobody can change to please us, such as a password. Everything else is better refused: a `#` in a setting is
    /// most often a comment in the wrong place.
    ///
    /// # Errors
    ///
    /// The text cannot be written so that exactly it is read again.
    pub fn escaped(field: &str, text: impl Into<String>) -> Result<Self, ValueError> {
        let text = text.into();
        match problem(&text.replace(['#', '\\'], "_")) {
            None => Ok(Self(text.into())),
            Some(problem) => Err(ValueError::Text { field: field.into(), problem }),
        }
    }

    /// Several values in one, with commas between them.
    pub fn list(items: impl IntoIterator<Item = impl Into<Self>>) -> Self {
        let items: Vec<Self> = items.into_iter().map(Into::into).collect();
        Self(items.iter().map(Self::as_str).collect::<Vec<_>>().join(",").into())
    }

    /// The print of something that is made of checked pieces only.
    pub(super) fn printed(piece: &impl fmt::Display) -> Self {
        Self(piece.to_string().into())
    }

    /// What the reader found. It came out of a line, so it fits into one.
    pub(super) fn read(text: String) -> Self {
        Self(text.into())
    }

    /// Only for [`value!`](crate::value), which has it checked by the compiler.
    #[doc(hidden)]
    #[must_use]
    pub const fn checked(text: &'static str) -> Self {
        Self(Cow::Borrowed(text))
    }

    /// The text without quotes and escapes.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A value of fixed text; the compiler refuses what cannot be written.
///
/// ```
/// let plugin = slurm::value!("auth/munge");
/// ```
/// ```compile_fail
/// let wrong = slurm::value!("a # comment");
/// ```
#[macro_export]
macro_rules! value {
    ($text:literal) => {{
        const { assert!($crate::conf::is_value($text), "this cannot be written into a Slurm configuration file") };
        $crate::conf::Value::checked($text)
    }};
}

/// Whether a text is a value, for the compiler; stricter than [`Value::new`] in that it takes ASCII only.
#[doc(hidden)]
#[must_use]
pub const fn is_value(text: &str) -> bool {
    let bytes = text.as_bytes();
    let mut index = 0;
    while index < bytes.len() {
        let byte = bytes[index];
        let blank = byte == b' ';
        let at_the_end = index == 0 || index + 1 == bytes.len();
        if !(byte.is_ascii_graphic() || blank) || matches!(byte, b'#' | b'"' | b'\\') || (blank && at_the_end)
        {
            return false;
        }
        index += 1;
    }
    true
}

fn problem(text: &str) -> Option<Problem> {
    if let Some(wrong) = text.chars().find(|c| c.is_control() || matches!(c, '#' | '"' | '\\')) {
        return Some(Problem::Character(wrong));
    }
    (text.starts_with(' ') || text.ends_with(' ')).then_some(Problem::Blank)
}

/// As it stands in a file: with quotes if it is empty or has blanks, with `\` before `#` and `\`.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quote = if self.0.is_empty() || self.0.contains(is_blank) { "\"" } else { "" };
        f.write_str(quote)?;
        for part in self.0.split_inclusive(['#', '\\']) {
            match part.strip_suffix(['#', '\\']) {
                Some(before) => write!(f, "{before}\\{}", &part[before.len()..])?,
                None => f.write_str(part)?,
            }
        }
        f.write_str(quote)
    }
}

/// What C calls a space.
pub(super) fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\x0b' | '\x0c' | '\r')
}

macro_rules! from_printed {
    ($($type:ty),*) => {
        $(impl From<$type> for Value {
            fn from(value: $type) -> Self {
                Self(value.to_string().into())
            }
        })*
    };
}

// None of these prints anything that needs a check.
from_printed!(u16, u32, u64, usize, TimeLimit, Tres, HostList, &HostList, NodeName, &NodeName, Name, &Name);

/// Slurm's `YES` and `NO`.
impl From<bool> for Value {
    fn from(value: bool) -> Self {
        if value { Self::checked("YES") } else { Self::checked("NO") }
    }
}

/// As a number of mebibytes: slurm.conf takes no suffix.
impl From<Memory> for Value {
    fn from(memory: Memory) -> Self {
        memory.mib().into()
    }
}

impl From<&Value> for Value {
    fn from(value: &Value) -> Self {
        value.clone()
    }
}

/// The name of a partition, node set, switch, block, feature or the like: one word without commas and brackets.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(String);

impl Name {
    /// Checks a name.
    ///
    /// # Errors
    ///
    /// The name is empty or has a character that would end it.
    pub fn new(field: &str, name: impl Into<String>) -> Result<Self, ValueError> {
        let name = name.into();
        let wrong = |c: char| c.is_control() || matches!(c, '#' | '"' | '\\' | ',' | '[' | ']' | '=');
        let problem = if name.is_empty() {
            Some(Problem::Empty)
        } else if let Some(wrong) = name.chars().find(|c| wrong(*c)) {
            Some(Problem::Character(wrong))
        } else {
            name.contains(' ').then_some(Problem::Inside)
        };
        match problem {
            None => Ok(Self(name)),
            Some(problem) => Err(ValueError::Text { field: field.into(), problem }),
        }
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_could_become_something_else_is_refused_with_its_field() {
        for text in
            ["a\nSlurmUser=root", "a\r", "a\0", "a # b", "a\"b", "\"a\"", "a\\", " a", "a ", "a\tb", "\u{85}"]
        {
            let error = Value::new("spec.x", text).unwrap_err();
            assert!(error.to_string().starts_with("spec.x: "), "{text:?}: {error}");
        }
        assert_eq!(
            Value::new("spec.mailProg", "a\nb").unwrap_err().to_string(),
            "spec.mailProg: text with '\\n' cannot be written into a Slurm configuration file"
        );
    }

    #[test]
    fn blanks_and_nothing_are_quoted_and_the_rest_stands_as_it_is() {
        for (text, printed) in [
            ("a", "a"),
            ("a b", "\"a b\""),
            ("", "\"\""),
            ("jwt_key=/x", "jwt_key=/x"),
            ("a'b", "a'b"),
            ("é", "é"),
        ] {
            assert_eq!(Value::new("f", text).unwrap().to_string(), printed);
        }
    }

    #[test]
    fn a_password_may_have_any_printable_character_but_a_quote() {
        assert_eq!(Value::escaped("f", "a#b\\c d").unwrap().to_string(), "\"a\\#b\\\\c d\"");
        assert!(Value::escaped("f", "a\"b").is_err());
        assert!(Value::escaped("f", "a\nb").is_err());
    }

    #[test]
    fn the_compiler_knows_the_same_rules() {
        for text in ["a", "a b", "", "task/cgroup,task/affinity", "k=v"] {
            assert!(is_value(text) && Value::new("f", text).is_ok(), "{text:?}");
        }
        for text in ["a#", "a\"", "a\\", " a", "a ", "\n", "a\tb"] {
            assert!(!is_value(text) && Value::new("f", text).is_err(), "{text:?}");
        }
        for (name, good) in
            [("NodeName", true), ("A_b.c1", true), ("", false), ("a b", false), ("a=", false), ("é", false)]
        {
            assert_eq!(is_key(name), good, "{name:?}");
            assert_eq!(Key::new("f", name).is_ok(), good, "{name:?}");
        }
    }

    #[test]
    fn typed_values_print_as_slurm_wants_them() {
        assert_eq!(Value::from(true).to_string(), "YES");
        assert_eq!(Value::from(Memory::from_mib(16384)).to_string(), "16384");
        assert_eq!(Value::from(TimeLimit::Unlimited).to_string(), "UNLIMITED");
        assert_eq!(Value::list([crate::value!("IDLE"), crate::value!("CYCLE")]).to_string(), "IDLE,CYCLE");
    }

    #[test]
    fn a_name_is_one_word() {
        assert_eq!(Name::new("f", "gpu-h100").unwrap().as_str(), "gpu-h100");
        for name in ["", "a b", "a,b", "a[1]", "a=b", "a#", "a\n", "a\"", "a\\"] {
            assert!(Name::new("f", name).is_err(), "{name:?}");
        }
    }
}
