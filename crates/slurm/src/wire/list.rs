//! Reads an answer with a list, while it arrives.

use std::marker::PhantomData;

use serde::Deserialize;

use super::{Envelope, SplitError, Splitter};
use crate::Interner;

/// More records than this are no answer of Slurm, which cannot have so many jobs.
const MAX_RECORDS: usize = 5_000_000;

/// A record of a list in an answer.
pub trait Record: Sized {
    /// The key of the list.
    const LIST: &'static str;

    /// Reads one record; texts that many records share come from the interner.
    fn decode(json: &[u8], interner: &mut Interner) -> Result<Self, serde_json::Error>;
}

/// Reads a record. To check once that all of it is text is faster than to check each text in it.
pub(super) fn read<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Result<T, serde_json::Error> {
    match std::str::from_utf8(json) {
        Ok(text) => serde_json::from_str(text),
        // Tells where.
        Err(_) => serde_json::from_slice(json),
    }
}

/// Why an answer cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// It cannot be cut into records.
    #[error(transparent)]
    Split(#[from] SplitError),
    /// A record cannot be read.
    #[error("record {number} of `{list}` cannot be read: {error}")]
    Record {
        /// The key of the list.
        list: &'static str,
        /// Which record, counted from 1.
        number: usize,
        /// Why.
        error: serde_json::Error,
    },
    /// What stands around the list cannot be read.
    #[error("the part around `{list}` cannot be read: {error}")]
    Envelope {
        /// The key of the list.
        list: &'static str,
        /// Why.
        error: serde_json::Error,
    },
    /// There is no end of records.
    #[error("the answer has more than {0} records")]
    TooMany(usize),
}

/// What stands around a list that was read.
#[derive(Debug)]
pub struct ListEnd {
    /// Whether the answer has the list. Without it, "no records" means nothing.
    pub has_list: bool,
    /// What stands around it.
    pub envelope: Envelope,
}

/// Reads a list while it arrives: never more than one record is held as JSON.
///
/// ```
/// use slurm::wire::ListDecoder;
/// use slurm::{Interner, Node};
///
/// let mut interner = Interner::default();
/// let mut nodes = Vec::new();
/// let mut decoder = ListDecoder::<Node>::new();
/// for piece in [&br#"{"nodes": [{"name": "a", "sta"#[..], br#"te": ["IDLE"]}]}"#] {
///     decoder.feed(piece, &mut interner, &mut |node| nodes.push(node))?;
/// }
/// let end = decoder.finish()?;
/// assert!(end.has_list && end.envelope.errors.is_empty());
/// assert_eq!(nodes[0].state.to_string(), "IDLE");
/// # Ok::<(), slurm::wire::DecodeError>(())
/// ```
#[derive(Debug)]
pub struct ListDecoder<R> {
    splitter: Splitter,
    count: usize,
    record: PhantomData<fn() -> R>,
}

impl<R: Record> Default for ListDecoder<R> {
    fn default() -> Self {
        Self::new()
    }
}

impl<R: Record> ListDecoder<R> {
    /// Begins an answer.
    pub fn new() -> Self {
        Self { splitter: Splitter::new(R::LIST), count: 0, record: PhantomData }
    }

    /// Takes the next piece, and hands out the records that end in it.
    ///
    /// After an error nothing that was handed out counts: the list is not complete.
    pub fn feed(
        &mut self,
        piece: &[u8],
        interner: &mut Interner,
        on_record: &mut dyn FnMut(R),
    ) -> Result<(), DecodeError> {
        let mut failed = None;
        let count = &mut self.count;
        self.splitter.feed(piece, &mut |json| {
            if failed.is_some() {
                return;
            }
            if *count == MAX_RECORDS {
                failed = Some(DecodeError::TooMany(MAX_RECORDS));
                return;
            }
            *count += 1;
            match R::decode(json, interner) {
                Ok(record) => on_record(record),
                Err(error) => {
                    failed = Some(DecodeError::Record { list: R::LIST, number: *count, error });
                }
            }
        })?;
        failed.map_or(Ok(()), Err)
    }

    /// Ends the answer.
    pub fn finish(self) -> Result<ListEnd, DecodeError> {
        let rest = self.splitter.finish()?;
        let envelope = Envelope::decode(&rest.envelope)
            .map_err(|error| DecodeError::Envelope { list: R::LIST, error })?;
        Ok(ListEnd { has_list: rest.has_list, envelope })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Node;

    fn read(json: &str) -> Result<(Vec<Node>, ListEnd), DecodeError> {
        let mut nodes = Vec::new();
        let mut decoder = ListDecoder::<Node>::new();
        decoder.feed(json.as_bytes(), &mut Interner::default(), &mut |node| nodes.push(node))?;
        Ok((nodes, decoder.finish()?))
    }

    #[test]
    fn an_empty_list_is_not_a_missing_one() {
        assert!(read(r#"{"nodes": []}"#).unwrap().1.has_list);
        assert!(!read(r#"{"errors": []}"#).unwrap().1.has_list);
        assert!(!read(r#"{"nodes": null}"#).unwrap().1.has_list);
    }

    #[test]
    fn a_record_that_cannot_be_read_fails_the_whole_list() {
        let error = read(r#"{"nodes": [{"name": "a"}, {"name": "b",}]}"#).unwrap_err().to_string();
        assert!(error.starts_with("record 2 of `nodes` cannot be read: "), "{error}");
    }

    #[test]
    fn the_envelope_is_read_wherever_it_stands() {
        let before = read(r#"{"errors": [{"error_number": 5}], "nodes": [{}]}"#).unwrap();
        let after = read(r#"{"nodes": [{}], "errors": [{"error_number": 5}]}"#).unwrap();
        assert_eq!(before.1.envelope, after.1.envelope);
        assert_eq!(before.1.envelope.errors.len(), 1);
    }
}
