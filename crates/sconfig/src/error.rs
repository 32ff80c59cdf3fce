//! Why a look at JailedConfigs came to no end.

use engine::error::{ReconcileError, Retry, category_of, retry_of};

/// Why a look at JailedConfigs came to no end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A call failed.
    #[error("{what}")]
    Call {
        /// What did not work.
        what: String,
        /// Why.
        #[source]
        error: kube::Error,
    },
    /// The object cannot be read.
    #[error("the object is malformed: {0}")]
    Malformed(String),
    /// A task of ours panicked.
    #[error("a task ended early")]
    Task(#[from] tokio::task::JoinError),
}

impl Error {
    /// A call that failed.
    pub fn call(what: impl Into<String>, error: kube::Error) -> Self {
        Self::Call { what: what.into(), error }
    }
}

impl ReconcileError for Error {
    fn retry(&self) -> Retry {
        match self {
            Self::Call { error, .. } => retry_of(error),
            Self::Malformed(_) => Retry::OnChange,
            Self::Task(_) => Retry::Backoff,
        }
    }

    fn category(&self) -> &'static str {
        match self {
            Self::Call { error, .. } => category_of(error),
            Self::Malformed(_) => "malformed",
            Self::Task(_) => "internal",
        }
    }
}
