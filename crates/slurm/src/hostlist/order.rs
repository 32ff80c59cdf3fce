//! The order of names.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::{HostList, Range, digits};

/// Each name once, in order.
pub(super) fn sorted(list: &HostList) -> HostList {
    let mut by_prefix: BTreeMap<Natural<'_>, (bool, Vec<Range>)> = BTreeMap::new();
    for group in &list.groups {
        let (plain, ranges) = by_prefix.entry(Natural(&group.prefix)).or_default();
        *plain |= group.ranges.is_empty();
        ranges.extend(group.ranges.iter().flat_map(|range| by_width(*range)));
    }
    let mut sorted = HostList::new();
    for (prefix, (plain, mut ranges)) in by_prefix {
        if plain {
            sorted.groups.push(super::Group { prefix: prefix.0.into(), ranges: Vec::new() });
        }
        ranges.sort_unstable_by_key(|range| (range.width, range.first, range.last));
        let mut seen: Option<Range> = None;
        for mut range in ranges {
            if let Some(seen) = seen.filter(|seen| seen.width == range.width && range.first <= seen.last) {
                if range.last <= seen.last {
                    continue;
                }
                range.first = seen.last + 1;
            }
            sorted.push_range(prefix.0, range);
            seen = Some(range);
        }
    }
    sorted
}

/// The numbers of a range, in one range for each number of digits that they are written with.
fn by_width(range: Range) -> impl Iterator<Item = Range> {
    let mut rest = Some(range);
    std::iter::from_fn(move || {
        let range = rest?;
        let width = range.written_width(range.first);
        // The largest number of that many digits; a width of 20 and more has no end that fits.
        let end = 10_u64.checked_pow(u32::from(width)).map_or(u64::MAX, |power| power - 1);
        let last = range.last.min(end);
        rest =
            (last < range.last).then(|| Range { first: last + 1, last: range.last, width: digits(last + 1) });
        Some(Range { first: range.first, last, width })
    })
}

/// Text in which digits are compared as numbers: `a2` comes before `a10`.
#[derive(PartialEq, Eq)]
struct Natural<'a>(&'a str);

impl Ord for Natural<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let (mut a, mut b) = (self.0.as_bytes(), other.0.as_bytes());
        loop {
            let (digits_a, digits_b) = (leading_digits(a), leading_digits(b));
            let order = match (a.first(), b.first()) {
                (None, None) => return Ordering::Equal,
                (Some(_), Some(_)) if digits_a > 0 && digits_b > 0 => numbers(&a[..digits_a], &b[..digits_b]),
                (first, second) => first.cmp(&second),
            };
            if order.is_ne() {
                return order;
            }
            let step = digits_a.max(1);
            (a, b) = (&a[step..], &b[step..]);
        }
    }
}

impl PartialOrd for Natural<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

fn leading_digits(text: &[u8]) -> usize {
    text.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

/// Numbers with a zero in front are compared as what follows a decimal point, as in Slurm.
fn numbers(a: &[u8], b: &[u8]) -> Ordering {
    if a.first() == Some(&b'0') || b.first() == Some(&b'0') {
        a.cmp(b)
    } else {
        a.len().cmp(&b.len()).then_with(|| a.cmp(b))
    }
}
