//! Selection of nodes by labels and by name.

use std::collections::BTreeMap;

use super::Node;

/// How a requirement compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// The value is one of the list.
    In,
    /// The value is none of the list, or there is none.
    NotIn,
    /// There is a value.
    Exists,
    /// There is none.
    DoesNotExist,
    /// The value is a larger whole number.
    Gt,
    /// The value is a smaller whole number.
    Lt,
    /// Something that we do not know: it matches nothing.
    Unknown,
}

impl Operator {
    pub(super) fn parse(text: &str) -> Self {
        match text {
            "In" => Self::In,
            "NotIn" => Self::NotIn,
            "Exists" => Self::Exists,
            "DoesNotExist" => Self::DoesNotExist,
            "Gt" => Self::Gt,
            "Lt" => Self::Lt,
            _ => Self::Unknown,
        }
    }
}

/// One requirement on a label or field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// The label, or the field.
    pub key: Box<str>,
    /// How it compares.
    pub operator: Operator,
    /// With what.
    pub values: Box<[Box<str>]>,
}

impl Requirement {
    fn holds(&self, value: Option<&str>) -> bool {
        let listed = |value: &str| self.values.iter().any(|listed| &**listed == value);
        let compare = |wanted: std::cmp::Ordering| {
            let number = |text: &str| text.parse::<i64>().ok();
            match (value.and_then(number), self.values.first().and_then(|limit| number(limit))) {
                (Some(value), Some(limit)) => value.cmp(&limit) == wanted,
                _ => false,
            }
        };
        match self.operator {
            Operator::In => value.is_some_and(listed),
            Operator::NotIn => !value.is_some_and(listed),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::Gt => compare(std::cmp::Ordering::Greater),
            Operator::Lt => compare(std::cmp::Ordering::Less),
            Operator::Unknown => false,
        }
    }
}

/// Requirements that must all hold. A term without any matches nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Term {
    /// On labels.
    pub labels: Box<[Requirement]>,
    /// On fields; the one field there is, is `metadata.name`.
    pub fields: Box<[Requirement]>,
}

impl Term {
    fn matches(&self, node: &Node) -> bool {
        let label = |of: &Requirement| of.holds(node.labels.get(&*of.key).map(|value| &**value));
        let field = |of: &Requirement| &*of.key == "metadata.name" && of.holds(Some(&node.name));
        (!self.labels.is_empty() || !self.fields.is_empty())
            && self.labels.iter().all(label)
            && self.fields.iter().all(field)
    }
}

/// Terms of which one must match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector(pub Box<[Term]>);

impl Selector {
    /// Whether a node is selected.
    pub fn matches(&self, node: &Node) -> bool {
        self.0.iter().any(|term| term.matches(node))
    }
}

/// Whether a node has all these labels.
pub(crate) fn has_labels(node: &Node, labels: &BTreeMap<Box<str>, Box<str>>) -> bool {
    labels.iter().all(|(key, value)| node.labels.get(key) == Some(value))
}
