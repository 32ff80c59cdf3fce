//! The Kubernetes cluster that a command for people works on.

use std::future::Future;
use std::time::Duration;

use engine::client::{Client, Cluster, ConnectError, Options};
use engine::error::chain;

use crate::cli::Error;

/// How long the API server may be silent.
const REACH: Duration = Duration::from_secs(5);

/// The cluster, and the namespace in it.
pub(crate) struct Place {
    pub(crate) client: Client,
    pub(crate) namespace: String,
}

impl Place {
    /// Finds the cluster as kubectl does. Without a namespace, that of the kubeconfig is meant.
    pub(crate) async fn find(namespace: Option<&str>) -> Result<Self, Error> {
        let lost = |error: ConnectError| Error::Refused(chain(&error));
        let cluster = Cluster::find().await.map_err(lost)?;
        let client = cluster.connect(Options::default()).map_err(lost)?;
        cluster.reach(&client, REACH).await.map_err(lost)?;
        let namespace = namespace.unwrap_or_else(|| cluster.default_namespace()).to_owned();
        Ok(Self { client, namespace })
    }
}

/// Runs the calls of a command to the end.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::Refused(format!("cannot start: {error}")))?;
    runtime.block_on(work)
}

/// The API server gives no answer to a question.
pub(crate) fn untold(error: impl std::error::Error) -> Error {
    Error::Refused(format!("the API server does not tell: {}", chain(&error)))
}
