//! Why a call failed. Every kind asks for another thing to be done, so each has its own variant.

use std::fmt;
use std::time::Duration;

use slurm::wire::SlurmError;
use slurm::{ApiVersion, Offer};

use crate::token::TokenProblem;

/// Longer bodies are cut in messages.
const SHOWN_BODY: usize = 200;

/// Why a call failed.
///
/// None of these says that something is not there: that is [`Lookup::Absent`](crate::Lookup::Absent), and no error.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No connection could be made. Nothing was sent.
    #[error("cannot reach slurmrestd at {server}: {reason}; check the address, and that slurmrestd runs")]
    Unreachable {
        /// The server.
        server: String,
        /// Why.
        reason: String,
    },
    /// The server took too long. What was asked may have been done.
    #[error("slurmrestd at {server} did not {stage} within {limit:?}")]
    Timeout {
        /// The server.
        server: String,
        /// What it did not do in time.
        stage: Stage,
        /// The time that it had.
        limit: Duration,
    },
    /// The connection broke after the request had been sent. What was asked may have been done.
    #[error("the connection to slurmrestd at {server} broke before the answer was complete: {reason}")]
    Interrupted {
        /// The server.
        server: String,
        /// Why.
        reason: String,
    },
    /// There is no token to show.
    #[error("no token for slurmrestd: {0}")]
    Token(#[from] TokenProblem),
    /// The token was not accepted.
    #[error("slurmrestd does not accept the token: {reason}; check its end, its user and the JWT key")]
    Unauthorised {
        /// What the server says.
        reason: String,
    },
    /// The server has no such address.
    #[error("slurmrestd has no {path}; check the address of the server, and which plugins it serves")]
    NoSuchPath {
        /// The path that was asked for.
        path: String,
    },
    /// Slurm understood, and said no.
    #[error("Slurm refused {call}: {}", first(.errors))]
    Refused {
        /// What was asked.
        call: &'static str,
        /// The HTTP status; versions of Slurm differ in it.
        status: u16,
        /// What Slurm says.
        errors: Vec<SlurmError>,
    },
    /// The server and we have no version of the API in common.
    #[error(
        "slurmrestd offers the API versions {offer}, but {} to {} are needed; use another version of Slurm or of this program",
        ApiVersion::OLDEST,
        ApiVersion::NEWEST
    )]
    UnsupportedVersion {
        /// What the server offers.
        offer: Offer,
    },
    /// The version of the API that the server offers cannot do this.
    #[error(
        "{call} needs version {needed} of the REST API, but slurmrestd offers {offered} at most; use a newer Slurm"
    )]
    NotOffered {
        /// What was asked.
        call: &'static str,
        /// The version that can do it.
        needed: ApiVersion,
        /// The version in use.
        offered: ApiVersion,
    },
    /// The answer is longer than any answer should be.
    #[error("the answer of slurmrestd at {server} has no end: it was cut off after {limit} bytes")]
    TooLong {
        /// The server.
        server: String,
        /// How long it may be.
        limit: usize,
    },
    /// The answer makes no sense.
    #[error(
        "slurmrestd sent an answer (status {status}) that cannot be read: {reason}; it begins with `{body}`"
    )]
    BadAnswer {
        /// The status of the answer.
        status: u16,
        /// Why it cannot be read.
        reason: String,
        /// How it begins.
        body: String,
    },
}

/// What a server can be late with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Accepting the connection.
    Connect,
    /// Beginning its answer.
    Answer,
    /// Sending the next piece of its answer.
    Continue,
    /// Ending its answer.
    End,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connect => "accept a connection",
            Self::Answer => "begin its answer",
            Self::Continue => "go on with its answer",
            Self::End => "end its answer",
        })
    }
}

impl Error {
    /// Whether the request certainly never reached the server, so that it can be sent again whatever it asks.
    pub const fn never_sent(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Timeout { stage: Stage::Connect, .. })
    }

    /// Whether the next try may have more luck without anything being changed.
    pub const fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Timeout { .. } | Self::Interrupted { .. } => true,
            // What stands before slurmrestd says so while slurmrestd is away.
            Self::BadAnswer { status, .. } => matches!(*status, 502..=504),
            _ => false,
        }
    }

    /// A word for metrics.
    pub const fn category(&self) -> &'static str {
        match self {
            Self::Unreachable { .. } => "unreachable",
            Self::Timeout { .. } => "timeout",
            Self::Interrupted { .. } => "interrupted",
            Self::Token(_) => "token",
            Self::Unauthorised { .. } => "unauthorised",
            Self::NoSuchPath { .. } => "no_such_path",
            Self::Refused { .. } => "refused",
            Self::UnsupportedVersion { .. } => "unsupported_version",
            Self::NotOffered { .. } => "not_offered",
            Self::TooLong { .. } => "too_long",
            Self::BadAnswer { .. } => "bad_answer",
        }
    }

    /// Whether Slurm refused with this error number.
    pub fn is_refused_with(&self, number: u64) -> bool {
        matches!(self, Self::Refused { errors, .. } if errors.iter().any(|error| error.number == number))
    }

    pub(crate) fn bad_answer(status: u16, reason: impl fmt::Display, body: &[u8]) -> Self {
        Self::BadAnswer { status, reason: reason.to_string(), body: shorten(body) }
    }
}

fn first(errors: &[SlurmError]) -> String {
    errors.first().map_or_else(|| "it gave no reason".into(), ToString::to_string)
}

/// The beginning of a body, fit for one line.
pub(crate) fn shorten(body: &[u8]) -> String {
    let cut = &body[..body.len().min(SHOWN_BODY)];
    let mut text: String = String::from_utf8_lossy(cut)
        .chars()
        .map(|letter| if letter.is_control() { ' ' } else { letter })
        .collect();
    if body.len() > SHOWN_BODY {
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_body_is_shortened_to_one_line() {
        let text = shorten(&b"<html>\n".repeat(100));
        assert!(text.chars().count() <= SHOWN_BODY + 1 && text.ends_with('…'), "{text}");
        assert!(!text.contains('\n'));
        assert_eq!(shorten(b"short"), "short");
        assert_eq!(shorten(&[0xff, 0xfe]), "\u{fffd}\u{fffd}");
    }

    #[test]
    fn what_may_have_been_done_is_never_called_unsent() {
        let late = |stage| Error::Timeout { server: String::new(), stage, limit: Duration::ZERO };
        assert!(late(Stage::Connect).never_sent());
        assert!(!late(Stage::Answer).never_sent());
        assert!(!Error::Interrupted { server: String::new(), reason: String::new() }.never_sent());
    }
}
