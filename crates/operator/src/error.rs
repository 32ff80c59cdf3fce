//! Why a reconcile did not bring an object nearer to what its user asks for.

use std::time::Duration;

use engine::apply::ApplyError;
use engine::error::{ReconcileError, Retry, category_of, retry_of};

use crate::secrets::KeyProblem;

/// Slurm is asked again after this time.
const SLURM_AGAIN: Duration = Duration::from_secs(5);

/// Why a reconcile did not bring an object nearer to what its user asks for.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Not all objects are as they should be.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// The status is not written.
    #[error("the status could not be written")]
    Status(#[source] kube::Error),
    /// Another call failed.
    #[error("{what}")]
    Call {
        /// What did not work.
        what: String,
        /// Why.
        #[source]
        error: kube::Error,
    },
    /// Slurm refused, or could not be reached.
    #[error("{what}")]
    Slurm {
        /// What did not work.
        what: String,
        /// Why.
        #[source]
        error: Box<slurm_client::Error>,
    },
    /// An object could not be written as JSON.
    #[error("an object could not be rendered")]
    Render(#[from] serde_json::Error),
    /// There is no content for a Secret.
    #[error(transparent)]
    Key(#[from] KeyProblem),
    /// A task of ours panicked.
    #[error("a task ended early")]
    Task(#[source] tokio::task::JoinError),
    /// The object cannot be read.
    #[error("the object is malformed: {0}")]
    Malformed(String),
}

impl Error {
    /// A call that failed.
    pub fn call(what: impl Into<String>, error: kube::Error) -> Self {
        Self::Call { what: what.into(), error }
    }

    /// A change in Slurm that failed.
    pub fn slurm(what: impl Into<String>, error: slurm_client::Error) -> Self {
        Self::Slurm { what: what.into(), error: Box::new(error) }
    }
}

impl ReconcileError for Error {
    fn retry(&self) -> Retry {
        match self {
            Self::Apply(error) => error.retry(),
            Self::Status(error) | Self::Call { error, .. } => retry_of(error),
            Self::Slurm { .. } => Retry::After(SLURM_AGAIN),
            Self::Key(_) | Self::Task(_) => Retry::Backoff,
            Self::Render(_) | Self::Malformed(_) => Retry::OnChange,
        }
    }

    fn category(&self) -> &'static str {
        match self {
            Self::Apply(error) => error.category(),
            Self::Status(error) | Self::Call { error, .. } => category_of(error),
            Self::Slurm { .. } => "slurm",
            Self::Render(_) => "render",
            Self::Key(_) | Self::Task(_) => "internal",
            Self::Malformed(_) => "malformed",
        }
    }
}
