//! Settings that a user wrote for the end of a line of ours.

use super::reader::{NoIncludes, read};
use super::value::{Key, Value};

/// Why the settings of a user cannot be taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UserPairsError {
    /// The reader does not understand them.
    #[error("{field}: {message}")]
    Syntax {
        /// Where the text came from.
        field: String,
        /// What is wrong.
        message: String,
    },
    /// There is more than one line.
    #[error("{0}: this has to be one line")]
    Lines(String),
    /// They set what we set.
    #[error("{field}: {key} cannot be set here")]
    Taken {
        /// Where the text came from.
        field: String,
        /// The key.
        key: String,
    },
}

/// Reads `key=value key=value ...` that a user wrote to stand behind the pairs of a line of ours, such as a node's.
///
/// Lines that end with `\` are joined as in a file. Keys in `taken` are refused: they are ours.
///
/// ```
/// let pairs = slurm::conf::user_pairs("spec.nodeConfig.static", "Weight=2 Reason=\"not yet\"", &["NodeName"])?;
/// assert_eq!(pairs.len(), 2);
/// assert!(slurm::conf::user_pairs("f", "Weight=2\nSlurmUser=root", &[]).is_err());
/// # Ok::<(), slurm::conf::UserPairsError>(())
/// ```
///
/// # Errors
///
/// The text is not one line of pairs, or has a key that is taken.
pub fn user_pairs(field: &str, text: &str, taken: &[&str]) -> Result<Vec<(Key, Value)>, UserPairsError> {
    let document = read(field, text, &mut NoIncludes);
    if let Some(error) = document.errors.into_iter().next() {
        return Err(UserPairsError::Syntax { field: field.into(), message: error.message });
    }
    let mut lines = document.lines.into_iter();
    let Some(line) = lines.next() else { return Ok(Vec::new()) };
    if lines.next().is_some() {
        return Err(UserPairsError::Lines(field.into()));
    }
    let is_taken = |key: &Key| taken.iter().any(|taken| key.as_str().eq_ignore_ascii_case(taken));
    if let Some(pair) = line.pairs.iter().find(|pair| is_taken(&pair.key)) {
        return Err(UserPairsError::Taken { field: field.into(), key: pair.key.to_string() });
    }
    Ok(line.pairs.into_iter().map(|pair| (pair.key, pair.value)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_of_one_line_are_taken_over() {
        let pairs = user_pairs("f", "  Weight=2 \\\n Gres=gpu:2 # x", &[]).unwrap();
        let text: Vec<String> = pairs.iter().map(|(key, value)| format!("{key}={value}")).collect();
        assert_eq!(text, ["Weight=2", "Gres=gpu:2"]);
        assert_eq!(user_pairs("f", " \n# nothing\n", &[]).unwrap(), []);
    }

    #[test]
    fn what_would_leave_the_line_is_refused_with_its_field() {
        for (text, error) in [
            ("Weight=2\nSlurmUser=root", "spec.x: this has to be one line"),
            ("Weight", "spec.x: \"Weight\" is not KEY=VALUE"),
            ("nodename=a", "spec.x: nodename cannot be set here"),
            ("include x", "spec.x: cannot include x: files cannot be included here"),
            ("A=\"x", "spec.x: the quote before the value of A is never closed"),
        ] {
            assert_eq!(user_pairs("spec.x", text, &["NodeName"]).unwrap_err().to_string(), error, "{text:?}");
        }
    }
}
