//! Finds the versions in a server's OpenAPI document while it arrives.
//!
//! The document has about a megabyte. All that we want of it is in the paths, `/slurm/v0.0.42/jobs/`.

use memchr::memmem;

use crate::{ApiVersion, Offer};

/// Longer than any `/slurmdb/v0.0.NN/`.
const OVERLAP: usize = 40;

/// Reads the document piece by piece.
#[derive(Debug, Default)]
pub struct OfferScanner {
    tail: Vec<u8>,
    offer: Offer,
}

impl OfferScanner {
    /// Takes the next piece.
    pub fn feed(&mut self, piece: &[u8]) {
        // Slurm may write a slash as `\/`.
        self.tail.extend(piece.iter().filter(|byte| **byte != b'\\'));
        for at in memmem::find_iter(&self.tail, b"/slurm") {
            let rest = &self.tail[at + b"/slurm".len()..];
            let (versions, rest) = match rest.strip_prefix(b"db") {
                Some(rest) => (&mut self.offer.slurmdb, rest),
                None => (&mut self.offer.slurm, rest),
            };
            let Some(rest) = rest.strip_prefix(b"/") else { continue };
            let Some(end) = rest.iter().take(OVERLAP).position(|byte| *byte == b'/') else { continue };
            let version: Option<ApiVersion> =
                std::str::from_utf8(&rest[..end]).ok().and_then(|text| text.parse().ok());
            versions.extend(version);
        }
        let keep = self.tail.len().saturating_sub(OVERLAP);
        self.tail.drain(..keep);
    }

    /// What the document offers.
    pub fn finish(self) -> Offer {
        self.offer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = r#"{"openapi": "3.0.3", "paths": {"/openapi": {}, "\/slurm\/v0.0.40\/jobs\/": {},
        "/slurm/v0.0.42/node/{node_name}": {}, "/slurmdb/v0.0.41/qos/": {}, "/slurm/v0.0.x/": {}}}"#;

    fn scan(size: usize) -> String {
        let mut scanner = OfferScanner::default();
        for piece in DOCUMENT.as_bytes().chunks(size) {
            scanner.feed(piece);
        }
        let offer = scanner.finish();
        format!("{:?} {:?}", offer.slurm, offer.slurmdb)
    }

    #[test]
    fn versions_are_found_whatever_the_pieces() {
        let expected = "{ApiVersion(40), ApiVersion(42)} {ApiVersion(41)}";
        for size in 1..DOCUMENT.len() {
            assert_eq!(scan(size), expected, "pieces of {size} bytes");
        }
    }

    #[test]
    fn the_document_is_not_kept() {
        let mut scanner = OfferScanner::default();
        for _ in 0..100 {
            scanner.feed(DOCUMENT.as_bytes());
        }
        assert!(scanner.tail.len() <= OVERLAP);
    }
}
