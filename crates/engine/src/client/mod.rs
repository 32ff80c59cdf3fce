//! The kube client with our own layers: timeout, careful retry, a limit with priorities, call metrics, a fence for
//! writers that lost their lease, and a place where tests put faults.
//!
//! kube's built-in retry is off: it re-sends POSTs (kube-rs/kube#2082), and ordinary calls have no timeout.

mod call;
mod limit;
mod metrics;
mod retry;
mod service;

use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::Client;
use kube::client::ClientBuilder;

pub use call::{Call, Verb};
pub use metrics::CallMetrics;
pub use retry::RetryPolicy;
pub use service::{Answer, AnswerBody, BoxError, CallError, Interceptor, Next, answer};

/// Says how long this process may write.
pub trait WriteGate: Debug + Send + Sync {
    /// Until when, if nothing is heard by then; none if it may not write now. What is renewed moves it.
    fn may_write_until(&self) -> Option<Instant>;
}

/// How a client differs from the usual one.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long one try of a call may take from first to last byte. Watches and streams into pods have no limit.
    pub timeout: Duration,
    /// The same for lists, which may be large.
    pub list_timeout: Duration,
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
