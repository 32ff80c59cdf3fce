//! How long a job may run.

use std::fmt;
use std::str::FromStr;

/// A time limit, to the second, or none.
///
/// Slurm writes minutes, `MM:SS`, `HH:MM:SS`, `D-HH`, `D-HH:MM` and `D-HH:MM:SS`, and the words `UNLIMITED` and `INFINITE`
/// (also `-1`). As in Slurm a part may be larger than its place: `90:00` is an hour and a half.
///
/// ```
/// use slurm::TimeLimit;
///
/// assert_eq!("90".parse::<TimeLimit>()?.to_string(), "01:30:00");
/// assert_eq!("1-12".parse::<TimeLimit>()?, TimeLimit::from_minutes(36 * 60));
/// assert_eq!("infinite".parse::<TimeLimit>()?, TimeLimit::Unlimited);
/// # Ok::<(), slurm::TimeLimitError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TimeLimit {
    /// So many seconds.
    Seconds(u64),
    /// For ever. Larger than every number of seconds.
    Unlimited,
}

/// Why a text is no time limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no time limit: write minutes, MM:SS, HH:MM:SS, D-HH, D-HH:MM, D-HH:MM:SS or UNLIMITED")]
pub struct TimeLimitError(String);

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

impl TimeLimit {
    /// So many minutes.
    #[must_use]
    pub const fn from_minutes(minutes: u32) -> Self {
        Self::Seconds(minutes as u64 * MINUTE)
    }

    /// As Slurm keeps it: in whole minutes, a part of one counted whole. `None` for no limit.
    #[must_use]
    pub const fn minutes(self) -> Option<u64> {
        match self {
            Self::Seconds(seconds) => Some(seconds.div_ceil(MINUTE)),
            Self::Unlimited => None,
        }
    }
}

impl FromStr for TimeLimit {
    type Err = TimeLimitError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "-1" || ["UNLIMITED", "INFINITE"].iter().any(|word| text.eq_ignore_ascii_case(word)) {
            return Ok(Self::Unlimited);
        }
        seconds(text).map(Self::Seconds).ok_or_else(|| TimeLimitError(text.chars().take(80).collect()))
    }
}

fn seconds(text: &str) -> Option<u64> {
    let (days, rest) = match text.split_once('-') {
        Some((days, rest)) => (Some(number(days)?), rest),
        None => (None, text),
    };
    let parts: Vec<u64> = rest.splitn(4, ':').map(number).collect::<Option<_>>()?;
    // What a part stands for depends on whether days come first.
    let units: &[u64] = match (days, parts.len()) {
        (None, 1) => &[MINUTE],
        (None, 2) => &[MINUTE, 1],
        (_, 3) => &[HOUR, MINUTE, 1],
        (Some(_), 1) => &[HOUR],
        (Some(_), 2) => &[HOUR, MINUTE],
        _ => return None,
    };
    let mut total = days.unwrap_or(0).checked_mul(DAY)?;
    for (part, unit) in parts.iter().zip(units) {
        total = total.checked_add(part.checked_mul(*unit)?)?;
    }
    Some(total)
}

fn number(digits: &str) -> Option<u64> {
    // `parse` alone would take a sign.
    (!digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())).then(|| digits.parse().ok())?
}

/// As Slurm prints it: `D-HH:MM:SS` without the days if there are none, or `UNLIMITED`.
impl fmt::Display for TimeLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Seconds(seconds) = *self else { return f.write_str("UNLIMITED") };
        let (days, rest) = (seconds / DAY, seconds % DAY);
        if days > 0 {
            write!(f, "{days}-")?;
        }
        write!(f, "{:02}:{:02}:{:02}", rest / HOUR, rest % HOUR / MINUTE, rest % MINUTE)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_form_of_slurm_is_read() {
        for (text, seconds) in [
            ("0", 0),
            ("5", 5 * MINUTE),
            ("5:30", 5 * MINUTE + 30),
            ("90:00", 90 * MINUTE),
            ("2:03:04", 2 * HOUR + 3 * MINUTE + 4),
            ("1-0", DAY),
            ("1-2", DAY + 2 * HOUR),
            ("1-02:03", DAY + 2 * HOUR + 3 * MINUTE),
            ("1-02:03:04", DAY + 2 * HOUR + 3 * MINUTE + 4),
        ] {
            assert_eq!(text.parse(), Ok(TimeLimit::Seconds(seconds)), "{text}");
        }
        for text in ["UNLIMITED", "unlimited", "Infinite", "-1"] {
            assert_eq!(text.parse(), Ok(TimeLimit::Unlimited), "{text}");
        }
    }

    #[test]
    fn other_text_is_refused() {
        for text in [
            "",
            "1:",
            ":1",
            "1:2:3:4",
            "1-2:3:4:5",
            "-2",
            "1-",
            "--1",
            "+1",
            "1 2",
            "one",
            "1-2-3",
            "1.5",
            "é",
        ] {
            assert!(text.parse::<TimeLimit>().is_err(), "{text:?}");
        }
        assert!("99999999999999999999".parse::<TimeLimit>().is_err());
        assert!("213503982334602-0".parse::<TimeLimit>().is_err(), "more seconds than there are numbers");
    }

    #[test]
    fn a_part_of_a_minute_counts_whole() {
        assert_eq!(TimeLimit::Seconds(61).minutes(), Some(2));
        assert_eq!(TimeLimit::from_minutes(2).minutes(), Some(2));
        assert_eq!(TimeLimit::Unlimited.minutes(), None);
    }

    #[test]
    fn no_limit_is_larger_than_any() {
        assert!(TimeLimit::Unlimited > TimeLimit::Seconds(u64::MAX));
    }

    proptest! {
        #[test]
        fn print_and_parse_are_inverse(seconds: u64) {
            let limit = TimeLimit::Seconds(seconds);
            prop_assert_eq!(limit.to_string().parse(), Ok(limit));
        }

        #[test]
        fn no_text_is_too_strange(text in "[0-9:-]{0,12}|\\PC*") {
            let _ = text.parse::<TimeLimit>();
        }
    }
}
