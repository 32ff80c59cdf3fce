//! Which controllers a process runs, in the words of kube-controller-manager.

use std::collections::BTreeSet;

use serde::Serialize;

use super::nearest::nearest;

/// The names of the controllers that run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Controllers(BTreeSet<&'static str>);

impl Controllers {
    /// All of them.
    pub(super) fn all(known: &[&'static str]) -> Self {
        Self(known.iter().copied().collect())
    }

    /// Reads `*`, names, and names with `-` before them. The first word about a controller counts.
    pub(super) fn parse(text: &str, known: &[&'static str]) -> Result<Self, String> {
        let words: Vec<&str> = text.split(',').map(str::trim).filter(|word| !word.is_empty()).collect();
        for word in &words {
            let name = word.strip_prefix('-').unwrap_or(word);
            if name != "*" && !known.contains(&name) {
                let meant = nearest(name, known.iter().copied());
                let meant = meant.map(|meant| format!("did you mean `{meant}`? ")).unwrap_or_default();
                return Err(format!(
                    "no controller is called {name:?}; {meant}Known are {}",
                    known.join(", ")
                ));
            }
            if *word == "-*" {
                return Err("\"-*\" would run nothing; name the controllers to run".into());
            }
        }
        let star = words.contains(&"*");
        let runs = |name: &str| {
            let word = words.iter().find(|word| word.strip_prefix('-').unwrap_or(word) == name);
            word.map_or(star, |word| !word.starts_with('-'))
        };
        let chosen = Self(known.iter().copied().filter(|name| runs(name)).collect());
        if chosen.0.is_empty() {
            return Err(format!("{text:?} would run nothing; write *,{text} for all the others"));
        }
        Ok(chosen)
    }

    /// Whether the controller of this name runs.
    pub fn contains(&self, name: &str) -> bool {
        self.0.contains(name)
    }

    /// The names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().copied()
    }

    pub(super) fn set(&mut self, name: &'static str, runs: bool) {
        if runs {
            self.0.insert(name);
        } else {
            self.0.remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[&str] = &["nodeset", "slurmcluster", "topology"];

    fn chosen(text: &str) -> Vec<&'static str> {
        Controllers::parse(text, KNOWN).unwrap().names().collect()
    }

    #[test]
    fn words_mean_what_they_mean_to_kube_controller_manager() {
        assert_eq!(chosen("*"), KNOWN);
        assert_eq!(chosen("topology, nodeset"), ["nodeset", "topology"]);
        assert_eq!(chosen("*,-topology"), ["nodeset", "slurmcluster"]);
        assert_eq!(chosen("-topology,*"), ["nodeset", "slurmcluster"]);
        assert_eq!(chosen("-nodeset,nodeset,topology"), ["topology"], "the first word counts");
    }

    #[test]
    fn an_unknown_name_gets_all_known_ones() {
        let message = Controllers::parse("nodesets", KNOWN).unwrap_err();
        assert_eq!(
            message,
            "no controller is called \"nodesets\"; did you mean `nodeset`? Known are nodeset, slurmcluster, topology"
        );
        assert!(Controllers::parse("*,-foo", KNOWN).unwrap_err().contains("; Known are nodeset,"));
    }

    #[test]
    fn nothing_at_all_is_refused() {
        assert!(Controllers::parse("-topology", KNOWN).unwrap_err().contains("write *,-topology"));
        assert!(Controllers::parse("-*", KNOWN).is_err());
    }
}
