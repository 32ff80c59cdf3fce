//! Cuts an answer into its records while it arrives.
//!
//! An answer of Slurm is an object with one long list (`jobs`, `nodes`) and a few small fields around it. The
//! list may take a gigabyte, so nobody must hold it whole: the splitter hands out one record at a time, and keeps the
//! rest, the envelope, for the end.

use memchr::{memchr2, memchr3};

/// A record of more bytes than this is no record of Slurm.
pub const MAX_RECORD: usize = 4 << 20;
/// More than this around the list is no answer of Slurm.
pub const MAX_ENVELOPE: usize = 1 << 20;
const MAX_KEY: usize = 1 << 10;
/// A buffer that had to grow beyond this for one record is given back.
const KEPT_BUFFER: usize = 256 << 10;

/// Why an answer cannot be cut into records.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SplitError {
    /// It is no JSON object of the known shape.
    #[error("byte {at} of the answer is not what JSON has there: {what}")]
    Syntax {
        /// How many bytes of the answer came before.
        at: u64,
        /// What was expected.
        what: &'static str,
    },
    /// It ended too early.
    #[error("the answer ends after {0} bytes, in the middle")]
    Truncated(u64),
    /// A record, or all that is around the list, is too long.
    #[error("{what} of the answer is longer than {limit} bytes")]
    TooLong {
        /// What is too long.
        what: &'static str,
        /// How long it may be.
        limit: usize,
    },
}

/// The parts of an answer, fed piece by piece.
///
/// ```
/// use slurm::wire::Splitter;
///
/// let mut names = Vec::new();
/// let mut splitter = Splitter::new("nodes");
/// for piece in [&br#"{"nodes": [{"na"#[..], br#"me": 1}, {}], "errors": []}"#] {
///     splitter.feed(piece, &mut |record| names.push(String::from_utf8_lossy(record).into_owned()))?;
/// }
/// let rest = splitter.finish()?;
/// assert_eq!(names, [r#"{"name": 1}"#, "{}"]);
/// assert_eq!(rest.envelope, br#"{"errors":[]}"#);
/// assert!(rest.has_list);
/// # Ok::<(), slurm::wire::SplitError>(())
/// ```
#[derive(Debug)]
pub struct Splitter {
    list: &'static str,
    place: Place,
    /// Where the current piece began.
    offset: u64,
    key: Vec<u8>,
    /// The beginning of a record whose end has not come yet.
    partial: Vec<u8>,
    envelope: Vec<u8>,
    has_list: bool,
    nesting: Nesting,
}

/// What is left when the last piece was fed.
#[derive(Debug)]
pub struct Rest {
    /// The object without its list, as JSON.
    pub envelope: Vec<u8>,
    /// Whether the list was there, even if empty. Without it, "no records" means nothing.
    pub has_list: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Start,
    BeforeKey,
    InKey { escaped: bool },
    BeforeColon,
    BeforeValue,
    InValue,
    AfterValue,
    BeforeRecord,
    InRecord,
    AfterRecord,
    Done,
}

impl Splitter {
    /// Looks for the records of the list with this key.
    pub fn new(list: &'static str) -> Self {
        Self {
            list,
            place: Place::Start,
            offset: 0,
            key: Vec::new(),
            partial: Vec::new(),
            envelope: b"{".to_vec(),
            has_list: false,
            nesting: Nesting::default(),
        }
    }

    /// Takes the next piece, and hands each record that ends in it to `on_record`.
    pub fn feed(&mut self, piece: &[u8], on_record: &mut dyn FnMut(&[u8])) -> Result<(), SplitError> {
        let mut at = 0;
        while let Some(byte) = piece.get(at) {
            let blank = matches!(byte, b' ' | b'\n' | b'\r' | b'\t');
            match self.place {
                // These take many bytes at once.
                Place::InRecord => {
                    at = self.record(piece, at, on_record)?;
                    continue;
                }
                Place::InValue => {
                    at = self.value(piece, at)?;
                    continue;
                }
                Place::InKey { escaped } => self.key_byte(*byte, escaped)?,
                _ if blank => {}
                Place::Start if *byte == b'{' => self.place = Place::BeforeKey,
                Place::Start => return Err(self.wrong(at, "the beginning of an object")),
                Place::BeforeKey => match byte {
                    b'"' => {
                        self.key.clear();
                        self.place = Place::InKey { escaped: false };
                    }
                    b'}' => self.place = Place::Done,
                    _ => return Err(self.wrong(at, "a key")),
                },
                Place::BeforeColon if *byte == b':' => self.place = Place::BeforeValue,
                Place::BeforeColon => return Err(self.wrong(at, "a colon")),
                Place::BeforeValue if *byte == b'[' && self.key == self.list.as_bytes() => {
                    self.has_list = true;
                    self.place = Place::BeforeRecord;
                }
                Place::BeforeValue => {
                    self.begin_value()?;
                    continue;
                }
                Place::AfterValue => match byte {
                    b',' => self.place = Place::BeforeKey,
                    b'}' => self.place = Place::Done,
                    _ => return Err(self.wrong(at, "a comma or the end of the object")),
                },
                Place::BeforeRecord => match byte {
                    b'{' => {
                        self.nesting = Nesting::default();
                        self.place = Place::InRecord;
                        continue;
                    }
                    b']' => self.place = Place::AfterValue,
                    _ => return Err(self.wrong(at, "a record")),
                },
                Place::AfterRecord => match byte {
                    b',' => self.place = Place::BeforeRecord,
                    b']' => self.place = Place::AfterValue,
                    _ => return Err(self.wrong(at, "a comma or the end of the list")),
                },
                Place::Done => return Err(self.wrong(at, "nothing more")),
            }
            at += 1;
        }
        self.offset += piece.len() as u64;
        Ok(())
    }

    /// Ends the answer.
    pub fn finish(mut self) -> Result<Rest, SplitError> {
        if self.place != Place::Done {
            return Err(SplitError::Truncated(self.offset));
        }
        self.envelope.push(b'}');
        Ok(Rest { envelope: self.envelope, has_list: self.has_list })
    }

    fn wrong(&self, at: usize, what: &'static str) -> SplitError {
        SplitError::Syntax { at: self.offset + at as u64, what }
    }

    fn key_byte(&mut self, byte: u8, escaped: bool) -> Result<(), SplitError> {
        if byte == b'"' && !escaped {
            self.place = Place::BeforeColon;
            return Ok(());
        }
        if self.key.len() == MAX_KEY {
            return Err(SplitError::TooLong { what: "a key", limit: MAX_KEY });
        }
        self.key.push(byte);
        self.place = Place::InKey { escaped: byte == b'\\' && !escaped };
        Ok(())
    }

    fn begin_value(&mut self) -> Result<(), SplitError> {
        if self.envelope.len() > 1 {
            self.envelope.push(b',');
        }
        self.envelope.push(b'"');
        self.envelope.extend_from_slice(&self.key);
        self.envelope.extend_from_slice(b"\":");
        self.nesting = Nesting::default();
        self.place = Place::InValue;
        self.check_envelope()
    }

    fn check_envelope(&self) -> Result<(), SplitError> {
        if self.envelope.len() > MAX_ENVELOPE {
            return Err(SplitError::TooLong { what: "the part around the list", limit: MAX_ENVELOPE });
        }
        Ok(())
    }

    /// Copies what belongs to a value of the envelope, and returns where the rest begins.
    fn value(&mut self, piece: &[u8], start: usize) -> Result<usize, SplitError> {
        let bytes = &piece[start..];
        let end = self.nesting.end_of_value(bytes);
        let taken = end.unwrap_or(bytes.len());
        self.envelope.extend_from_slice(&bytes[..taken]);
        self.check_envelope()?;
        if end.is_some() {
            self.place = Place::AfterValue;
        }
        Ok(start + taken)
    }

    /// Takes what belongs to a record, and returns where the rest begins.
    fn record(
        &mut self,
        piece: &[u8],
        start: usize,
        on_record: &mut dyn FnMut(&[u8]),
    ) -> Result<usize, SplitError> {
        let bytes = &piece[start..];
        let end = self.nesting.end_of_object(bytes);
        let taken = &bytes[..end.unwrap_or(bytes.len())];
        if self.partial.len() + taken.len() > MAX_RECORD {
            return Err(SplitError::TooLong { what: "a record", limit: MAX_RECORD });
        }
        if end.is_none() {
            self.partial.extend_from_slice(taken);
        } else {
            if self.partial.is_empty() {
                on_record(taken);
            } else {
                self.partial.extend_from_slice(taken);
                on_record(&self.partial);
                self.partial.clear();
                self.partial.shrink_to(KEPT_BUFFER);
            }
            self.place = Place::AfterRecord;
        }
        Ok(start + taken.len())
    }
}

/// How deep we are, and whether in a text. It survives the border between two pieces.
#[derive(Clone, Copy, Debug, Default)]
struct Nesting {
    depth: usize,
    in_text: bool,
    escaped: bool,
}

impl Nesting {
    /// Where the object ends that begins in these bytes or began before them.
    ///
    /// Only braces count: whether everything else is in order is seen when the record is read.
    fn end_of_object(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        loop {
            if self.in_text {
                at = self.end_of_text(bytes, at)?;
            }
            at += memchr3(b'"', b'{', b'}', bytes.get(at..)?)? + 1;
            match bytes[at - 1] {
                b'"' => self.in_text = true,
                b'{' => self.depth += 1,
                _ => {
                    self.depth -= 1;
                    if self.depth == 0 {
                        return Some(at);
                    }
                }
            }
        }
    }

    /// Where a text ends that we are in: behind its quote.
    fn end_of_text(&mut self, bytes: &[u8], mut at: usize) -> Option<usize> {
        if self.escaped && at < bytes.len() {
            self.escaped = false;
            at += 1;
        }
        loop {
            at += memchr2(b'"', b'\\', bytes.get(at..)?)? + 1;
            if bytes[at - 1] == b'"' {
                self.in_text = false;
                return Some(at);
            }
            // The byte after a backslash is skipped, and may be in the next piece.
            if at == bytes.len() {
                self.escaped = true;
                return None;
            }
            at += 1;
        }
    }

    /// Where any value ends: behind an object, list or text, and before the comma or brace after all else.
    fn end_of_value(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        loop {
            if self.in_text {
                at = self.end_of_text(bytes, at)?;
                if self.depth == 0 {
                    return Some(at);
                }
            }
            match bytes.get(at)? {
                b'"' => self.in_text = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' | b',' if self.depth == 0 => return Some(at),
                b'}' | b']' => {
                    self.depth -= 1;
                    if self.depth == 0 {
                        return Some(at + 1);
                    }
                }
                _ => {}
            }
            at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Parts = Result<(Vec<String>, String, bool), SplitError>;

    fn split(pieces: &[&[u8]]) -> Parts {
        let mut records = Vec::new();
        let mut splitter = Splitter::new("jobs");
        for piece in pieces {
            splitter.feed(piece, &mut |record| records.push(String::from_utf8_lossy(record).into()))?;
        }
        let rest = splitter.finish()?;
        Ok((records, String::from_utf8_lossy(&rest.envelope).into(), rest.has_list))
    }

    const ANSWER: &str = r#" {
        "jobs" : [ {"a": "} \" { \\", "b": {"c": [{}, "]"]}}, {"jobs": [1]} , {} ],
        "errors": [{"description": "x, } y"}], "last_update": 5,
        "t": "te\\", "n": null, "o": {"jobs": [{}]} }
    "#;

    #[test]
    fn records_come_out_and_the_rest_is_kept() {
        let (records, envelope, has_list) = split(&[ANSWER.as_bytes()]).unwrap();
        assert_eq!(records, [r#"{"a": "} \" { \\", "b": {"c": [{}, "]"]}}"#, r#"{"jobs": [1]}"#, "{}"]);
        let envelope: serde_json::Value = serde_json::from_str(&envelope).unwrap();
        assert_eq!(
            envelope,
            serde_json::json!({
                "errors": [{"description": "x, } y"}], "last_update": 5, "t": "te\\", "n": null, "o": {"jobs": [{}]}
            })
        );
        assert!(has_list);
    }

    #[test]
    fn every_border_between_two_pieces_gives_the_same() {
        let whole = split(&[ANSWER.as_bytes()]);
        for at in 0..=ANSWER.len() {
            let (one, two) = ANSWER.as_bytes().split_at(at);
            assert_eq!(split(&[one, two]), whole, "at byte {at}");
        }
        let bytes: Vec<&[u8]> = ANSWER.as_bytes().chunks(1).collect();
        assert_eq!(split(&bytes), whole);
    }

    #[test]
    fn an_answer_that_ends_anywhere_too_early_is_truncated() {
        let answer = ANSWER.trim_end();
        for end in 0..answer.len() {
            let error = split(&[&answer.as_bytes()[..end]]).unwrap_err();
            assert_eq!(error, SplitError::Truncated(end as u64), "{}", &answer[..end]);
        }
    }

    #[test]
    fn a_list_that_is_not_there_is_not_an_empty_list() {
        assert_eq!(split(&[b"{}"]).unwrap(), (vec![], "{}".into(), false));
        assert_eq!(split(&[br#"{"jobs": null}"#]).unwrap(), (vec![], r#"{"jobs":null}"#.into(), false));
        assert_eq!(split(&[br#"{"jobs": {}}"#]).unwrap(), (vec![], r#"{"jobs":{}}"#.into(), false));
        assert_eq!(split(&[br#"{"jobs": []}"#]).unwrap(), (vec![], "{}".into(), true));
    }

    #[test]
    fn what_is_no_answer_is_refused_with_its_place() {
        for (text, at) in [
            ("<html>", 0),
            ("[]", 0),
            ("\"text\"", 0),
            ("{5: 1}", 1),
            ("{\"a\" 1}", 5),
            ("{\"jobs\": [5]}", 10),
            ("{\"jobs\": [{} {}]}", 13),
            ("{} {}", 3),
            ("{\"a\": \"b\" \"c\"}", 10),
        ] {
            match split(&[text.as_bytes()]) {
                Err(SplitError::Syntax { at: found, .. }) => assert_eq!(found, at, "{text}"),
                other => panic!("{text}: {other:?}"),
            }
        }
    }

    #[test]
    fn nothing_grows_without_bound() {
        let mut splitter = Splitter::new("jobs");
        splitter.feed(br#"{"jobs": [{"a": ""#, &mut |_| ()).unwrap();
        let piece = vec![b'x'; 1 << 20];
        let error = (0..10).find_map(|_| splitter.feed(&piece, &mut |_| ()).err());
        assert_eq!(error, Some(SplitError::TooLong { what: "a record", limit: MAX_RECORD }));

        let mut splitter = Splitter::new("jobs");
        splitter.feed(br#"{"errors": [""#, &mut |_| ()).unwrap();
        assert!(splitter.feed(&piece, &mut |_| ()).is_err());

        let mut splitter = Splitter::new("jobs");
        splitter.feed(br#"{""#, &mut |_| ()).unwrap();
        assert!(splitter.feed(&piece, &mut |_| ()).is_err());
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>, cut: u8) {
            let at = usize::from(cut).min(bytes.len());
            let _ = split(&[&bytes[..at], &bytes[at..]]);
        }

        #[test]
        fn arbitrary_json_punctuation_never_panics_and_does_not_depend_on_the_pieces(
            text in r#"\{"jobs":\[[{}\[\]",:\\a ]{0,40}\]?\}?"#, cut in 0usize..60,
        ) {
            let at = cut.min(text.len());
            let (one, two) = text.as_bytes().split_at(at);
            proptest::prop_assert_eq!(split(&[one, two]), split(&[text.as_bytes()]));
        }

        #[test]
        fn any_json_records_come_back_whatever_the_pieces(
            texts in proptest::collection::vec(".{0,20}", 0..6), size in 1usize..40,
        ) {
            let records: Vec<_> = texts.iter().map(|t| serde_json::json!({"t": t, "u": [{"v": t}]})).collect();
            let answer = serde_json::json!({"jobs": records, "errors": texts}).to_string();
            let pieces: Vec<&[u8]> = answer.as_bytes().chunks(size).collect();
            let (found, envelope, _) = split(&pieces).unwrap();
            let found: Vec<serde_json::Value> = found.iter().map(|r| serde_json::from_str(r).unwrap()).collect();
            proptest::prop_assert_eq!(found, records);
            let envelope: serde_json::Value = serde_json::from_str(&envelope).unwrap();
            proptest::prop_assert_eq!(envelope, serde_json::json!({"errors": texts}));
        }
    }
}
