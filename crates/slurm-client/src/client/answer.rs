//! What an answer means.

use http::StatusCode;
use slurm::Interner;
use slurm::wire::{DecodeError, Envelope, ListDecoder, ListEnd, Record, SlurmError, SplitError};

use super::{Call, Client};
use crate::error::{Error, shorten};
use crate::transport::Arriving;

/// Answers that are no lists, and error pages, are no longer than this.
const MAX_BODY: usize = 16 << 20;

/// slurmctld does not believe the token.
const PROTOCOL_AUTHENTICATION: u64 = 1007;
/// The numbers of the authentication plugins.
const AUTHENTICATION: std::ops::Range<u64> = 6000..6100;
/// Nothing has changed since `update_time`.
const NO_CHANGE: u64 = 1900;

/// Whether a thing is there. "Cannot know" is none of these two, but an [`Error`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup<T> {
    /// It is there.
    Found(T),
    /// Slurm says that it is not there.
    Absent,
}

impl<T> Lookup<T> {
    /// The thing, if it is there.
    pub fn found(self) -> Option<T> {
        match self {
            Self::Found(thing) => Some(thing),
            Self::Absent => None,
        }
    }
}

/// An answer that was read.
pub(crate) enum Answer<T> {
    /// With content.
    Content(T),
    /// Without any: the server did what was asked, and says no more.
    Empty,
    /// As before.
    Unchanged,
}

impl Client {
    /// Sends a call that answers with a list, and hands out the records while they arrive.
    ///
    /// They count only if the answer is complete in the end.
    pub(super) async fn read_list<R: Record>(
        &self,
        call: &Call,
        interner: &mut Interner,
        on_record: &mut (dyn FnMut(R) + Send),
    ) -> Result<Answer<ListEnd>, Error> {
        let mut arriving = self.send(call).await?;
        match arriving.status() {
            StatusCode::OK => {}
            StatusCode::NOT_MODIFIED => return Ok(Answer::Unchanged),
            StatusCode::NO_CONTENT => return Ok(Answer::Empty),
            _ => return Err(self.refusal(call, arriving).await),
        }
        let mut decoder = ListDecoder::<R>::new();
        let mut beginning = Vec::new();
        while let Some(piece) = arriving.piece().await? {
            if beginning.is_empty() {
                beginning = piece[..piece.len().min(1024)].to_vec();
            }
            decoder
                .feed(&piece, interner, &mut *on_record)
                .map_err(|error| self.unreadable(&error, &beginning))?;
        }
        if beginning.is_empty() {
            return Ok(Answer::Empty);
        }
        let end = decoder.finish().map_err(|error| self.unreadable(&error, &beginning))?;
        self.check(call, StatusCode::OK, &end.envelope)?;
        Ok(Answer::Content(end))
    }

    /// Sends a call that answers with a small object.
    pub(super) async fn read_object(&self, call: &Call) -> Result<Answer<Vec<u8>>, Error> {
        let arriving = self.send(call).await?;
        match arriving.status() {
            StatusCode::NOT_MODIFIED => return Ok(Answer::Unchanged),
            status if status.is_success() => {}
            _ => return Err(self.refusal(call, arriving).await),
        }
        let status = arriving.status();
        let body = arriving.body(MAX_BODY).await?;
        if body.iter().all(u8::is_ascii_whitespace) {
            return Ok(Answer::Empty);
        }
        let envelope =
            Envelope::decode(&body).map_err(|error| Error::bad_answer(status.as_u16(), error, &body))?;
        self.check(call, status, &envelope)?;
        Ok(Answer::Content(body))
    }

    /// Slurm reports errors with status 200 too.
    fn check(&self, call: &Call, status: StatusCode, envelope: &Envelope) -> Result<(), Error> {
        self.note_release(envelope);
        if envelope.errors.is_empty() { Ok(()) } else { Err(self.refused(call, status, &envelope.errors)) }
    }

    fn refused(&self, call: &Call, status: StatusCode, errors: &[SlurmError]) -> Error {
        let authentication = errors
            .iter()
            .find(|error| error.number == PROTOCOL_AUTHENTICATION || AUTHENTICATION.contains(&error.number));
        if let Some(error) = authentication {
            self.shared.tokens.refused();
            return Error::Unauthorised { reason: error.to_string() };
        }
        Error::Refused { call: call.name, status: status.as_u16(), errors: errors.to_vec() }
    }

    /// What an answer with a status of failure means.
    pub(super) async fn refusal(&self, call: &Call, arriving: Arriving<'_>) -> Error {
        let status = arriving.status();
        let body = match arriving.body(MAX_BODY).await {
            Ok(body) => body,
            Err(error) => return error,
        };
        let envelope = Envelope::decode(&body).ok();
        if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            self.shared.tokens.refused();
            let reason = envelope
                .and_then(|envelope| envelope.errors.first().map(ToString::to_string))
                .unwrap_or_else(|| shorten(&body));
            return Error::Unauthorised { reason };
        }
        let errors = envelope.map(|envelope| envelope.errors).unwrap_or_default();
        if !errors.is_empty() {
            return self.refused(call, status, &errors);
        }
        if status == StatusCode::NOT_FOUND {
            // slurmrestd answers an unknown path with plain text. Perhaps another version of Slurm is there now.
            self.forget_version();
            return Error::NoSuchPath { path: call.path.clone() };
        }
        Error::bad_answer(status.as_u16(), "it is no answer of Slurm", &body)
    }

    fn unreadable(&self, error: &DecodeError, beginning: &[u8]) -> Error {
        let limit = match error {
            DecodeError::Split(SplitError::TooLong { limit, .. }) | DecodeError::TooMany(limit) => *limit,
            _ => return Error::bad_answer(StatusCode::OK.as_u16(), error, beginning),
        };
        Error::TooLong { server: self.server().to_string(), limit }
    }
}

/// Whether Slurm refused because the thing is not there.
pub(super) fn says_absent(error: &Error) -> bool {
    const JOB: u64 = 2017;
    const NODE: u64 = 2018;
    const RESERVATION: u64 = 2053;
    [JOB, NODE, RESERVATION].iter().any(|number| error.is_refused_with(*number))
}

/// Whether Slurm says that there is no such node: it found none, without any error, and calls that an error.
///
/// A lookup that fails for another reason has that reason's number.
pub(super) fn says_no_such_node(error: &Error) -> bool {
    matches!(error, Error::Refused { status: 200, errors, .. } if errors.iter().all(|error| error.number == 0))
}

/// Whether Slurm refused because nothing has changed since `update_time`.
pub(super) fn says_unchanged(error: &Error) -> bool {
    error.is_refused_with(NO_CHANGE)
}
