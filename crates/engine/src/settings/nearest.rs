//! The name that was probably meant.

/// Below this likeness a suggestion would be a guess.
const ENOUGH: f64 = 0.6;

/// The known name most like `name`, whatever the case of its letters, if one is like enough.
pub(super) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_lowercase();
    let mut best = None;
    let mut most = ENOUGH;
    for candidate in known {
        let likeness = strsim::normalized_damerau_levenshtein(&name, &candidate.to_lowercase());
        // Only more than the best so far: the first of equals, so that the answer is always the same.
        if likeness > most {
            (best, most) = (Some(candidate), likeness);
        }
    }
    best
}

/// A sentence that helps whoever wrote a name that is not known.
pub(super) fn advice<'a>(name: &str, known: impl IntoIterator<Item = &'a str> + Clone) -> String {
    match nearest(name, known.clone()) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("known are {}", known.into_iter().collect::<Vec<_>>().join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_understood_and_others_get_the_list() {
        let known = ["level", "format", "outputs"];
        assert_eq!(advice("levle", known), "did you mean `level`?");
        assert_eq!(advice("Output", known), "did you mean `outputs`?");
        assert_eq!(advice("colour", known), "known are level, format, outputs");
    }
}
