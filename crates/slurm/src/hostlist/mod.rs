//! Host lists: `a-[0-3,07,10-12],b[1-2]c` and the names that they stand for.
//!
//! Both directions do what Slurm does (`scontrol show hostnames` and `scontrol show hostlist`), with these differences:
//!
//! - `a[1-]`, `a[+1]`, `a[ 1]` and a stray `]` or `[` are refused. Slurm guesses.
//! - A range of more than 65,536 names is printed in pieces. Slurm prints it whole, and cannot read it again.
//! - The number in a name is always all of its last digits: `a1[0-1]` prints as `a[10-11]`. Slurm keeps the brackets
//!   where they were.

mod order;
mod parse;

use std::fmt;
use std::str::FromStr;

use crate::node_name::NodeName;
pub use parse::HostListError;

/// A list of node names, kept in ranges: a hundred thousand numbered names take no more room than one.
///
/// The order is that in which names were added, and a name may come twice; [`HostList::sorted`] changes both.
///
/// ```
/// use slurm::HostList;
///
/// let list: HostList = "gpu-[08-11],login".parse()?;
/// assert_eq!(list.len(), 5);
/// let names: Vec<String> = list.names().map(String::from).collect();
/// assert_eq!(names, ["gpu-08", "gpu-09", "gpu-10", "gpu-11", "login"]);
/// assert_eq!(list.to_string(), "gpu-[08-11],login");
/// # Ok::<(), slurm::HostListError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct HostList {
    groups: Vec<Group>,
}

/// Names that follow each other and share what stands before their number.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Group {
    /// Never ends with a digit that could belong to the number.
    prefix: Box<str>,
    /// Empty for one name without a number, which is the prefix itself.
    ranges: Vec<Range>,
}

/// The numbers from `first` to `last`, with zeros in front up to a width.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Range {
    first: u64,
    last: u64,
    /// The number of digits of `first` as it is written.
    width: u8,
}

/// Slurm reads no range with more names than this.
const MAX_RANGE: u64 = 65_536;

impl HostList {
    /// The most names that [`HostList::parse`] accepts. Slurm itself cannot have more than 65,536 nodes.
    pub const MAX_NAMES: usize = 200_000;

    /// An empty list.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads a host list that stands for at most [`HostList::MAX_NAMES`] names.
    ///
    /// # Errors
    ///
    /// The text is no host list, or stands for too many names.
    pub fn parse(text: &str) -> Result<Self, HostListError> {
        Self::parse_up_to(text, Self::MAX_NAMES)
    }

    /// Reads a host list that stands for at most so many names. Nothing is expanded before they are counted.
    ///
    /// # Errors
    ///
    /// The text is no host list, or stands for too many names.
    pub fn parse_up_to(text: &str, limit: usize) -> Result<Self, HostListError> {
        parse::parse(text, limit)
    }

    /// How many names there are, each counted as often as it comes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.groups.iter().map(Group::len).sum()
    }

    /// Whether there is no name.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Every name, in order.
    pub fn names(&self) -> impl Iterator<Item = NodeName> {
        self.groups.iter().flat_map(|group| {
            let single = group.ranges.is_empty().then(|| NodeName::from_checked(group.prefix.to_string()));
            let numbered = group.ranges.iter().flat_map(|range| {
                (range.first..=range.last)
                    .map(|number| NodeName::from_checked(numbered_name(&group.prefix, number, range.width)))
            });
            single.into_iter().chain(numbered)
        })
    }

    /// Whether a name is in the list.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        let (prefix, number) = split(name);
        self.groups.iter().filter(|group| *group.prefix == *prefix).any(|group| match number {
            None => group.ranges.is_empty(),
            Some((number, width)) => group.ranges.iter().any(|range| range.holds(number, width)),
        })
    }

    /// Adds a name at the end.
    pub fn push(&mut self, name: &NodeName) {
        self.push_name(name.as_str());
    }

    /// The same names, each once, in the order of `scontrol show hostlistsorted`: by what stands before the number, digits in
    /// it compared as numbers, then by the number.
    ///
    /// Where some numbers of the same prefix have zeros in front and others do not, Slurm's order depends on the input; here
    /// the shorter number comes first.
    #[must_use]
    pub fn sorted(&self) -> Self {
        order::sorted(self)
    }

    /// A name that is known to be good.
    fn push_name(&mut self, name: &str) {
        match split(name) {
            (prefix, None) => self.groups.push(Group { prefix: prefix.into(), ranges: Vec::new() }),
            (prefix, Some((number, width))) => {
                self.push_range(prefix, Range { first: number, last: number, width })
            }
        }
    }

    fn push_range(&mut self, prefix: &str, range: Range) {
        match self.groups.last_mut() {
            Some(group) if !group.ranges.is_empty() && *group.prefix == *prefix => group.push(range),
            _ => self.groups.push(Group { prefix: prefix.into(), ranges: vec![range] }),
        }
    }
}

impl Group {
    fn len(&self) -> usize {
        if self.ranges.is_empty() { 1 } else { self.ranges.iter().map(Range::len).sum() }
    }

    /// Adds numbers, to the last range if they go on from there.
    fn push(&mut self, next: Range) {
        if let Some(range) = self.ranges.last_mut()
            && range.last.checked_add(1) == Some(next.first)
            && range.written_width(next.first) == next.width
        {
            range.last = next.last;
        } else {
            self.ranges.push(next);
        }
    }
}

impl Range {
    fn len(&self) -> usize {
        usize::try_from(self.last - self.first).unwrap_or(usize::MAX).saturating_add(1)
    }

    /// How many digits a number of this range has when it is written.
    fn written_width(&self, number: u64) -> u8 {
        digits(number).max(self.width)
    }

    fn holds(&self, number: u64, width: u8) -> bool {
        (self.first..=self.last).contains(&number) && self.written_width(number) == width
    }

    /// The same numbers in pieces that Slurm can read.
    fn pieces(self) -> impl Iterator<Item = Self> {
        let mut rest = Some(self);
        std::iter::from_fn(move || {
            let range = rest?;
            let last = range.first.saturating_add(MAX_RANGE - 1).min(range.last);
            rest = (last < range.last).then(|| Self {
                first: last + 1,
                last: range.last,
                width: range.written_width(last + 1),
            });
            Some(Self { last, ..range })
        })
    }
}

/// How many digits a number has.
fn digits(number: u64) -> u8 {
    // At most 20.
    u8::try_from(number.checked_ilog10().unwrap_or(0) + 1).unwrap_or(u8::MAX)
}

/// What stands before the number in a name, and the number with its width.
///
/// A number that does not fit into 64 bits is part of the name.
fn split(name: &str) -> (&str, Option<(u64, u8)>) {
    let prefix = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let number = &name[prefix.len()..];
    match (number.parse(), u8::try_from(number.len())) {
        (Ok(value), Ok(width)) => (prefix, Some((value, width))),
        _ => (name, None),
    }
}

fn numbered_name(prefix: &str, number: u64, width: u8) -> String {
    let zeros = usize::from(width.saturating_sub(digits(number)));
    let mut name = String::with_capacity(prefix.len() + zeros + usize::from(digits(number)));
    name.push_str(prefix);
    name.extend(std::iter::repeat_n('0', zeros));
    push_number(&mut name, number);
    name
}

/// Without the machinery of `format!`, which would take most of the time of an expansion.
fn push_number(text: &mut String, number: u64) {
    let mut place = 10_u64.pow(u32::from(digits(number)) - 1);
    while place > 0 {
        text.push(char::from(b'0' + u8::try_from(number / place % 10).unwrap_or(0)));
        place /= 10;
    }
}

impl fmt::Display for HostList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, group) in self.groups.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            write!(f, "{group}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.prefix)?;
        let several = self.len() > 1;
        if several {
            f.write_str("[")?;
        }
        let mut comma = "";
        for range in self.ranges.iter().flat_map(|range| range.pieces()) {
            let width = usize::from(range.width);
            write!(f, "{comma}{:0width$}", range.first)?;
            if range.first < range.last {
                write!(f, "-{:0width$}", range.last)?;
            }
            comma = ",";
        }
        if several { f.write_str("]") } else { Ok(()) }
    }
}

impl FromStr for HostList {
    type Err = HostListError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl<'a> Extend<&'a NodeName> for HostList {
    fn extend<T: IntoIterator<Item = &'a NodeName>>(&mut self, names: T) {
        for name in names {
            self.push(name);
        }
    }
}

impl<'a> FromIterator<&'a NodeName> for HostList {
    fn from_iter<T: IntoIterator<Item = &'a NodeName>>(names: T) -> Self {
        let mut list = Self::new();
        list.extend(names);
        list
    }
}

impl FromIterator<NodeName> for HostList {
    fn from_iter<T: IntoIterator<Item = NodeName>>(names: T) -> Self {
        let mut list = Self::new();
        for name in names {
            list.push(&name);
        }
        list
    }
}

#[cfg(test)]
mod tests;
