//! The state of a node: one base state and any number of flags.

use crate::state::{State, state_words};

state_words! {
    /// What a node is at bottom. A node has exactly one.
    NodeBase:
    /// Slurm itself does not know: the node has not registered since the controller started.
    Unknown = "UNKNOWN",
    /// Out of service.
    Down = "DOWN",
    /// No job has resources of the node. A suspended job may still be there.
    Idle = "IDLE",
    /// Jobs have all of its resources.
    Allocated = "ALLOCATED",
    /// In an error state.
    Error = "ERROR",
    /// Jobs have some of its resources.
    Mixed = "MIXED",
    /// A placeholder in the configuration, no real node yet.
    Future = "FUTURE",
}

state_words! {
    /// What else is true of a node, beside its base state.
    NodeFlag:
    Blocked = "BLOCKED",
    Cloud = "CLOUD",
    Completing = "COMPLETING",
    Drain = "DRAIN",
    DynamicFuture = "DYNAMIC_FUTURE",
    DynamicNorm = "DYNAMIC_NORM",
    External = "EXTERNAL",
    Fail = "FAIL",
    InvalidReg = "INVALID_REG",
    Maintenance = "MAINTENANCE",
    NotResponding = "NOT_RESPONDING",
    Planned = "PLANNED",
    PowerDown = "POWER_DOWN",
    PowerDownAsap = "POWER_DOWN_ASAP",
    PowerDownForce = "POWER_DOWN_FORCE",
    PowerDrain = "POWER_DRAIN",
    PowerUp = "POWER_UP",
    PoweredDown = "POWERED_DOWN",
    PoweringDown = "POWERING_DOWN",
    PoweringUp = "POWERING_UP",
    RebootCanceled = "REBOOT_CANCELED",
    RebootIssued = "REBOOT_ISSUED",
    RebootRequested = "REBOOT_REQUESTED",
    Reserved = "RESERVED",
    Resume = "RESUME",
    Undrain = "UNDRAIN",
}

/// The state of a node. Words that we do not know are kept as they came.
///
/// ```
/// use slurm::{NodeBase, NodeFlag, NodeState};
///
/// let state = NodeState::from_words(["MIXED", "DRAIN", "WOBBLING"]);
/// assert_eq!(state.base(), Some(NodeBase::Mixed));
/// assert!(state.has(NodeFlag::Drain) && state.is_draining());
/// assert_eq!(state.unknown().collect::<Vec<_>>(), ["WOBBLING"]);
/// assert_eq!(state.to_string(), "MIXED+DRAIN+WOBBLING");
/// ```
pub type NodeState = State<NodeBase, NodeFlag>;

impl NodeState {
    /// Whether the node is to take no more jobs (and not about to be told otherwise).
    pub fn is_drain(&self) -> bool {
        self.has(NodeFlag::Drain) && !self.has(NodeFlag::Undrain)
    }

    /// Whether the node takes no more jobs, but still has some.
    pub fn is_draining(&self) -> bool {
        self.is_drain() && self.is_at_work()
    }

    /// Whether the node takes no more jobs and shows none. It says nothing of suspended jobs.
    pub fn is_drained(&self) -> bool {
        self.is_drain()
            && self.is_understood()
            && !self.is_at_work()
            && matches!(self.base(), Some(NodeBase::Idle | NodeBase::Down))
    }

    /// Whether the node's own state says that jobs are on it.
    pub fn is_at_work(&self) -> bool {
        matches!(self.base(), Some(NodeBase::Allocated | NodeBase::Mixed)) || self.has(NodeFlag::Completing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StateWord;

    fn state(words: &str) -> NodeState {
        NodeState::from_words(words.split('+'))
    }

    #[test]
    fn every_word_is_read_as_itself() {
        for (base, name) in NodeBase::WORDS {
            assert_eq!(state(name).base(), Some(*base));
            assert_eq!(state(name).to_string(), *name);
        }
        for (flag, name) in NodeFlag::WORDS {
            let state = state(&format!("IDLE+{name}"));
            assert_eq!(state.flags().collect::<Vec<_>>(), [*flag], "{name}");
            assert!(state.is_understood());
            assert_eq!(state.to_string(), format!("IDLE+{name}"));
        }
    }

    #[test]
    fn unknown_words_are_kept_and_make_the_state_not_understood() {
        let state = state("IDLE+WOBBLING+DRAIN+SPINNING");
        assert_eq!(state.unknown().collect::<Vec<_>>(), ["WOBBLING", "SPINNING"]);
        assert!(state.has(NodeFlag::Drain));
        assert!(!state.is_understood());
        assert!(!state.is_drained(), "who knows what it means");
    }

    #[test]
    fn no_base_or_two_are_not_understood() {
        assert!(!state("DRAIN").is_understood());
        assert!(!state("").is_understood());
        assert!(!state("IDLE+ALLOCATED").is_understood());
        assert!(state("IDLE+IDLE").is_understood());
    }

    #[test]
    fn draining_becomes_drained_when_the_work_is_done() {
        assert!(state("MIXED+DRAIN").is_draining() && !state("MIXED+DRAIN").is_drained());
        assert!(state("ALLOCATED+DRAIN").is_draining());
        assert!(state("IDLE+DRAIN+COMPLETING").is_draining() && !state("IDLE+DRAIN+COMPLETING").is_drained());
        assert!(state("IDLE+DRAIN").is_drained() && !state("IDLE+DRAIN").is_draining());
        assert!(state("DOWN+DRAIN+NOT_RESPONDING").is_drained());
        assert!(!state("IDLE").is_drained());
    }

    #[test]
    fn a_node_that_is_about_to_be_resumed_is_not_drained() {
        assert!(!state("IDLE+DRAIN+UNDRAIN").is_drained());
    }

    #[test]
    fn a_node_that_slurm_does_not_know_is_not_drained() {
        assert!(!state("UNKNOWN+DRAIN").is_drained());
        assert!(!state("ERROR+DRAIN").is_drained());
    }

    #[test]
    fn lists_and_texts_and_nothing_are_read() {
        let read = |json: &str| serde_json::from_str::<NodeState>(json).unwrap().to_string();
        assert_eq!(read(r#"["IDLE", "DRAIN"]"#), "IDLE+DRAIN");
        assert_eq!(read(r#""idle+drain""#), "IDLE+DRAIN");
        assert_eq!(read("null"), "");
        assert_eq!(read("{}"), "");
    }
}
