//! Labels and selectors.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use render::check::problem::{Problems, field};

/// The part of a label's name before the `/`.
pub(super) fn is_prefix(text: &str) -> bool {
    let part = |part: &str| {
        let inner = part.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-');
        !part.is_empty() && inner && !part.starts_with('-') && !part.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(part)
}

/// The part of a label's name behind the `/`.
pub(super) fn is_name(text: &str) -> bool {
    !text.is_empty() && is_value(text)
}

fn is_key(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, name)) => is_prefix(prefix) && is_name(name),
        None => is_name(text),
    }
}

fn is_value(text: &str) -> bool {
    let edge = |c: Option<char>| c.is_none_or(|c| c.is_ascii_alphanumeric());
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    text.len() <= 63 && text.chars().all(inner) && edge(text.chars().next()) && edge(text.chars().last())
}

/// Checks labels that something must have.
pub(super) fn check(problems: &mut Problems, path: &str, labels: &BTreeMap<String, String>) {
    for (key, value) in labels {
        let path = field(path, key);
        if !is_key(key) {
            problems
                .error(path, format!("{key:?} is no name of a label; write for example example.com/rack"));
        } else if !is_value(value) {
            let rule = "write at most 63 of letters, digits, '-', '_' and '.'";
            problems.error(path, format!("{value:?} is no value of a label; {rule}"));
        }
    }
}

/// Checks a selector, and that it chooses what has these labels.
pub(super) fn selector(
    problems: &mut Problems,
    path: &str,
    selector: &LabelSelector,
    labels: &BTreeMap<String, String>,
) {
    check(
        problems,
        &format!("{path}.matchLabels"),
        selector.match_labels.as_ref().unwrap_or(&BTreeMap::new()),
    );
    for (index, requirement) in selector.match_expressions.iter().flatten().enumerate() {
        let path = format!("{path}.matchExpressions[{index}]");
        match requirement_problem(requirement) {
            Some((field, message)) => problems.error(format!("{path}{field}"), message),
            None if !holds(requirement, labels) => problems.error(
                path,
                "the labels in spec.template.metadata.labels do not fit this, so the pods would not belong to the set; \
                 change one of the two",
            ),
            None => {}
        }
    }
}

fn requirement_problem(requirement: &LabelSelectorRequirement) -> Option<(&'static str, String)> {
    let (key, operator) = (&requirement.key, requirement.operator.as_str());
    let values = requirement.values.as_deref().unwrap_or_default();
    if !is_key(key) {
        return Some((".key", format!("{key:?} is no name of a label; write for example example.com/rack")));
    }
    match operator {
        "In" | "NotIn" if values.is_empty() => Some((".values", format!("operator {operator} needs values"))),
        "In" | "NotIn" => {
            let wrong = values.iter().find(|value| !is_value(value));
            wrong.map(|value| (".values", format!("{value:?} is no value of a label")))
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            Some((".values", format!("operator {operator} takes no values; remove them")))
        }
        "Exists" | "DoesNotExist" => None,
        _ => Some((".operator", format!("{operator:?} is none of In, NotIn, Exists, DoesNotExist"))),
    }
}

fn holds(requirement: &LabelSelectorRequirement, labels: &BTreeMap<String, String>) -> bool {
    let value = labels.get(&requirement.key);
    let values = requirement.values.as_deref().unwrap_or_default();
    match requirement.operator.as_str() {
        "In" => value.is_some_and(|value| values.contains(value)),
        "NotIn" => !value.is_some_and(|value| values.contains(value)),
        "Exists" => value.is_some(),
        _ => value.is_none(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn expressions_are_checked_and_compared_with_the_labels() {
        for (expression, told) in [
            (json!({ "key": "app", "operator": "In", "values": ["a"] }), None),
            (json!({ "key": "other", "operator": "DoesNotExist" }), None),
            (json!({ "key": "app", "operator": "NotIn", "values": ["b"] }), None),
            (
                json!({ "key": "app", "operator": "In", "values": ["b"] }),
                Some("s.matchExpressions[0]: the labels in"),
            ),
            (
                json!({ "key": "app", "operator": "In" }),
                Some("s.matchExpressions[0].values: operator In needs values"),
            ),
            (json!({ "key": "app", "operator": "Exists", "values": ["a"] }), Some("takes no values")),
            (
                json!({ "key": "app", "operator": "in", "values": ["a"] }),
                Some(".operator: \"in\" is none of"),
            ),
            (json!({ "key": "a b", "operator": "Exists" }), Some(".key: \"a b\" is no name of a label")),
        ] {
            let mut problems = Problems::default();
            let asked: LabelSelector =
                serde_json::from_value(json!({ "matchExpressions": [expression] })).unwrap();
            selector(&mut problems, "s", &asked, &BTreeMap::from([("app".into(), "a".into())]));
            let found: Vec<String> = problems.into_vec().iter().map(ToString::to_string).collect();
            match told {
                None => assert_eq!(found, Vec::<String>::new(), "{expression}"),
                Some(told) => assert!(found.len() == 1 && found[0].contains(told), "{expression}: {found:?}"),
            }
        }
    }

    #[test]
    fn names_and_values_of_labels_have_their_limits() {
        assert!(is_key("example.com/rack") && is_key("rack_1.a") && is_value("") && is_value("A-1"));
        let long = "x".repeat(64);
        for key in ["", "/rack", "Example.com/rack", "-rack", "a/b/c", "a..b/c", &long] {
            assert!(!is_key(key), "{key}");
        }
        assert!(!is_value("a b") && !is_value("-a") && !is_value(&long));
    }
}
