//! From text to ranges.

use super::{HostList, MAX_RANGE, Range};
use crate::node_name::{NodeName, is_allowed, is_reserved};

/// Why a text is no host list. Columns are counted from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostListError {
    /// A character that has no place in a host list.
    #[error("column {column}: {character:?} cannot be part of a host list")]
    Character {
        /// Where it is.
        column: usize,
        /// What it is.
        character: char,
    },
    /// A `[` without its `]`.
    #[error("column {column}: this `[` is never closed")]
    Open {
        /// Where the bracket is.
        column: usize,
    },
    /// A `]` without its `[`.
    #[error("column {column}: this `]` closes nothing")]
    Closed {
        /// Where the bracket is.
        column: usize,
    },
    /// Something between brackets that is neither a number nor a range.
    #[error("column {column}: {text:?} is neither a number nor a range like 0-3")]
    Range {
        /// Where it begins.
        column: usize,
        /// What it is.
        text: String,
    },
    /// A range that goes down.
    #[error("column {column}: the range {text} goes down")]
    Down {
        /// Where it begins.
        column: usize,
        /// What it is.
        text: String,
    },
    /// One range with more names than Slurm reads.
    #[error(
        "column {column}: the range {text} has more than {MAX_RANGE} numbers, which Slurm refuses; write two ranges"
    )]
    LongRange {
        /// Where it begins.
        column: usize,
        /// What it is.
        text: String,
    },
    /// All together too many names.
    #[error("column {column}: with this the list has more than {limit} names")]
    TooMany {
        /// Where the name or expression begins.
        column: usize,
        /// How many are allowed.
        limit: usize,
    },
    /// A name that is too long.
    #[error("column {column}: a node name has at most {} characters", NodeName::MAX_LEN)]
    LongName {
        /// Where the name or expression begins.
        column: usize,
    },
    /// A word that Slurm uses for something else.
    #[error("column {column}: `{word}` is no node name: Slurm uses this word for something else")]
    Reserved {
        /// Where the word begins.
        column: usize,
        /// What it is.
        word: String,
    },
}

/// A piece of an expression such as `r[1-2]n[1-3]x`.
enum Part<'a> {
    Text(&'a str),
    Numbers(Vec<Range>),
}

pub(super) fn parse(text: &str, limit: usize) -> Result<HostList, HostListError> {
    let mut list = HostList::new();
    let mut count = 0_u64;
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(is_separator);
        if rest.is_empty() {
            return Ok(list);
        }
        let column = text.len() - rest.len() + 1;
        let (parts, after) = parts(rest, column)?;
        count = count.saturating_add(check(&parts, column)?);
        if count > u64::try_from(limit).unwrap_or(u64::MAX) {
            return Err(HostListError::TooMany { column, limit });
        }
        expand(&mut list, &mut String::new(), &parts);
        rest = after;
    }
}

fn is_separator(c: char) -> bool {
    matches!(c, ',' | ' ' | '\t' | '\n')
}

/// One expression, up to the next separator, and what comes behind it.
fn parts(text: &str, column: usize) -> Result<(Vec<Part<'_>>, &str), HostListError> {
    let mut found = Vec::new();
    let mut rest = text;
    loop {
        let column = column + text.len() - rest.len();
        let end = rest.find(|c| !is_allowed(c)).unwrap_or(rest.len());
        if end > 0 {
            found.push(Part::Text(&rest[..end]));
            rest = &rest[end..];
            continue;
        }
        match rest.chars().next() {
            None => return Ok((found, rest)),
            Some(c) if is_separator(c) => return Ok((found, rest)),
            Some('[') => {
                let inside = &rest[1..];
                let end = inside.find(']').ok_or(HostListError::Open { column })?;
                found.push(Part::Numbers(numbers(&inside[..end], column + 1)?));
                rest = &inside[end + 1..];
            }
            Some(']') => return Err(HostListError::Closed { column }),
            Some(character) => return Err(HostListError::Character { column, character }),
        }
    }
}

/// What stands between brackets.
fn numbers(text: &str, column: usize) -> Result<Vec<Range>, HostListError> {
    let mut column = column;
    let mut found = Vec::new();
    for item in text.split(',') {
        found.push(range(item, column)?);
        column += item.len() + 1;
    }
    Ok(found)
}

fn range(text: &str, column: usize) -> Result<Range, HostListError> {
    let wrong = || HostListError::Range { column, text: text.chars().take(80).collect() };
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let width = u8::try_from(first.len()).map_err(|_| HostListError::LongName { column })?;
    let (first, last) = (number(first).ok_or_else(wrong)?, number(last).ok_or_else(wrong)?);
    if last < first {
        return Err(HostListError::Down { column, text: text.into() });
    }
    if last - first >= MAX_RANGE {
        return Err(HostListError::LongRange { column, text: text.into() });
    }
    Ok(Range { first, last, width })
}

fn number(digits: &str) -> Option<u64> {
    // `parse` alone would take a sign.
    (!digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())).then(|| digits.parse().ok())?
}

/// How many names an expression stands for, if all of them are good.
fn check(parts: &[Part<'_>], column: usize) -> Result<u64, HostListError> {
    let (mut count, mut longest) = (1_u64, 0_usize);
    for part in parts {
        match part {
            Part::Text(text) => longest += text.len(),
            Part::Numbers(ranges) => {
                let names =
                    ranges.iter().fold(0_u64, |sum, range| sum.saturating_add(range.last - range.first + 1));
                count = count.saturating_mul(names);
                let widest = ranges.iter().map(|range| range.written_width(range.last)).max().unwrap_or(0);
                longest += usize::from(widest);
            }
        }
    }
    if longest > NodeName::MAX_LEN {
        return Err(HostListError::LongName { column });
    }
    match parts {
        [Part::Text(word)] if is_reserved(word) => {
            Err(HostListError::Reserved { column, word: (*word).into() })
        }
        _ => Ok(count),
    }
}

/// Adds every name that begins with `prefix` and goes on with the parts.
fn expand(list: &mut HostList, prefix: &mut String, parts: &[Part<'_>]) {
    let length = prefix.len();
    match parts {
        [] => list.push_name(prefix),
        // By far the most usual end: the ranges stay ranges. Digits before them would belong to the number.
        [Part::Numbers(ranges)] if !prefix.ends_with(|c: char| c.is_ascii_digit()) => {
            for range in ranges {
                list.push_range(prefix, *range);
            }
        }
        [Part::Text(text), after @ ..] => {
            prefix.push_str(text);
            expand(list, prefix, after);
        }
        [Part::Numbers(ranges), after @ ..] => {
            for range in ranges {
                for number in range.first..=range.last {
                    let name = super::numbered_name(prefix, number, range.width);
                    expand(list, &mut { name }, after);
                }
            }
        }
    }
    prefix.truncate(length);
}
