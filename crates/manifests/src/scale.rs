//! The number that the scale subresource reads. Elsewhere `3.0` is an integer to the API server, but not here.

use crate::finding::Findings;
use crate::node::{Data, Node, Path};
use crate::parse::line_of;

/// Checks the field at the end of `fields`.
pub(crate) fn check(fields: &[String], object: &Node, path: &Path, findings: &mut Findings) {
    let (mut place, mut path) = (object, path.clone());
    let mut mark = findings.here();
    for field in fields {
        let Some(entry) = place.entry(field) else {
            return;
        };
        path = path.field(field);
        mark = line_of(entry);
        place = &entry.value;
    }
    if let Data::Float(value) = place.data
        && value.fract() == 0.0
    {
        findings.add(mark, &path, format!("write {value} without a point or an exponent"));
    }
}
