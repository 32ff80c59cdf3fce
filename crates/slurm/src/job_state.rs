//! The state of a job: one base state and any number of flags.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, SeqAccess, Visitor};

macro_rules! words {
    ($(#[$doc:meta])* $type:ident, $table:ident: $($word:ident = $name:literal,)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(missing_docs, reason = "each is Slurm's word for it")]
        pub enum $type { $($word,)* }

        const $table: &[($type, &str)] = &[$(($type::$word, $name),)*];

        impl $type {
            /// Slurm's word for it.
            pub fn name(self) -> &'static str {
                $table.iter().find(|(word, _)| *word == self).map_or("", |(_, name)| *name)
            }
        }
    };
}

words! {
    /// What a job is at bottom. A job has exactly one.
    JobBase, BASES:
    Pending = "PENDING",
    Running = "RUNNING",
    Suspended = "SUSPENDED",
    Completed = "COMPLETED",
    Cancelled = "CANCELLED",
    Failed = "FAILED",
    Timeout = "TIMEOUT",
    NodeFail = "NODE_FAIL",
    Preempted = "PREEMPTED",
    BootFail = "BOOT_FAIL",
    Deadline = "DEADLINE",
    OutOfMemory = "OUT_OF_MEMORY",
}

words! {
    /// What else is true of a job, beside its base state.
    JobFlag, FLAGS:
    Completing = "COMPLETING",
    Configuring = "CONFIGURING",
    LaunchFailed = "LAUNCH_FAILED",
    PowerUpNode = "POWER_UP_NODE",
    ReconfigFail = "RECONFIG_FAIL",
    Requeued = "REQUEUED",
    RequeueFed = "REQUEUE_FED",
    RequeueHold = "REQUEUE_HOLD",
    Resizing = "RESIZING",
    ResvDelHold = "RESV_DEL_HOLD",
    Revoked = "REVOKED",
    Signaling = "SIGNALING",
    SpecialExit = "SPECIAL_EXIT",
    StageOut = "STAGE_OUT",
    Stopped = "STOPPED",
}

impl JobFlag {
    const fn bit(self) -> u32 {
        1 << self as u32
    }
}

/// Whether a job holds the nodes that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// It does.
    Holds,
    /// It does not: it waits, or it is over.
    HoldsNot,
    /// Its state has words that we do not know, so nobody can tell.
    Unclear,
}

/// The state of a job. Words that we do not know are kept as they came.
///
/// ```
/// use slurm::{JobBase, JobFlag, JobState};
///
/// let state = JobState::from_words(["CANCELLED", "COMPLETING"]);
/// assert_eq!(state.base(), Some(JobBase::Cancelled));
/// assert!(state.has(JobFlag::Completing));
/// assert_eq!(state.to_string(), "CANCELLED+COMPLETING");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct JobState {
    base: Option<JobBase>,
    flags: u32,
    // Nearly always none, so it costs a pointer and no more.
    unknown: Option<Box<Unknown>>,
}

/// Words that we do not know, as they came.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Unknown(Vec<Box<str>>);

impl JobState {
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
    pub const fn base(&self) -> Option<JobBase> {
        self.base
    }

    /// Whether the flag is set.
    pub const fn has(&self, flag: JobFlag) -> bool {
        self.flags & flag.bit() != 0
    }

    /// The flags that are set, in a fixed order.
    pub fn flags(&self) -> impl Iterator<Item = JobFlag> + '_ {
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

    /// Whether a job in this state holds its nodes (rule 1 of "jobs are sacred").
    pub fn holds_nodes(&self) -> Hold {
        const HOLDING: [JobFlag; 7] = [
            JobFlag::Stopped,
            JobFlag::Completing,
            JobFlag::Configuring,
            JobFlag::StageOut,
            JobFlag::Signaling,
            JobFlag::Resizing,
            // Its nodes boot for it.
            JobFlag::PowerUpNode,
        ];
        if matches!(self.base, Some(JobBase::Running | JobBase::Suspended))
            || HOLDING.iter().any(|flag| self.has(*flag))
        {
            Hold::Holds
        } else if self.is_understood() {
            Hold::HoldsNot
        } else {
            Hold::Unclear
        }
    }

    /// Whether the job is over and has let go of everything.
    pub fn is_finished(&self) -> bool {
        self.holds_nodes() == Hold::HoldsNot && self.base != Some(JobBase::Pending)
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words: Vec<&str> = self.base.iter().map(|base| base.name()).collect();
        words.extend(self.flags().map(|flag| flag.name()));
        words.extend(self.unknown());
        f.write_str(&words.join("+"))
    }
}

impl<'de> Deserialize<'de> for JobState {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StateVisitor)
    }
}

struct StateVisitor;

impl<'de> Visitor<'de> for StateVisitor {
    type Value = JobState;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of words of a job's state")
    }

    fn visit_unit<E>(self) -> Result<JobState, E> {
        Ok(JobState::default())
    }

    fn visit_str<E>(self, text: &str) -> Result<JobState, E> {
        Ok(JobState::from_words(text.split(['+', ','])))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<JobState, A::Error> {
        let mut state = JobState::default();
        while let Some(word) = seq.next_element::<crate::wire::Text<'de>>()? {
            state.add(&word);
        }
        Ok(state)
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<JobState, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(JobState::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(words: &str) -> JobState {
        JobState::from_words(words.split('+'))
    }

    #[test]
    fn every_word_is_read_as_itself() {
        for (base, name) in BASES {
            assert_eq!(state(name).base(), Some(*base));
            assert_eq!(state(name).to_string(), *name);
        }
        for (flag, name) in FLAGS {
            let state = state(&format!("PENDING+{name}"));
            assert_eq!(state.flags().collect::<Vec<_>>(), [*flag], "{name}");
            assert!(state.is_understood());
        }
    }

    #[test]
    fn every_state_of_the_law_holds_nodes() {
        for words in ["RUNNING", "SUSPENDED"] {
            assert_eq!(state(words).holds_nodes(), Hold::Holds, "{words}");
        }
        for flag in ["STOPPED", "COMPLETING", "CONFIGURING", "STAGE_OUT", "SIGNALING", "RESIZING"] {
            for base in ["PENDING", "COMPLETED", "CANCELLED", "RUNNING", "NODE_FAIL"] {
                let words = format!("{base}+{flag}");
                assert_eq!(state(&words).holds_nodes(), Hold::Holds, "{words}");
            }
        }
    }

    #[test]
    fn a_job_that_waits_or_is_over_holds_nothing() {
        for (base, name) in BASES {
            let holds = matches!(base, JobBase::Running | JobBase::Suspended);
            assert_eq!(state(name).holds_nodes() == Hold::HoldsNot, !holds, "{name}");
        }
        assert_eq!(state("PENDING+REQUEUED").holds_nodes(), Hold::HoldsNot);
        assert!(state("COMPLETED").is_finished());
        assert!(!state("PENDING").is_finished());
        assert!(!state("COMPLETED+COMPLETING").is_finished());
    }

    #[test]
    fn a_state_that_we_cannot_read_is_unclear() {
        for words in ["", "WOBBLING", "COMPLETED+WOBBLING", "COMPLETED+FAILED", "REQUEUED"] {
            assert_eq!(state(words).holds_nodes(), Hold::Unclear, "{words}");
        }
        assert_eq!(state("RUNNING+WOBBLING").holds_nodes(), Hold::Holds);
    }

    #[test]
    fn lists_and_texts_and_nothing_are_read() {
        let read = |json: &str| serde_json::from_str::<JobState>(json).unwrap().to_string();
        assert_eq!(read(r#"["CANCELLED", "COMPLETING"]"#), "CANCELLED+COMPLETING");
        assert_eq!(read(r#""RUNNING""#), "RUNNING");
        assert_eq!(read("null"), "");
    }
}
