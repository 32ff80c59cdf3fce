//! The index of a pod: which line of its map is meant. Never guessed from a random suffix.

use crate::names::{COMPLETION_INDEX, INDEX, POD_INDEX_LABEL};

/// Whose pod it is, as far as its name tells an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Nobody's.
    None,
    /// A StatefulSet's.
    StatefulSet,
    /// Somebody's whose pods have no ordinals in their names.
    Other,
}

impl Owner {
    /// From the kind of the owner that is the pod's controller, if there is one.
    pub fn of_kind(kind: Option<&str>) -> Self {
        match kind {
            None => Self::None,
            Some("StatefulSet") => Self::StatefulSet,
            Some(_) => Self::Other,
        }
    }
}

/// What tells the index of a pod.
#[derive(Clone, Copy, Debug)]
pub struct Clues<'a> {
    /// Its name; empty while only `generateName` is known.
    pub name: &'a str,
    /// Whether the API server made the name up from `generateName`.
    pub generated_name: bool,
    /// Whose it is.
    pub owner: Owner,
    /// The annotation `gpu-scheduling-index`.
    pub annotation: Option<&'a str>,
    /// The label of pods of StatefulSets.
    pub pod_index: Option<&'a str>,
    /// The label of pods of Indexed Jobs.
    pub completion_label: Option<&'a str>,
    /// The annotation of pods of Indexed Jobs.
    pub completion_annotation: Option<&'a str>,
}

/// Why a pod has no index.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IndexError {
    /// Something that should hold it holds something else.
    #[error("{what} {key} is {value:?}, which is no index; write a number such as \"0\"")]
    Unreadable {
        /// Annotation or label.
        what: &'static str,
        /// Its key.
        key: &'static str,
        /// Its value.
        value: String,
    },
    /// Nothing tells it.
    #[error(
        "the pod has no index: only pods of StatefulSets and Indexed Jobs, and bare pods named like web-0, have one of their \
         own; set the annotation {INDEX}"
    )]
    Missing,
}

/// The index of a pod: the annotation, else the labels, else the ordinal in its name.
///
/// # Errors
///
/// There is none, or what should hold it is no number. That is never skipped: the next clue could be another pod's.
pub fn of(clues: &Clues<'_>) -> Result<u32, IndexError> {
    let sources = [
        ("annotation", INDEX, clues.annotation),
        ("label", POD_INDEX_LABEL, clues.pod_index),
        ("label", COMPLETION_INDEX, clues.completion_label),
        ("annotation", COMPLETION_INDEX, clues.completion_annotation),
    ];
    for (what, key, value) in sources {
        if let Some(value) = value {
            return number(value).ok_or_else(|| IndexError::Unreadable { what, key, value: value.into() });
        }
    }
    let ordinal = match clues.owner {
        Owner::StatefulSet => true,
        Owner::None => !clues.generated_name,
        Owner::Other => false,
    };
    if ordinal { from_name(clues.name).ok_or(IndexError::Missing) } else { Err(IndexError::Missing) }
}

fn number(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
    text.parse().ok().filter(|index| digits && i32::try_from(*index).is_ok())
}

/// `web-0` is 0. `x--1`, `7`, `web-0-gpu` and `web-00` are none: no StatefulSet makes such a name for an ordinal.
fn from_name(name: &str) -> Option<u32> {
    let (rest, ordinal) = name.rsplit_once('-')?;
    let plain = !rest.is_empty() && !rest.ends_with('-') && (ordinal == "0" || !ordinal.starts_with('0'));
    number(ordinal).filter(|_| plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bare(name: &str) -> Clues<'_> {
        Clues {
            name,
            generated_name: false,
            owner: Owner::None,
            annotation: None,
            pod_index: None,
            completion_label: None,
            completion_annotation: None,
        }
    }

    #[test]
    fn ordinals_of_names_count_for_stateful_sets_and_bare_pods_alone() {
        let stateful = Clues { generated_name: true, owner: Owner::StatefulSet, ..bare("web-0") };
        assert_eq!(of(&stateful), Ok(0));
        assert_eq!(of(&bare("web-12")), Ok(12));
        assert_eq!(
            of(&Clues { owner: Owner::Other, ..bare("app-5d6b69597d-24578") }),
            Err(IndexError::Missing)
        );
        assert_eq!(of(&Clues { generated_name: true, ..bare("app-24578") }), Err(IndexError::Missing));
    }

    #[test]
    fn names_that_only_look_like_it_have_none() {
        for name in ["x--1", "7", "web", "web-0-gpu", "web-", "-1", "web-01", "web-+1", "web-99999999999", ""]
        {
            assert_eq!(of(&bare(name)), Err(IndexError::Missing), "{name}");
        }
    }

    #[test]
    fn the_annotation_goes_before_labels_and_labels_before_the_name() {
        let mut clues = Clues {
            annotation: Some("4"),
            pod_index: Some("3"),
            completion_label: Some("2"),
            completion_annotation: Some("1"),
            ..bare("web-0")
        };
        assert_eq!(of(&clues), Ok(4));
        clues.annotation = None;
        assert_eq!(of(&clues), Ok(3));
        clues.pod_index = None;
        assert_eq!(of(&clues), Ok(2));
        clues.completion_label = None;
        assert_eq!(of(&clues), Ok(1));
        clues.completion_annotation = None;
        assert_eq!(of(&clues), Ok(0));
    }

    #[test]
    fn an_indexed_job_has_its_completion_index() {
        let clues = Clues {
            generated_name: true,
            owner: Owner::Other,
            completion_label: Some("3"),
            ..bare("job-3-x7k2p")
        };
        assert_eq!(of(&clues), Ok(3));
    }

    #[test]
    fn a_clue_that_is_no_number_is_told_and_not_skipped() {
        for value in ["", "-1", "+1", "1.0", "x", "4294967296", "٣"] {
            let error =
                of(&Clues { annotation: Some(value), pod_index: Some("3"), ..bare("web-0") }).unwrap_err();
            assert!(error.to_string().contains(INDEX), "{error}");
        }
    }
}
