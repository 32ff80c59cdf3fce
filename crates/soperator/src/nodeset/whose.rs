//! Whose a drain is, by its reason: the operator goes by the same rule.

use nodeset::REASON_PREFIX;
use slurm::Node;
use slurm::agent::DRAIN_MARKER;

/// What the stop script of pods of `slinky.slurm.net` writes over a reason.
const STOP_REASON: &str = "preStop";

/// Who drained a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    /// The operator, which takes it back by itself.
    Operator,
    /// The agent or the stop script of its pod, while that stopped. It ends with the next pod.
    Pod,
    /// A person, or Slurm itself. Nobody but a person takes it back.
    Person,
}

/// Whose the drain of the node is; none if it is not drained.
pub(super) fn whose(node: &Node) -> Option<Whose> {
    node.state.is_drain().then(|| of_reason(&node.reason))
}

/// Whose a drain with this reason is.
pub(super) fn of_reason(reason: &str) -> Whose {
    if reason.starts_with(REASON_PREFIX.trim_end()) {
        Whose::Operator
    } else if reason.starts_with(DRAIN_MARKER) || reason == STOP_REASON {
        Whose::Pod
    } else {
        Whose::Person
    }
}

/// The reason of the operator without the mark that it is the operator's.
pub(super) fn plain(reason: &str) -> &str {
    reason.strip_prefix(REASON_PREFIX.trim_end()).unwrap_or(reason).trim_start()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_tells_whose_the_drain_is() {
        for (reason, whose) in [
            ("slurm-operator: Pod (a/b-0) was cordoned", Whose::Operator),
            ("slurm-operator:x", Whose::Operator),
            ("slurm-agent: the pod stops", Whose::Pod),
            ("preStop", Whose::Pod),
            ("preStopped by me", Whose::Person),
            ("bad disk (slurm-operator: knows)", Whose::Person),
            ("", Whose::Person),
        ] {
            assert_eq!(of_reason(reason), whose, "{reason}");
        }
        assert_eq!(plain("slurm-operator: Pod (a/b-0) was cordoned"), "Pod (a/b-0) was cordoned");
    }
}
