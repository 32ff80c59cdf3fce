//! What a process tells about itself: probes, metrics, and on loopback its inside.

mod access;
mod checks;
mod listen;
mod results;
mod routes;
mod tls;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use kube::Client;
use prometheus_client::registry::Registry;
use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::logging::LevelHandle;
use crate::serve::{Limits, serve};
use crate::settings::{Address, Settings};
use access::Access;
pub use checks::Checks;
pub use results::{LastResult, Results};
use tls::Origin;

/// Few ask, and little: a kubelet, Prometheus, a person.
const LIMITS: Limits = Limits {
    max_connections: 64,
    max_body: 1 << 10,
    silence: Duration::from_secs(10),
    body: Duration::from_secs(10),
    handler: Duration::from_secs(30),
    idle: Duration::from_secs(120),
    stop: Duration::from_secs(5),
};

/// What the server shows.
#[derive(Clone, Debug, Default)]
pub struct Shown {
    /// Whether the process is alive and ready.
    pub checks: Checks,
    /// Its metrics.
    pub metrics: Arc<Registry>,
    /// What became of each object last.
    pub results: Results,
    /// The level of logging, which can be changed.
    pub log_level: Option<LevelHandle>,
    /// The name by which probes also answer as JSON at `/health` and `/ready`; none if they do not.
    pub service: Option<&'static str>,
}

/// Why the server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// An address cannot be had.
    #[error(
        "cannot listen on {address} for {purpose}: {error}; choose another address with --{flag}, or 0 for none"
    )]
    Listen {
        /// Which.
        address: Address,
        /// For what.
        purpose: &'static str,
        /// The flag that sets it.
        flag: &'static str,
        /// Why.
        error: io::Error,
    },
    /// The certificate cannot be used.
    #[error("no certificate for /metrics: {0}")]
    Certificate(String),
    /// A setting asks for the API server, and there is none.
    #[error("{0} needs the API server, and this process does not talk to one")]
    NoClient(&'static str),
}

struct Endpoint {
    listener: TcpListener,
    router: Router,
    tls: Option<Arc<ServerConfig>>,
}

/// A server that has its ports, and does not answer yet.
pub struct Server {
    health: Option<Endpoint>,
    metrics: Option<Endpoint>,
    debug: Option<Endpoint>,
    /// Ends what follows the certificate.
    stop: CancellationToken,
}

impl Server {
    /// Takes the ports. `client` is asked about callers of `/metrics`, and for the Secret with the certificate.
    pub async fn bind(
        settings: &Settings,
        shown: Shown,
        client: Option<&Client>,
    ) -> Result<Self, ServerError> {
        let stop = CancellationToken::new();
        let health = listen(settings.health, "probes", "health-probe-bind-address").await?;
        let metrics = listen(settings.metrics.address, "metrics", "metrics-bind-address").await?;
        let debug = listen(settings.debug, "debugging", "debug-bind-address").await?;
        let metrics = match metrics {
            None => None,
            Some(listener) => {
                let access = match (settings.metrics.authorization, client) {
                    (false, _) => None,
                    (true, Some(client)) => Some(Access::new(client.clone(), routes::METRICS)),
                    (true, None) => return Err(ServerError::NoClient("metrics.authorization")),
                };
                let tls = if settings.metrics.secure {
                    Some(Origin::new(settings.tls.as_ref(), client, &settings.namespace)?.start(&stop)?)
                } else {
                    None
                };
                let router = routes::metrics(Arc::clone(&shown.metrics), access);
                Some(Endpoint { listener, router, tls })
            }
        };
        let plain = |listener, router| Endpoint { listener, router, tls: None };
        Ok(Self {
            health: health.map(|listener| plain(listener, routes::health(shown.checks, shown.service))),
            metrics,
            debug: debug.map(|listener| plain(listener, routes::debug(shown.results, shown.log_level))),
            stop,
        })
    }

    /// Where probes are answered.
    pub fn health_address(&self) -> Option<SocketAddr> {
        address(self.health.as_ref())
    }

    /// Where metrics are served.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        address(self.metrics.as_ref())
    }

    /// Where the inside is shown.
    pub fn debug_address(&self) -> Option<SocketAddr> {
        address(self.debug.as_ref())
    }

    /// Answers until `stop`, then waits a moment for requests under way.
    pub async fn run(self, stop: CancellationToken) {
        let _stop_following = self.stop.drop_guard();
        let endpoints = [self.health, self.metrics, self.debug].into_iter().flatten();
        let serving = endpoints
            .map(|endpoint| serve(endpoint.listener, endpoint.tls, endpoint.router, LIMITS, stop.clone()));
        futures::future::join_all(serving).await;
    }
}

fn address(endpoint: Option<&Endpoint>) -> Option<SocketAddr> {
    endpoint.and_then(|endpoint| endpoint.listener.local_addr().ok())
}

async fn listen(
    address: Address,
    purpose: &'static str,
    flag: &'static str,
) -> Result<Option<TcpListener>, ServerError> {
    listen::bind(address).await.map_err(|error| ServerError::Listen { address, purpose, flag, error })
}
