//! The state of a job: one base state and any number of flags.

use crate::state::{State, state_words};

state_words! {
    /// What a job is at bottom. A job has exactly one.
    JobBase:
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

state_words! {
    /// What else is true of a job, beside its base state.
    JobFlag:
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
pub type JobState = State<JobBase, JobFlag>;

impl JobState {
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
        if matches!(self.base(), Some(JobBase::Running | JobBase::Suspended))
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
        self.holds_nodes() == Hold::HoldsNot && self.base() != Some(JobBase::Pending)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StateWord;

    fn state(words: &str) -> JobState {
        JobState::from_words(words.split('+'))
    }

    #[test]
    fn every_word_is_read_as_itself() {
        for (base, name) in JobBase::WORDS {
            assert_eq!(state(name).base(), Some(*base));
            assert_eq!(state(name).to_string(), *name);
        }
        for (flag, name) in JobFlag::WORDS {
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
        for (base, name) in JobBase::WORDS {
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
