//! The sentences that pods' conditions say, in the shape of kube-scheduler's.

use crate::filter::Reason;

/// The API server refuses longer notes of events.
const LONGEST: usize = 1000;

/// That the one node that a map names was looked at, and why it does not do.
pub(super) fn refused(node: &str, called: &str, index: u32, reasons: &[Reason]) -> String {
    let texts = reasons.iter().map(|reason| reason.text.as_str()).collect::<Vec<_>>().join(", ");
    let alias = if node == called { String::new() } else { format!(", which the map calls {called}") };
    shorten(format!("0/1 nodes are available: {texts}. The map gives index {index} node {node}{alias}."))
}

/// Cuts a sentence to what events and conditions may hold.
pub(super) fn shorten(text: String) -> String {
    if text.len() <= LONGEST {
        return text;
    }
    let end = (0..=LONGEST).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    format!("{}...", &text[..end])
}
