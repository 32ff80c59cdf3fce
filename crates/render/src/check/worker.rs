//! What both `slurmNodes.worker` and NodeSets have.

use api::common::DrainOnDelete;

use super::duration;
use super::problem::Problems;

/// Text for the `Extra` field of nodes, which goes through an environment variable and a command line.
pub fn extra(problems: &mut Problems, path: &str, text: &str) {
    if text.trim_end().contains(|c: char| c.is_control()) {
        problems.error(path, "has several lines or control characters; write one line");
    }
}

/// How a set of workers ends.
pub fn drain_on_delete(problems: &mut Problems, path: &str, drain: Option<&DrainOnDelete>) {
    let deadline = drain.and_then(|drain| drain.deadline.as_deref());
    if let Some(Err(message)) = deadline.map(duration::go) {
        problems.error(format!("{path}.deadline"), message);
    }
}
