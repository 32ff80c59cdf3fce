//! Durations, as Go and as Prometheus write them.

use std::time::Duration;

/// What Go's durations can hold: 2^63-1 nanoseconds, some 292 years.
const MOST: Duration = Duration::from_nanos(i64::MAX as u64);

/// Reads a duration as Kubernetes has it: `90s`, `1h30m`, `1.5h`.
///
/// # Errors
///
/// The text is something else; the message says what to write.
pub fn go(text: &str) -> Result<Duration, String> {
    const UNITS: [(&str, f64); 8] = [
        ("ns", 1e-9),
        ("us", 1e-6),
        ("µs", 1e-6),
        ("μs", 1e-6),
        ("ms", 1e-3),
        ("s", 1.0),
        ("m", 60.0),
        ("h", 3600.0),
    ];
    read(text, &UNITS, |c| c.is_ascii_digit() || c == '.').ok_or_else(|| {
        format!("{text:?} is no duration; write a number and a unit, such as 90s, 15m or 1h30m")
    })
}

/// Reads a duration as Prometheus has it: `30s`, `1m30s`, `1d`.
///
/// # Errors
///
/// The text is something else; the message says what to write.
pub fn prometheus(text: &str) -> Result<Duration, String> {
    const DAY: f64 = 86_400.0;
    const UNITS: [(&str, f64); 7] = [
        ("ms", 1e-3),
        ("s", 1.0),
        ("m", 60.0),
        ("h", 3600.0),
        ("d", DAY),
        ("w", 7.0 * DAY),
        ("y", 365.0 * DAY),
    ];
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    read(text, &UNITS, |c| c.is_ascii_digit())
        .ok_or_else(|| format!("{text:?} is no duration; write a whole number and a unit, such as 30s or 2m"))
}

/// Numbers with units, one after the other; none if it is something else, or too long.
fn read(text: &str, units: &[(&str, f64)], is_number: impl Fn(char) -> bool) -> Option<Duration> {
    let mut total = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c| !is_number(c))?;
        let number: f64 = rest[..end].parse().ok()?;
        rest = &rest[end..];
        let end = rest.find(&is_number).unwrap_or(rest.len());
        let (_, unit) = units.iter().find(|(name, _)| *name == &rest[..end])?;
        total = total.checked_add(Duration::try_from_secs_f64(number * unit).ok()?)?;
        rest = &rest[end..];
    }
    (!text.is_empty() && total <= MOST).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read() {
        assert_eq!(go("1h30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(go("1.5h"), Ok(Duration::from_secs(5400)));
        assert_eq!(prometheus("1m30s"), Ok(Duration::from_secs(90)));
        assert_eq!(prometheus("1d"), Ok(Duration::from_secs(86_400)));
        for text in ["", "5", "h", "1d", "-1s", "1 h", "9999999h", "99999999999999999999999h", "1.2.3s"] {
            assert!(go(text).is_err(), "{text}");
        }
        for text in ["", "5", "1.5s", "30 s", "1us", "-1s"] {
            assert!(prometheus(text).is_err(), "{text}");
        }
    }
}
