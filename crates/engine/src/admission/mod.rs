//! The admission server: answers the API server's questions over HTTPS, with certificates that renew themselves.
//!
//! ```text
//! source (own authority, cert-manager, or a Secret of the user)
//!   -> presenter -> publisher: caBundle of the webhook configurations
//!                -> server: certificate of new connections
//! ```
//!
//! A certificate is served only when the API server trusts its authority, so changes of certificates and authorities fail no
//! request. Nothing is restarted for them.

mod brought;
mod cert_manager;
mod certificate;
mod issue;
mod material;
mod metrics;
mod own;
mod pki;
mod present;
mod publish;
mod review;
mod rotation;
mod webhooks;

use std::io::ErrorKind;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::middleware::map_response;
use axum::response::Response;
use http::{HeaderValue, header};
use kube::Client;
use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::key::Key;
pub use crate::serve::Limits;
use cert_manager::CertManager;
pub use issue::{Issued, issue};
use material::Material;
pub use metrics::AdmissionMetrics;
use own::OwnAuthority;
pub use pki::PkiError;
use present::Presenter;
pub(crate) use present::Served;
pub use publish::Configuration;
use publish::Publisher;
pub use review::{Decision, Request, object, old_object};
use rotation::Data;
pub use rotation::Policy;
pub use webhooks::{OnFailure, Webhooks};

/// The port of the admission server, unless the configuration says otherwise.
pub const PORT: u16 = 9443;

/// Where the certificate comes from. All three are Secrets with `tls.crt`, `tls.key` and `ca.crt`.
#[derive(Clone, Debug)]
pub enum Source {
    /// An authority of our own, made and renewed by us.
    Own {
        /// The Secret that keeps it.
        secret: Key,
        /// Names and lifetimes.
        policy: Policy,
    },
    /// cert-manager, by an Issuer and a Certificate of the Secret's name.
    CertManager {
        /// The Secret that cert-manager is to write.
        secret: Key,
        /// The DNS names (and addresses) by which the API server calls us.
        names: Vec<String>,
    },
    /// A Secret that the user keeps. Without `ca.crt` in it, the webhook configurations are left alone.
    Secret(Key),
}

/// How the admission server runs.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where it listens.
    pub address: SocketAddr,
    /// What callers may take of it.
    pub limits: Limits,
    /// Where the certificate comes from.
    pub source: Source,
    /// The configurations whose `caBundle` is kept.
    pub configurations: Vec<Configuration>,
    /// The field manager of what we write.
    pub manager: String,
    /// How long each step of a change of authority waits for everybody to know of the step before, and how long an authority
    /// that is not needed any more stays in the configurations.
    pub grace: Duration,
    /// How long new connections are still taken after a stop: until everybody has heard that this server goes, some calls are
    /// still sent to it. No Service leads to an address of loopback, so there nothing is waited for.
    pub linger: Duration,
    /// Where requests are counted.
    pub metrics: AdmissionMetrics,
}

impl Options {
    /// The usual settings.
    pub fn new(manager: &str, source: Source, configurations: Vec<Configuration>) -> Self {
        Self {
            address: (Ipv6Addr::UNSPECIFIED, PORT).into(),
            limits: Limits::default(),
            source,
            configurations,
            manager: manager.into(),
            grace: Duration::from_secs(300),
            linger: Duration::from_secs(5),
            metrics: AdmissionMetrics::default(),
        }
    }
}

/// Why there is no admission server.
#[derive(Debug, thiserror::Error)]
pub enum AdmissionError {
    /// The address is taken, or not ours.
    #[error("the admission server cannot listen on {address}; choose another address or port")]
    Listen {
        /// Where it should have listened.
        address: SocketAddr,
        /// What the system says.
        #[source]
        error: std::io::Error,
    },
    /// The TLS library refuses its own defaults.
    #[error("TLS cannot be set up")]
    Tls(#[from] rustls::Error),
}

/// An admission server that listens, and will serve when it runs.
#[derive(Debug)]
pub struct Admission {
    options: Options,
    listener: TcpListener,
    address: SocketAddr,
    served: Arc<Served>,
    tls: Arc<ServerConfig>,
    ready: watch::Sender<bool>,
}

impl Admission {
    /// Takes the address.
    pub async fn bind(options: Options) -> Result<Self, AdmissionError> {
        let failed = |error| AdmissionError::Listen { address: options.address, error };
        let listener = listen(options.address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let served = Arc::new(Served::default());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let resolver: Arc<Served> = Arc::clone(&served);
        let mut tls = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(resolver);
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        let ready = watch::Sender::new(false);
        Ok(Self { options, listener, address, served, tls: Arc::new(tls), ready })
    }

    /// Where it listens; tells the port if the system chose it.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Becomes true when there is a certificate to serve.
    pub fn ready(&self) -> watch::Receiver<bool> {
        self.ready.subscribe()
    }

    /// Serves until `stop` and a little longer, then waits for requests under way. `client` must be one that may write without being leader:
    /// replicas share the work by the versions of what they write, and a standby must be able to serve too.
    pub async fn run(self, client: Client, webhooks: Webhooks, stop: CancellationToken) {
        let Self { options, listener, address, served, tls, ready } = self;
        let (materials, to_present) = watch::channel(None);
        let (wanted, to_publish) = watch::channel(None);
        let (published, is_published) = watch::channel(None);
        let presenter = Presenter { served, ready, metrics: options.metrics.clone(), grace: options.grace };
        let publisher = Publisher {
            client: client.clone(),
            manager: options.manager.clone(),
            configurations: options.configurations,
            grace: options.grace,
        };
        let (source, manager, grace) = (options.source, options.manager, options.grace);
        let to_plan = is_published.clone();
        let source = async move {
            match source {
                Source::Own { secret, policy } => {
                    let own = OwnAuthority { client, manager, secret, policy, grace };
                    own.run(materials, to_plan).await;
                }
                Source::CertManager { secret, names } => {
                    let keeper =
                        CertManager { client: client.clone(), manager, secret: secret.clone(), names };
                    tokio::join!(keeper.run(), brought::run(client, secret, materials));
                }
                Source::Secret(secret) => brought::run(client, secret, materials).await,
            }
        };
        let is_stopping = stop.clone();
        let router = webhooks.into_router(options.limits, options.metrics).layer(map_response(
            move |response: Response| std::future::ready(last_one(response, is_stopping.is_cancelled())),
        ));
        let linger = if address.ip().is_loopback() { Duration::ZERO } else { options.linger };
        let closed = CancellationToken::new();
        let close = closed.clone();
        let closing = async move {
            stop.cancelled().await;
            tokio::time::sleep(linger).await;
            close.cancel();
        };
        let background = async {
            tokio::join!(
                source,
                presenter.run(to_present, wanted, is_published),
                publisher.run(to_publish, published),
            );
        };
        let serving = crate::serve::serve(listener, Some(tls), router, options.limits, closed);
        tokio::select! {
            ((), ()) = async { tokio::join!(serving, closing) } => {}
            () = async { background.await; std::future::pending().await } => {}
        }
    }
}

/// Who gets an answer from a server that is about to go shall send its next request elsewhere.
fn last_one(mut response: Response, is_stopping: bool) -> Response {
    if is_stopping {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// "Everywhere" means both families; where the system has no IPv6, it means IPv4.
async fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    match TcpListener::bind(address).await {
        Err(error) if address.ip() == Ipv6Addr::UNSPECIFIED && error.kind() != ErrorKind::AddrInUse => {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())).await.map_err(|_| error)
        }
        other => other,
    }
}

/// Passes on what a Secret holds, if it can be served and is something new. What cannot be served changes nothing: better
/// an old certificate than none.
fn bring(materials: &watch::Sender<Option<Material>>, secret: &Key, data: &Data, complain: bool) {
    match Material::read(data) {
        Ok(material) => {
            materials.send_if_modified(|known| {
                let new = known.as_ref().is_none_or(|known| !known.equals(&material));
                if new {
                    *known = Some(material);
                }
                new
            });
        }
        Err(error) if complain => {
            tracing::warn!(%secret, %error, "the Secret with the admission certificate cannot be used");
        }
        Err(_) => {}
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
