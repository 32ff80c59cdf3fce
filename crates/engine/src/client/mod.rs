//! The kube client with our own layers: timeout, careful retry, a limit with priorities, call metrics, an eye on watches
//! that fall silent, a fence for writers that lost their lease, and a place where tests put faults.
//!
//! kube's built-in retry is off: it re-sends POSTs (kube-rs/kube#2082), and ordinary calls have no timeout.

mod call;
mod limit;
mod metrics;
mod retry;
mod service;
mod silence;

use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use kube::Client;
use kube::client::ClientBuilder;

pub use call::{Call, Verb};
pub use metrics::CallMetrics;
pub use retry::{RetryPolicy, SendBefore};
pub use service::{Answer, AnswerBody, BoxError, CallError, Interceptor, Next, answer};
pub use silence::Watches;

/// Says how long this process may write.
pub trait WriteGate: Debug + Send + Sync {
    /// Until when, if nothing is heard by then; none if it may not write now. What is renewed moves it.
    fn may_write_until(&self) -> Option<Instant>;
}

/// How a client differs from the usual one.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long one try of a call may take from first to last byte. Watches may take for ever, and streams into pods too.
    pub timeout: Duration,
    /// The same for lists, which may be large.
    pub list_timeout: Duration,
    /// How long a watch may bring no byte before it is opened anew. The API server sends a bookmark about every minute.
    pub watch_silence: Duration,
    /// What is known of silent watches; clients may share it.
    pub watches: Watches,
    /// How many calls may be in flight. Watches and streams do not count.
    pub max_in_flight: usize,
    /// How calls are repeated.
    pub retry: RetryPolicy,
    /// Where calls are counted.
    pub metrics: CallMetrics,
    /// Asked before each write, except those to leases.
    pub gate: Option<Arc<dyn WriteGate>>,
    /// Sees every try of every call; for tests.
    pub interceptor: Option<Arc<dyn Interceptor>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(15),
            list_timeout: Duration::from_secs(60),
            watch_silence: Duration::from_secs(180),
            watches: Watches::default(),
            max_in_flight: 32,
            retry: RetryPolicy::default(),
            metrics: CallMetrics::default(),
            gate: None,
            interceptor: None,
        }
    }
}

/// Makes a client for the cluster that `config` names.
pub fn connect(mut config: kube::Config, options: Options) -> Result<Client, kube::Error> {
    config.default_retry = false;
    let layer = service::EngineLayer::new(options);
    Ok(ClientBuilder::try_from(config)?.with_layer(&layer).build())
}

/// Why there is no client for the cluster of this process.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Neither a ServiceAccount nor a kubeconfig.
    #[error(
        "no cluster is known: run in a pod with a ServiceAccount, or set KUBECONFIG to the path of a kubeconfig"
    )]
    Unknown(#[source] kube::config::InferConfigError),
    /// What is known of the cluster cannot be used.
    #[error("the kubeconfig or the ServiceAccount cannot be used")]
    Unusable(#[source] Box<kube::Error>),
    /// The API server did not answer in time.
    #[error("the API server at {url} cannot be reached; is it up, and may this program connect to it?")]
    Unreachable {
        /// Where it should be.
        url: String,
        /// The last answer.
        #[source]
        error: Box<kube::Error>,
    },
}

/// The cluster that this process is to work on: that of its ServiceAccount, or of the kubeconfig.
#[derive(Clone, Debug)]
pub struct Cluster {
    config: kube::Config,
}

impl Cluster {
    /// Finds it, without a call.
    pub async fn find() -> Result<Self, ConnectError> {
        kube::Config::infer().await.map(|config| Self { config }).map_err(ConnectError::Unknown)
    }

    /// The namespace that is meant where none is named.
    pub fn default_namespace(&self) -> &str {
        &self.config.default_namespace
    }

    /// Makes a client for it.
    pub fn connect(&self, options: Options) -> Result<Client, ConnectError> {
        connect(self.config.clone(), options).map_err(|error| ConnectError::Unusable(Box::new(error)))
    }

    /// Waits for an answer of the API server, whatever it is, for at most `patience`.
    pub async fn reach(&self, client: &Client, patience: Duration) -> Result<(), ConnectError> {
        let start = tokio::time::Instant::now();
        loop {
            let error = match client.apiserver_version().await {
                Ok(_) | Err(kube::Error::Api(_)) => return Ok(()),
                Err(error) => error,
            };
            if start.elapsed() >= patience {
                let url = self.config.cluster_url.to_string();
                return Err(ConnectError::Unreachable { url, error: Box::new(error) });
            }
            tracing::warn!(error = %crate::error::chain(&error), "the API server does not answer; trying again");
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
}
