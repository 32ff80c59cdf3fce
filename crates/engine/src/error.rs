//! Errors, as users and metrics see them.

use std::error::Error;
use std::time::Duration;

use crate::client::CallError;

/// What to do about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Try again, later each time.
    Backoff,
    /// Try again soon and for ever: the API server or the network is away, and will be back.
    Soon,
    /// Nothing helps but a change of some object.
    OnChange,
    /// Try again after exactly this time.
    After(Duration),
}

/// What every error of a reconcile tells the runtime.
pub trait ReconcileError: Error + Send + Sync + 'static {
    /// What to do about it.
    fn retry(&self) -> Retry;
    /// A short word for metrics and event reasons.
    fn category(&self) -> &'static str;
}

/// An error with all its causes on one line.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        // Many errors repeat their cause in their own text.
        if !text.ends_with(&next) {
            text.push_str(": ");
            text.push_str(&next);
        }
        cause = error.source();
    }
    text
}

/// What to do about an error of a call to the API server.
pub fn retry_of(error: &kube::Error) -> Retry {
    match error {
        kube::Error::Api(status) => match status.code {
            // The object is not as the server wants it; the same call will fail the same way.
            400 | 413 | 415 | 422 => Retry::OnChange,
            _ => Retry::Backoff,
        },
        kube::Error::HyperError(_) | kube::Error::Service(_) => Retry::Soon,
        _ => Retry::Backoff,
    }
}

/// The status that the API server answered with; none if it did not answer.
pub const fn status_of(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}

/// Whether the call was not sent because its time was over.
pub fn is_too_late(error: &kube::Error) -> bool {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if matches!(error.downcast_ref(), Some(CallError::TooLate { .. })) {
            return true;
        }
        cause = error.source();
    }
    false
}

/// How long the API server asks us to wait before we try again, if it does.
pub fn retry_after(error: &kube::Error) -> Option<Duration> {
    let kube::Error::Api(status) = error else { return None };
    let seconds = status.details.as_ref()?.retry_after_seconds;
    (seconds > 0).then(|| Duration::from_secs(u64::from(seconds)))
}

/// The word for an error of a call to the API server.
pub fn category_of(error: &kube::Error) -> &'static str {
    match error {
        kube::Error::Api(status) => match status.code {
            401 | 403 => "forbidden",
            404 => "not_found",
            409 => "conflict",
            400 | 413 | 415 | 422 => "invalid",
            429 => "throttled",
            _ => "server",
        },
        kube::Error::HyperError(_) | kube::Error::Service(_) => "unreachable",
        _ => "client",
    }
}
