//! plugstack.conf: which SPANK plugins are loaded. It has a syntax of its own: `required|optional PLUGIN [ARGUMENT...]`.

use std::fmt;

use super::reader::{Place, SyntaxError, logical_lines};
use super::text::Comment;
use super::value::{Problem, Value, ValueError, is_blank};

/// A plugstack.conf. Printing it gives the text.
///
/// ```
/// use slurm::conf::{Plugin, Plugstack, Word};
///
/// let plugin = Plugin::required(Word::new("f", "chroot.so")?).argument(Word::new("f", "/mnt/jail")?);
/// assert_eq!(Plugstack { plugins: vec![plugin] }.to_string(), "required chroot.so /mnt/jail\n");
/// # Ok::<(), slurm::conf::ValueError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plugstack {
    /// The plugins, in the order in which they are loaded.
    pub plugins: Vec<Plugin>,
}

/// One plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plugin {
    /// Whether a job fails if the plugin does.
    pub required: bool,
    /// Its file: a path, or a name in the plugin folder.
    pub file: Word,
    /// What it is told.
    pub arguments: Vec<Word>,
}

impl Plugin {
    /// A plugin without which no job runs.
    #[must_use]
    pub fn required(file: Word) -> Self {
        Self { required: true, file, arguments: Vec::new() }
    }

    /// A plugin that may fail.
    #[must_use]
    pub fn optional(file: Word) -> Self {
        Self { required: false, file, arguments: Vec::new() }
    }

    /// Adds an argument.
    #[must_use]
    pub fn argument(mut self, argument: Word) -> Self {
        self.arguments.push(argument);
        self
    }
}

impl fmt::Display for Plugstack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Slurm takes an empty file for a missing one and says so in every command.
        if self.plugins.is_empty() {
            return writeln!(f, "{}", Comment::new("No plugins"));
        }
        for plugin in &self.plugins {
            write!(f, "{} {}", if plugin.required { "required" } else { "optional" }, plugin.file.0)?;
            for argument in &plugin.arguments {
                write!(f, " {}", argument.0)?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// One word: no blanks, no quotes, nothing that begins a comment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word(String);

impl Word {
    /// Checks a word. The field is named in the error.
    ///
    /// # Errors
    ///
    /// It is empty, or more than a word.
    pub fn new(field: &str, word: impl Into<String>) -> Result<Self, ValueError> {
        let value = Value::new(field, word)?;
        let word = value.as_str();
        let problem = match word {
            "" => Problem::Empty,
            _ if word.contains(char::is_whitespace) => Problem::Inside,
            _ => return Ok(Self(word.into())),
        };
        Err(ValueError::Text { field: field.into(), problem })
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A line of a plugstack.conf that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlugstackLine {
    /// A plugin.
    Plugin(Plugin),
    /// `include PATTERN`: more files, as the shell would find them.
    Include(Word),
}

/// Reads a plugstack.conf: its lines with their places, and what cannot be understood. Includes are not followed.
#[must_use]
pub fn read_plugstack(name: &str, text: &str) -> (Vec<(Place, PlugstackLine)>, Vec<SyntaxError>) {
    let file: std::sync::Arc<str> = name.into();
    let (mut lines, mut errors) = (Vec::new(), Vec::new());
    for (number, text) in logical_lines(text) {
        let at = Place { file: std::sync::Arc::clone(&file), line: number };
        match line(&text) {
            Ok(None) => {}
            Ok(Some(line)) => lines.push((at, line)),
            Err(message) => errors.push(SyntaxError { at, message }),
        }
    }
    (lines, errors)
}

fn line(text: &str) -> Result<Option<PlugstackLine>, String> {
    let mut words = text.split(is_blank).filter(|word| !word.is_empty());
    let Some(kind) = words.next() else { return Ok(None) };
    let mut words = words.map(|word| Word::new(kind, word).map_err(|error| error.to_string()));
    let file = words.next().transpose()?;
    let arguments: Vec<Word> = words.collect::<Result<_, _>>()?;
    match (kind.to_ascii_lowercase().as_str(), file) {
        ("required" | "optional" | "include", None) => Err(format!("`{kind}` needs a file")),
        ("include", Some(_)) if !arguments.is_empty() => Err("`include` takes one file".into()),
        ("include", Some(file)) => Ok(Some(PlugstackLine::Include(file))),
        ("required", Some(file)) => {
            Ok(Some(PlugstackLine::Plugin(Plugin { required: true, file, arguments })))
        }
        ("optional", Some(file)) => {
            Ok(Some(PlugstackLine::Plugin(Plugin { required: false, file, arguments })))
        }
        _ => Err(format!("{kind:?} is neither `required`, `optional` nor `include`")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn word(text: &str) -> Word {
        Word::new("f", text).unwrap()
    }

    #[test]
    fn plugins_print_in_order() {
        let stack = Plugstack {
            plugins: vec![
                Plugin::required(word("chroot.so")).argument(word("/mnt/jail")),
                Plugin::optional(word("spank_pyxis.so"))
                    .argument(word("runtime_path=/run/pyxis"))
                    .argument(word("execute_entrypoint=0")),
            ],
        };
        assert_eq!(
            stack.to_string(),
            "required chroot.so /mnt/jail\n\
             optional spank_pyxis.so runtime_path=/run/pyxis execute_entrypoint=0\n"
        );
        assert_eq!(Plugstack::default().to_string(), "# No plugins\n");
    }

    #[test]
    fn mistakes_are_told_with_file_and_line() {
        let text = "# x\nrequired\nrequire a.so\n\ninclude a b\noptional \"a b\"\nOptional a.so x=1 # y\ninclude /etc/d/*\n";
        let (lines, errors) = read_plugstack("p", text);
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            errors,
            [
                "p:2: `required` needs a file",
                "p:3: \"require\" is neither `required`, `optional` nor `include`",
                "p:5: `include` takes one file",
                "p:6: optional: text with '\"' cannot be written into a Slurm configuration file",
            ]
        );
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0].0.line, 7);
        assert_eq!(lines[1].1, PlugstackLine::Include(word("/etc/d/*")));
    }

    #[test]
    fn an_argument_is_one_word() {
        for text in ["", "a b", "a\nrequired x.so", "a#", "\"a\"", "a\\"] {
            assert!(Word::new("f", text).is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn print_and_read_are_inverse(plugins in proptest::collection::vec((any::<bool>(), "[!-~]{1,8}", proptest::collection::vec("[!-~]{1,8}", 0..3)), 0..5)) {
            let plugins: Vec<Plugin> = plugins.into_iter().filter_map(|(required, file, arguments)| {
                let arguments = arguments.into_iter().map(|a| Word::new("f", a).ok()).collect::<Option<_>>()?;
                Some(Plugin { required, file: Word::new("f", file).ok()?, arguments })
            }).collect();
            let (lines, errors) = read_plugstack("f", &Plugstack { plugins: plugins.clone() }.to_string());
            prop_assert_eq!(errors, vec![]);
            let found: Vec<PlugstackLine> = lines.into_iter().map(|(_, line)| line).collect();
            prop_assert_eq!(found, plugins.into_iter().map(PlugstackLine::Plugin).collect::<Vec<_>>());
        }

        #[test]
        fn no_text_is_too_strange(text in "\\PC*|([a-z]{1,8}|[ \"#\\\\\n]){0,20}") {
            let _ = read_plugstack("f", &text);
        }
    }
}
