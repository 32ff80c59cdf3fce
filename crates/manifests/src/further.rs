//! Checks that others bring: what neither schema nor rules can say.

use serde_json::Value;

use crate::finding::{Finding, Findings};
use crate::node::{Data, Mark, Node, Path};
use crate::parse::line_of;

/// A check of an object: its group and version, its kind, and itself.
pub type Further<'a> = &'a dyn Fn(&str, &str, &Value) -> Vec<Remark>;

/// What such a check says about a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// The field, as the API server writes it.
    pub path: String,
    /// What is wrong, and what to write instead.
    pub message: String,
    /// Whether the object is valid all the same.
    pub is_warning: bool,
}

/// Adds errors to the findings, with their lines, and gives back the warnings.
pub(crate) fn take(remarks: Vec<Remark>, node: &Node, path: &Path, findings: &mut Findings) -> Vec<Finding> {
    let mut warnings = Findings::default();
    for remark in remarks {
        let mark = mark_of(node, &Path::default(), &remark.path);
        let target = if remark.is_warning { &mut warnings } else { &mut *findings };
        target.add(mark, &path.then(&remark.path), remark.message);
    }
    let mut warnings = warnings.into_vec();
    warnings.sort_by_key(|warning| warning.line);
    warnings
}

/// Where a field is; or, if it is not in the text, what is nearest above it.
fn mark_of(node: &Node, here: &Path, target: &str) -> Mark {
    below(node, here, target).unwrap_or(node.mark)
}

/// Where below a node a field is, or what leads to it; none if nothing does.
fn below(node: &Node, here: &Path, target: &str) -> Option<Mark> {
    let leads = |path: &Path| {
        target.strip_prefix(path.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    match &node.data {
        Data::Map(entries) => entries
            .iter()
            .map(|entry| (entry, here.field(&entry.key)))
            .find(|(_, path)| leads(path))
            .map(|(entry, path)| below(&entry.value, &path, target).unwrap_or_else(|| line_of(entry))),
        Data::List(items) => items
            .iter()
            .enumerate()
            .map(|(index, item)| (item, here.index(index)))
            .find(|(_, path)| leads(path))
            .map(|(item, path)| mark_of(item, &path, target)),
        _ => None,
    }
}
