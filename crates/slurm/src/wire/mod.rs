//! How Slurm's REST API writes things.
//!
//! The data parsers v0.0.40 to v0.0.46 differ in few of the fields that we read, and there a field is read whichever way it
//! is written (see [`Number`](crate::Number), [`Text`], [`Csv`]). So one decoding does for all versions. Fields that we
//! do not know are passed over, and fields that are missing have their empty value.

mod accounting;
mod diag;
mod envelope;
mod job;
mod license;
mod list;
mod node;
mod offer;
mod partition;
mod ping;
mod reservation;
mod splitter;
mod submit;
mod text;

pub use diag::decode_diag;
pub use envelope::{Envelope, SlurmError, SlurmWarning};
pub use list::{DecodeError, ListDecoder, ListEnd, Record};
pub use node::{encode_node_update, encode_nodes_update};
pub use offer::OfferScanner;
pub use reservation::encode_reservation;
pub use splitter::{MAX_ENVELOPE, MAX_RECORD, Rest, SplitError, Splitter};
pub use submit::{decode_submitted, encode_submission, says_no_such_job};
pub use text::{Csv, Switch, Text};
