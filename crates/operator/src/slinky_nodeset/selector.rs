//! `spec.selector`: which pods belong to a set.

use std::collections::BTreeMap;

use api::slinky::NodeSet;
use kube::core::{Selector, SelectorExt as _};

/// `spec.selector`, ready to be asked.
#[derive(Clone, Debug)]
pub struct PodSelector {
    /// None if it cannot be understood.
    selector: Option<Selector>,
    verdict: nodeset::Selector,
}

impl PodSelector {
    /// Reads the selector of a set, and compares it with the set's template.
    pub fn of(set: &NodeSet) -> Self {
        let selector = Selector::try_from(set.spec.selector.clone()).ok();
        let none = BTreeMap::new();
        let labels = set.spec.template.metadata.as_ref().and_then(|meta| meta.labels.as_ref());
        let verdict = match &selector {
            Some(selector) if selector.selects_all() => nodeset::Selector::Empty,
            Some(selector) if selector.matches(labels.unwrap_or(&none)) => nodeset::Selector::Usable,
            _ => nodeset::Selector::NotTheTemplate,
        };
        Self { selector, verdict }
    }

    /// Whether it can be used.
    pub const fn verdict(&self) -> nodeset::Selector {
        self.verdict
    }

    /// Whether it selects an object with these labels. One that cannot be understood selects nothing.
    pub fn selects(&self, labels: Option<&BTreeMap<String, String>>) -> bool {
        let none = BTreeMap::new();
        self.selector.as_ref().is_some_and(|selector| selector.matches(labels.unwrap_or(&none)))
    }

    /// As text, for requests and for the scale subresource: equal selectors give equal texts.
    pub fn text(&self) -> String {
        let mut expressions: Vec<String> = self
            .selector
            .iter()
            .flat_map(|selector| selector.clone().into_iter())
            .map(|it| it.to_string())
            .collect();
        expressions.sort_unstable();
        expressions.join(",")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::tests::set;
    use super::*;

    fn selector(selector: &Value, labels: &Value) -> PodSelector {
        PodSelector::of(&set(
            json!({ "selector": selector, "template": { "metadata": { "labels": labels } } }),
        ))
    }

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn an_empty_selector_and_one_that_does_not_fit_the_template_are_told() {
        let of_pods = json!({ "app": "slurmd", "tier": "gpu" });
        let verdict = |asked: Value| selector(&asked, &of_pods).verdict();
        assert_eq!(verdict(json!({ "matchLabels": { "app": "slurmd" } })), nodeset::Selector::Usable);
        assert_eq!(verdict(json!({})), nodeset::Selector::Empty);
        assert_eq!(verdict(json!({ "matchLabels": {}, "matchExpressions": [] })), nodeset::Selector::Empty);
        assert_eq!(verdict(json!({ "matchLabels": { "app": "other" } })), nodeset::Selector::NotTheTemplate);
        let unknown =
            json!({ "matchExpressions": [{ "key": "app", "operator": "Near", "values": ["slurmd"] }] });
        assert_eq!(verdict(unknown), nodeset::Selector::NotTheTemplate);
    }

    #[test]
    fn labels_and_expressions_must_all_fit() {
        let asked = json!({
            "matchLabels": { "app": "slurmd" },
            "matchExpressions": [
                { "key": "tier", "operator": "In", "values": ["gpu", "cpu"] },
                { "key": "old", "operator": "DoesNotExist" },
            ],
        });
        let selector = selector(&asked, &json!({ "app": "slurmd", "tier": "gpu" }));
        assert!(selector.selects(Some(&labels(&[("app", "slurmd"), ("tier", "cpu"), ("x", "y")]))));
        assert!(!selector.selects(Some(&labels(&[("app", "slurmd"), ("tier", "login")]))));
        assert!(!selector.selects(Some(&labels(&[("app", "slurmd"), ("tier", "cpu"), ("old", "")]))));
        assert!(!selector.selects(None));
        assert_eq!(selector.text(), "!old,app=slurmd,tier in (cpu,gpu)");
    }
}
