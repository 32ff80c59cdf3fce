//! Whether a value is of the type of its key, as Slurm reads it.

use crate::conf::known::Kind;
use crate::hostlist::HostList;
use crate::time_limit::TimeLimit;

/// What is wrong with a value, if anything is.
pub(super) fn problem(kind: &Kind, value: &str) -> Option<String> {
    match kind {
        Kind::Text | Kind::List | Kind::Line(_) => None,
        Kind::U16 => number(value, u64::from(u16::MAX), false),
        Kind::U32 => number(value, u64::from(u32::MAX), true),
        Kind::U64 => number(value, u64::MAX, true),
        Kind::Float => {
            let good = is_unlimited(value) || value.parse::<f64>().is_ok();
            (!good).then(|| format!("{value:?} is no number"))
        }
        Kind::Bool => one_of(value, &["YES", "NO", "UP", "DOWN", "TRUE", "FALSE", "1", "0"]),
        Kind::Time => value.parse::<TimeLimit>().err().map(|error| error.to_string()),
        Kind::Ports => ports(value),
        Kind::Level => {
            const LEVELS: &[&str] = &[
                "quiet", "fatal", "error", "info", "verbose", "debug", "debug2", "debug3", "debug4", "debug5",
            ];
            if is_digits(value) { None } else { one_of(value, LEVELS) }
        }
        Kind::Share => {
            let word =
                value.split_once(':').filter(|(_, count)| is_digits(count)).map_or(value, |(word, _)| word);
            one_of(word, &["NO", "YES", "FORCE", "EXCLUSIVE"])
        }
        Kind::Hosts => host_list(value),
        Kind::OneOf(words) => one_of(value, words),
    }
}

fn host_list(value: &str) -> Option<String> {
    HostList::parse(value).err().map(|error| error.to_string())
}

fn one_of(value: &str, words: &[&str]) -> Option<String> {
    let good = words.iter().any(|word| value.eq_ignore_ascii_case(word));
    (!good).then(|| format!("{value:?} is none of {}", words.join(", ")))
}

/// A number as C reads it: decimal, `0x` or with `0` in front octal.
fn number(value: &str, max: u64, with_k: bool) -> Option<String> {
    if is_unlimited(value) {
        return None;
    }
    let digits = if with_k { value.strip_suffix(['k', 'K']).unwrap_or(value) } else { value };
    let factor = if digits.len() < value.len() { 1024 } else { 1 };
    let (text, radix) = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hex) => (hex, 16),
        None if digits.len() > 1 && digits.starts_with('0') => (&digits[1..], 8),
        None => (digits, 10),
    };
    let plain = !text.is_empty() && text.chars().all(|c| c.is_digit(radix));
    if !plain {
        return Some(format!("{value:?} is no number"));
    }
    let in_range = u64::from_str_radix(text, radix)
        .ok()
        .and_then(|number| number.checked_mul(factor))
        .filter(|number| *number <= max);
    in_range.is_none().then(|| format!("{value} is more than {max}"))
}

fn is_unlimited(value: &str) -> bool {
    value.eq_ignore_ascii_case("UNLIMITED") || value.eq_ignore_ascii_case("INFINITE")
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// `6817`, `6817-6820` or `[7000-7001]`.
fn ports(value: &str) -> Option<String> {
    let inside = value.strip_prefix('[').and_then(|value| value.strip_suffix(']')).unwrap_or(value);
    let is_port = |text: &str| is_digits(text) && text.parse::<u16>().is_ok_and(|port| port > 0);
    let good = inside.split(',').all(|part| match part.split_once('-') {
        Some((first, last)) => is_port(first) && is_port(last),
        None => is_port(part),
    });
    (!good).then(|| format!("{value:?} is no port"))
}
