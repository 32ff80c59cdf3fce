//! Durations as Go writes them, such as `1h30m`.

/// The duration in nanoseconds; none for text that Go's `time.ParseDuration` refuses.
pub(crate) fn nanoseconds(text: &str) -> Option<i64> {
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut sum: i128 = 0;
    while !rest.is_empty() {
        let (value, after) = part(rest)?;
        sum = sum.checked_add(value)?;
        rest = after;
    }
    i64::try_from(sign * sum).ok()
}

/// The first number with its unit, and what follows.
fn part(text: &str) -> Option<(i128, &str)> {
    let (whole, rest) = digits(text);
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => digits(rest),
        None => ("", rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let (unit, rest) =
        rest.split_at(rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len()));
    let unit: i128 = match unit {
        "ns" => 1,
        // Two different letters: the micro sign, and the Greek one.
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    };
    // More digits are less than a nanosecond.
    let fraction = &fraction[..fraction.len().min(15)];
    let scale = 10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let number = |digits: &str| if digits.is_empty() { Some(0) } else { digits.parse::<i128>().ok() };
    let whole = number(whole)?.checked_mul(unit)?;
    Some((whole.checked_add(number(fraction)? * unit / scale)?, rest))
}

fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_those_of_go() {
        for (text, expected) in [
            ("0", Some(0)),
            ("90s", Some(90_000_000_000)),
            ("1h30m", Some(5_400_000_000_000)),
            ("1.5h1.5m", Some(5_490_000_000_000)),
            (".5s", Some(500_000_000)),
            ("1.s", Some(1_000_000_000)),
            ("-2ms", Some(-2_000_000)),
            ("+3us", Some(3_000)),
            ("4\u{b5}s", Some(4_000)),
            ("5ns", Some(5)),
            ("2540400h", Some(9_145_440_000_000_000_000)),
            ("3000000h", None),
            ("99999999999999999999999999999999999999999h", None),
            ("", None),
            ("5", None),
            ("s", None),
            (".s", None),
            ("1d", None),
            ("1h 30m", None),
            ("1 h", None),
        ] {
            assert_eq!(nanoseconds(text), expected, "{text:?}");
        }
    }
}
