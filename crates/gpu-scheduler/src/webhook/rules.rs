//! Who may name which nodes and devices.
//!
//! A namespace that rules name may use what these rules list, and nothing else. One that no rule names may use everything, or
//! nothing where the rules are strict.

use serde::Deserialize;

use crate::map::Entry;

/// All rules.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    /// Whether namespaces that no rule names may name no node.
    #[serde(default)]
    pub strict: bool,
    /// What namespaces may name.
    #[serde(default)]
    pub rules: Vec<Rule>,
}

/// What some namespaces may name. `*` stands for any text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The namespaces.
    #[serde(default)]
    pub namespaces: Vec<String>,
    /// Nodes, as maps name them.
    #[serde(default)]
    pub nodes: Vec<String>,
    /// Devices, as maps name them; none means all.
    #[serde(default)]
    pub devices: Vec<String>,
}

/// Why rules cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RulesError {
    /// The text is not what it should be.
    #[error("the rules cannot be read: {0}")]
    Unreadable(String),
    /// A rule lacks what it is about.
    #[error("rules[{place}].{field} is empty; list names, or \"*\" for all")]
    Empty {
        /// Its place in the list.
        place: usize,
        /// What it lacks.
        field: &'static str,
    },
}

impl Rules {
    /// Reads a YAML text. An empty one has no rules.
    ///
    /// # Errors
    ///
    /// It has another shape, or a rule names nobody or nothing.
    pub fn parse(text: &str) -> Result<Self, RulesError> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let rules: Self =
            serde_saphyr::from_str(text).map_err(|error| RulesError::Unreadable(error.to_string()))?;
        for (place, rule) in rules.rules.iter().enumerate() {
            for (field, list) in [("namespaces", &rule.namespaces), ("nodes", &rule.nodes)] {
                if list.iter().all(|name| name.is_empty()) {
                    return Err(RulesError::Empty { place, field });
                }
            }
        }
        Ok(rules)
    }

    /// Why pods of `namespace` may not go where `entry` says; none if they may.
    pub(super) fn refusal(&self, namespace: &str, entry: &Entry) -> Option<String> {
        let own = || self.rules.iter().filter(|rule| any(&rule.namespaces, namespace));
        if own().next().is_none() {
            return self.strict.then(|| {
                format!("no rule lets namespace {namespace:?} name nodes; ask for one in authorization.rules")
            });
        }
        let of_node: Vec<&Rule> = own().filter(|rule| any(&rule.nodes, &entry.node)).collect();
        if of_node.is_empty() {
            let nodes: Vec<&str> = own().flat_map(|rule| &rule.nodes).map(String::as_str).collect();
            let (node, nodes) = (&entry.node, nodes.join(", "));
            return Some(format!("namespace {namespace:?} may not name node {node:?}; it may name {nodes}"));
        }
        let allowed =
            |device: &str| of_node.iter().any(|rule| rule.devices.is_empty() || any(&rule.devices, device));
        let device = entry.claims.iter().map(|claim| claim.device.to_string()).find(|one| !allowed(one))?;
        let devices: Vec<&str> = of_node.iter().flat_map(|rule| &rule.devices).map(String::as_str).collect();
        Some(format!(
            "namespace {namespace:?} may not name device {device} of node {:?}; it may name {}",
            entry.node,
            devices.join(", ")
        ))
    }
}

fn any(patterns: &[String], text: &str) -> bool {
    patterns.iter().any(|pattern| is_like(pattern, text))
}

/// Whether `text` is what `pattern` says, in which each `*` stands for any text.
fn is_like(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        let Some(found) = rest.find(part) else { return false };
        rest = &rest[found + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::{Map, Mode};

    fn refusal(rules: &str, namespace: &str, line: &str) -> Option<String> {
        let map = Map::parse(line, Mode::Strict).unwrap();
        Rules::parse(rules).unwrap().refusal(namespace, map.entry(0).unwrap())
    }

    const RULES: &str = "
rules:
  - namespaces: [team-a, 'lab-*']
    nodes: [gpu-1, 'a*z']
    devices: ['0', '1']
  - namespaces: [team-a]
    nodes: [gpu-1]
    devices: ['7']
";

    #[test]
    fn a_namespace_with_rules_may_name_what_they_list_and_no_more() {
        for (namespace, line) in [
            ("team-a", "0=gpu-1:0,1,7"),
            ("team-a", "0=abcz:1"),
            ("lab-", "0=gpu-1:none"),
            ("lab-x", "0=az:0"),
            ("other", "0=any:9"),
        ] {
            assert_eq!(refusal(RULES, namespace, line), None, "{namespace} {line}");
        }
        let text = refusal(RULES, "team-a", "0=gpu-2:0").unwrap();
        assert_eq!(text, "namespace \"team-a\" may not name node \"gpu-2\"; it may name gpu-1, a*z, gpu-1");
        let text = refusal(RULES, "lab-1", "0=gpu-1:0,7").unwrap();
        assert_eq!(text, "namespace \"lab-1\" may not name device 7 of node \"gpu-1\"; it may name 0, 1");
        assert!(refusal(RULES, "team-a", "0=a:0").is_some(), "one a is not a and z");
    }

    #[test]
    fn strict_rules_leave_nothing_to_namespaces_that_they_do_not_name() {
        let strict = format!("strict: true\n{}", RULES.trim_start());
        assert_eq!(refusal(&strict, "team-a", "0=gpu-1:7"), None);
        let text = refusal(&strict, "other", "0=gpu-1:0").unwrap();
        assert!(text.contains("\"other\"") && text.contains("authorization.rules"), "{text}");
        assert!(refusal("strict: true", "team-a", "0=gpu-1:none").is_some());
    }

    #[test]
    fn rules_that_say_nothing_are_refused_and_none_are_none() {
        assert_eq!(Rules::parse(" \n").unwrap(), Rules::default());
        let error = Rules::parse("rules: [{namespaces: [a], nodes: []}]").unwrap_err();
        assert_eq!(error.to_string(), "rules[0].nodes is empty; list names, or \"*\" for all");
        let error = Rules::parse("rules: [{namespaces: [a], node: [b]}]").unwrap_err().to_string();
        assert!(error.contains("node"), "{error}");
    }

    #[test]
    fn stars_stand_for_any_text() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("*", "x", true),
            ("a", "a", true),
            ("a", "ab", false),
            ("a*", "a", true),
            ("*a*b*", "xaybz", true),
            ("*a*b*", "xbya", false),
            ("a*a", "a", false),
            ("gpu-*-x", "gpu-1-2-x", true),
            ("gpu-*-x", "gpu-1-x-2", false),
            ("*-x", "a-xb", false),
        ] {
            assert_eq!(is_like(pattern, text), expected, "{pattern} {text}");
        }
    }
}
