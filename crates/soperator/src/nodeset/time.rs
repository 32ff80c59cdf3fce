//! Times, as people read them.

use jiff::Timestamp;
use slurm::{Job, JobBase};

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// When a job must have ended. The greatest of several is when the last one has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Until {
    /// Its time limit ends then, in seconds since 1970.
    At(u64),
    /// It has no limit.
    NoLimit,
    /// Nobody knows, as for a suspended job.
    Unknown,
}

impl Until {
    /// When this job must have ended.
    pub(super) fn of(job: &Job) -> Self {
        if job.time_limit == slurm::Number::Infinite {
            return Self::NoLimit;
        }
        match job.time_limit.value() {
            Some(minutes) if job.start_time > 0 && job.state.base() != Some(JobBase::Suspended) => {
                Self::At(job.start_time.saturating_add(minutes.saturating_mul(MINUTE)))
            }
            _ => Self::Unknown,
        }
    }

    /// As a table shows it.
    pub(super) fn text(self, now: u64) -> String {
        match self {
            Self::At(time) if time <= now => "any moment".into(),
            Self::At(time) => format!("in {}", words(time - now)),
            Self::NoLimit => "no limit".into(),
            Self::Unknown => "unknown".into(),
        }
    }

    /// The time, for programs; none if there is none.
    pub(super) fn stamp(self) -> Option<String> {
        match self {
            Self::At(time) => stamp(time),
            Self::NoLimit | Self::Unknown => None,
        }
    }
}

/// Seconds since 1970 as RFC 3339; none for 0.
pub(super) fn stamp(time: u64) -> Option<String> {
    let seconds = i64::try_from(time).ok().filter(|seconds| *seconds > 0)?;
    Timestamp::from_second(seconds).ok().map(|time| time.to_string())
}

/// How long ago that was.
pub(super) fn ago(time: u64, now: u64) -> String {
    if time == 0 { String::new() } else { format!("{} ago", words(now.saturating_sub(time))) }
}

/// The two greatest units of a time: `3h 20m`.
fn words(seconds: u64) -> String {
    let two = |great: u64, unit: &str, small: u64, small_unit: &str| {
        let rest = seconds % great / small;
        let rest = if rest == 0 { String::new() } else { format!(" {rest}{small_unit}") };
        format!("{}{unit}{rest}", seconds / great)
    };
    match seconds {
        0..MINUTE => format!("{seconds}s"),
        MINUTE..HOUR => two(MINUTE, "m", 1, "s"),
        HOUR..DAY => two(HOUR, "h", MINUTE, "m"),
        _ => two(DAY, "d", HOUR, "h"),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use slurm::{JobId, JobState, Number};

    use super::*;

    /// A job that started in second 1000.
    pub(in super::super) fn job(id: u32, state: &str, time_limit: Number) -> Job {
        Job {
            id: JobId(id),
            array_job_id: None,
            array_task_id: None,
            het_job_id: None,
            node_count: 1,
            cpus: 1,
            state: JobState::from_words(state.split('+')),
            name: "train".into(),
            nodes: "gpu-0".into(),
            origin: Default::default(),
            reason: "".into(),
            tres: "".into(),
            submit_time: 0,
            start_time: 1000,
            end_time: 0,
            time_limit,
        }
    }

    #[test]
    fn a_job_ends_when_its_limit_does() {
        assert_eq!(Until::of(&job(1, "RUNNING", Number::Value(2))), Until::At(1120));
        assert_eq!(Until::of(&job(1, "RUNNING", Number::Infinite)), Until::NoLimit);
        assert_eq!(
            Until::of(&job(1, "SUSPENDED", Number::Value(2))),
            Until::Unknown,
            "its time stands still"
        );
        let mut waiting = job(1, "PENDING+CONFIGURING", Number::Value(2));
        waiting.start_time = 0;
        assert_eq!(Until::of(&waiting), Until::Unknown);
        assert!(Until::At(9) < Until::NoLimit && Until::NoLimit < Until::Unknown);
    }

    #[test]
    fn times_are_short_and_plain() {
        for (seconds, text) in [
            (0, "0s"),
            (59, "59s"),
            (60, "1m"),
            (61, "1m 1s"),
            (3 * HOUR + 20 * MINUTE + 5, "3h 20m"),
            (DAY, "1d"),
            (9 * DAY + 5 * HOUR + 59, "9d 5h"),
        ] {
            assert_eq!(words(seconds), text);
        }
        assert_eq!(Until::At(100).text(40), "in 1m");
        assert_eq!(Until::At(100).text(100), "any moment");
        assert_eq!(Until::At(1_700_000_000).stamp().as_deref(), Some("2023-11-14T22:13:20Z"));
        assert_eq!((stamp(0), ago(0, 5), ago(2, 5)), (None, String::new(), "3s ago".into()));
    }
}
