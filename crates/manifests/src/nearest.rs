//! The name that was probably meant.

/// Below this likeness a suggestion would be a guess.
const ENOUGH: f64 = 0.75;

/// The most similar of the names, if one is similar enough. Case does not count.
pub(crate) fn nearest<'a>(name: &str, names: &[&'a str]) -> Option<&'a str> {
    let wanted = name.to_lowercase();
    names
        .iter()
        .map(|known| (likeness(&wanted, &known.to_lowercase()), *known))
        .filter(|(likeness, _)| *likeness >= ENOUGH)
        // The first of equals, so that the answer is always the same.
        .reduce(|best, next| if next.0 > best.0 { next } else { best })
        .map(|(_, known)| known)
}

fn likeness(a: &str, b: &str) -> f64 {
    // Letters that changed places are one mistake; the other measure favours a common beginning, as in `image` for
    // `imag`.
    let edits = strsim::normalized_damerau_levenshtein(a, b);
    let beginning = strsim::jaro_winkler(a, b);
    if edits < 0.5 { 0.0 } else { edits.max(beginning) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_understood() {
        let names = ["clusterName", "replicas", "selector", "serviceName", "template"];
        for (slip, meant) in [
            ("replica", Some("replicas")),
            ("Replicas", Some("replicas")),
            ("relpicas", Some("replicas")),
            ("clustername", Some("clusterName")),
            ("selecotr", Some("selector")),
            ("templates", Some("template")),
            ("colour", None),
            ("", None),
        ] {
            assert_eq!(nearest(slip, &names), meant, "{slip:?}");
        }
    }
}
