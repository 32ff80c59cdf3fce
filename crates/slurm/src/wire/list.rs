//! Reads an answer with a list, while it arrives.

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

/// An answer that was read.
#[derive(Debug)]
pub struct List<R> {
    /// The records; none if the answer has no list.
    pub records: Option<Vec<R>>,
    /// What stands around them.
    pub envelope: Envelope,
}

/// Reads a list while it arrives: never more than one record is held as JSON.
///
/// ```
/// use slurm::wire::ListDecoder;
/// use slurm::{Interner, Node};
///
/// let mut interner = Interner::default();
/// let mut decoder = ListDecoder::<Node>::new();
/// for piece in [&br#"{"nodes": [{"name": "a", "sta"#[..], br#"te": ["IDLE"]}]}"#] {
///     decoder.feed(piece, &mut interner)?;
/// }
/// let list = decoder.finish()?;
/// assert_eq!(list.records.unwrap()[0].state.to_string(), "IDLE");
/// # Ok::<(), slurm::wire::DecodeError>(())
/// ```
#[derive(Debug)]
pub struct ListDecoder<R> {
    splitter: Splitter,
    records: Vec<R>,
}

impl<R: Record> Default for ListDecoder<R> {
    fn default() -> Self {
        Self::new()
    }
}

impl<R: Record> ListDecoder<R> {
    /// Begins an answer.
    pub fn new() -> Self {
        Self { splitter: Splitter::new(R::LIST), records: Vec::new() }
    }

    /// Takes the next piece.
    pub fn feed(&mut self, piece: &[u8], interner: &mut Interner) -> Result<(), DecodeError> {
        let mut failed = None;
        let records = &mut self.records;
        self.splitter.feed(piece, &mut |json| {
            if failed.is_some() {
                return;
            }
            if records.len() == MAX_RECORDS {
                failed = Some(DecodeError::TooMany(MAX_RECORDS));
                return;
            }
            match R::decode(json, interner) {
                Ok(record) => records.push(record),
                Err(error) => {
                    let number = records.len() + 1;
                    failed = Some(DecodeError::Record { list: R::LIST, number, error });
                }
            }
        })?;
        failed.map_or(Ok(()), Err)
    }

    /// Ends the answer.
    pub fn finish(self) -> Result<List<R>, DecodeError> {
        let rest = self.splitter.finish()?;
        let envelope = Envelope::decode(&rest.envelope)
            .map_err(|error| DecodeError::Envelope { list: R::LIST, error })?;
        Ok(List { records: rest.has_list.then_some(self.records), envelope })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Node;

    fn read(json: &str) -> Result<List<Node>, DecodeError> {
        let mut decoder = ListDecoder::<Node>::new();
        decoder.feed(json.as_bytes(), &mut Interner::default())?;
        decoder.finish()
    }

    #[test]
    fn an_empty_list_is_not_a_missing_one() {
        assert_eq!(read(r#"{"nodes": []}"#).unwrap().records, Some(vec![]));
        assert_eq!(read(r#"{"errors": []}"#).unwrap().records, None);
        assert_eq!(read(r#"{"nodes": null}"#).unwrap().records, None);
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
        assert_eq!(before.envelope, after.envelope);
        assert_eq!(before.envelope.errors.len(), 1);
    }
}
