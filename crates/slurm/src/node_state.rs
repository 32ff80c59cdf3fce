//! The state of a node: one base state and any number of flags.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, SeqAccess, Visitor};

/// What a node is at bottom. A node has exactly one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeBase {
    /// Slurm itself does not know: the node has not registered since the controller started.
    Unknown,
    /// Out of service.
    Down,
    /// No job has resources of the node. A suspended job may still be there.
    Idle,
    /// Jobs have all of its resources.
    Allocated,
    /// In an error state.
    Error,
    /// Jobs have some of its resources.
    Mixed,
    /// A placeholder in the configuration, no real node yet.
    Future,
}

const BASES: [(NodeBase, &str); 7] = [
    (NodeBase::Unknown, "UNKNOWN"),
    (NodeBase::Down, "DOWN"),
    (NodeBase::Idle, "IDLE"),
    (NodeBase::Allocated, "ALLOCATED"),
    (NodeBase::Error, "ERROR"),
    (NodeBase::Mixed, "MIXED"),
    (NodeBase::Future, "FUTURE"),
];

macro_rules! node_flags {
    ($($flag:ident = $name:literal,)*) => {
        /// What else is true of a node, beside its base state.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(missing_docs, reason = "each is Slurm's word for it")]
        pub enum NodeFlag { $($flag,)* }

        const FLAGS: &[(NodeFlag, &str)] = &[$((NodeFlag::$flag, $name),)*];
    };
}

node_flags! {
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

impl NodeFlag {
    const fn bit(self) -> u32 {
        1 << self as u32
    }

    /// Slurm's word for it.
    pub fn name(self) -> &'static str {
        FLAGS.iter().find(|(flag, _)| *flag == self).map_or("", |(_, name)| *name)
    }
}

impl NodeBase {
    /// Slurm's word for it.
    pub fn name(self) -> &'static str {
        BASES.iter().find(|(base, _)| *base == self).map_or("", |(_, name)| *name)
    }
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct NodeState {
    base: Option<NodeBase>,
    flags: u32,
    // Nearly always none, so it costs a pointer and no more.
    unknown: Option<Box<Unknown>>,
}

/// Words that we do not know, as they came.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Unknown(Vec<Box<str>>);

impl NodeState {
    /// Reads the words that Slurm writes for a state.
    pub fn from_words<'a>(words: impl IntoIterator<Item = &'a str>) -> Self {
        let mut state = Self::default();
        for word in words {
            state.add(word);
        }
        state
    }

    fn add(&mut self, word: &str) {
        let word = word.trim();
        if word.is_empty() {
            return;
        }
        if let Some((base, _)) = BASES.iter().find(|(_, name)| name.eq_ignore_ascii_case(word)) {
            if self.base.is_none_or(|known| known == *base) {
                self.base = Some(*base);
                return;
            }
            // Two bases contradict each other: the second makes the state one that we cannot read.
        } else if let Some((flag, _)) = FLAGS.iter().find(|(_, name)| name.eq_ignore_ascii_case(word)) {
            self.flags |= flag.bit();
            return;
        }
        self.unknown.get_or_insert_default().0.push(word.into());
    }

    /// The base state; none when Slurm sent none, or one that we do not know.
    pub const fn base(&self) -> Option<NodeBase> {
        self.base
    }

    /// Whether the flag is set.
    pub const fn has(&self, flag: NodeFlag) -> bool {
        self.flags & flag.bit() != 0
    }

    /// The flags that are set, in a fixed order.
    pub fn flags(&self) -> impl Iterator<Item = NodeFlag> + '_ {
        FLAGS.iter().map(|(flag, _)| *flag).filter(|flag| self.has(*flag))
    }

    /// The words that we do not know, as they came.
    pub fn unknown(&self) -> impl Iterator<Item = &str> {
        self.unknown.iter().flat_map(|unknown| &unknown.0).map(AsRef::as_ref)
    }

    /// Whether every word of the state has a meaning to us, and it has a base.
    pub fn is_understood(&self) -> bool {
        self.base.is_some() && self.unknown.is_none()
    }

    /// Whether the node is to take no more jobs (and not about to be told otherwise).
    pub const fn is_drain(&self) -> bool {
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
            && matches!(self.base, Some(NodeBase::Idle | NodeBase::Down))
    }

    /// Whether the node's own state says that jobs are on it.
    pub const fn is_at_work(&self) -> bool {
        matches!(self.base, Some(NodeBase::Allocated | NodeBase::Mixed)) || self.has(NodeFlag::Completing)
    }
}

impl fmt::Display for NodeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words: Vec<&str> = self.base.iter().map(|base| base.name()).collect();
        words.extend(self.flags().map(|flag| flag.name()));
        words.extend(self.unknown());
        f.write_str(&words.join("+"))
    }
}

impl<'de> Deserialize<'de> for NodeState {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StateVisitor)
    }
}

struct StateVisitor;

impl<'de> Visitor<'de> for StateVisitor {
    type Value = NodeState;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of words of a node's state")
    }

    fn visit_unit<E>(self) -> Result<NodeState, E> {
        Ok(NodeState::default())
    }

    fn visit_str<E>(self, text: &str) -> Result<NodeState, E> {
        Ok(NodeState::from_words(text.split(['+', ','])))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<NodeState, A::Error> {
        let mut state = NodeState::default();
        while let Some(word) = seq.next_element::<crate::wire::Text<'de>>()? {
            state.add(&word);
        }
        Ok(state)
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<NodeState, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(NodeState::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(words: &str) -> NodeState {
        NodeState::from_words(words.split('+'))
    }

    #[test]
    fn every_word_is_read_as_itself() {
        for (base, name) in BASES {
            assert_eq!(state(name).base(), Some(base));
            assert_eq!(state(name).to_string(), name);
        }
        for (flag, name) in FLAGS {
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
