//! The client: one value per cluster, cheap to clone.

mod accounting;
mod answer;
mod controller;
mod lists;
mod version;

use std::fmt;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use backon::{ExponentialBuilder, Retryable};
use bytes::Bytes;
use http::Method;
use slurm::ApiVersion;

pub use answer::Lookup;
pub(crate) use lists::JobsRead;

use crate::connect::TlsError;
use crate::error::Error;
use crate::server::Server;
use crate::token::TokenProvider;
use crate::transport::{Arriving, Outgoing, Timeouts, Transport};

/// A client of one slurmrestd. Clones share connections and what is known of the server.
///
/// ```no_run
/// use slurm_client::{Client, FileToken, Lookup};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::new("http://slurm-rest:6820".parse()?, FileToken::new("/run/slurm/token"))?;
/// match client.node("worker-0").await? {
///     Lookup::Found(node) => println!("{} is {}", node.name, node.state),
///     Lookup::Absent => println!("Slurm has no such node"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
    retries: usize,
}

struct Shared {
    transport: Transport,
    tokens: Box<dyn TokenProvider>,
    /// What was agreed with the server. Never held across a call.
    agreed: RwLock<Agreed>,
}

#[derive(Clone, Debug, Default)]
struct Agreed {
    version: Option<ApiVersion>,
    /// The version of Slurm that answered last.
    release: String,
}

/// Which failures are followed by another try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// Transient ones: the call can be done twice.
    Transient,
    /// Those where the request never reached the server.
    NeverSent,
    /// None.
    Never,
}

/// A call, without the version.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// For messages.
    pub(crate) name: &'static str,
    pub(crate) method: Method,
    /// `slurm` or `slurmdb`.
    pub(crate) service: &'static str,
    /// What stands behind the version.
    pub(crate) path: String,
    pub(crate) body: Option<Bytes>,
    pub(crate) repeat: Repeat,
    pub(crate) is_list: bool,
}

impl Call {
    fn new(name: &'static str, method: Method, path: impl Into<String>) -> Self {
        // GET and DELETE can be done twice; a POST is sent again only if it never arrived.
        let repeat = if method == Method::POST { Repeat::NeverSent } else { Repeat::Transient };
        Self { name, method, service: "slurm", path: path.into(), body: None, repeat, is_list: false }
    }

    fn get(name: &'static str, path: impl Into<String>) -> Self {
        Self::new(name, Method::GET, path)
    }

    fn list(name: &'static str, path: impl Into<String>) -> Self {
        Self { is_list: true, ..Self::get(name, path) }
    }

    fn post(name: &'static str, path: impl Into<String>, body: &serde_json::Value) -> Self {
        Self { body: Some(body.to_string().into()), ..Self::new(name, Method::POST, path) }
    }

    fn delete(name: &'static str, path: impl Into<String>) -> Self {
        Self::new(name, Method::DELETE, path)
    }

    fn slurmdb(self) -> Self {
        Self { service: "slurmdb", ..self }
    }
}

/// Makes a client with other than the usual settings.
#[derive(Debug)]
pub struct ClientBuilder {
    server: Server,
    tokens: Box<dyn TokenProvider>,
    timeouts: Timeouts,
    extra_ca: Option<Vec<u8>>,
    retries: usize,
}

impl ClientBuilder {
    /// Other time limits.
    #[must_use]
    pub fn timeouts(self, timeouts: Timeouts) -> Self {
        Self { timeouts, ..self }
    }

    /// A CA certificate (PEM) to trust beside those of this machine.
    #[must_use]
    pub fn extra_ca(self, pem: Vec<u8>) -> Self {
        Self { extra_ca: Some(pem), ..self }
    }

    /// How often a call that can be repeated is repeated.
    #[must_use]
    pub fn retries(self, retries: usize) -> Self {
        Self { retries, ..self }
    }

    /// The client.
    pub fn build(self) -> Result<Client, TlsError> {
        let transport = Transport::new(self.server, self.timeouts, self.extra_ca.as_deref())?;
        let shared = Shared { transport, tokens: self.tokens, agreed: RwLock::default() };
        Ok(Client { shared: Arc::new(shared), retries: self.retries })
    }
}

impl Client {
    /// A client with the usual settings. Nothing is sent yet.
    pub fn new(server: Server, tokens: impl TokenProvider + 'static) -> Result<Self, TlsError> {
        Self::builder(server, tokens).build()
    }

    /// A client with other settings.
    pub fn builder(server: Server, tokens: impl TokenProvider + 'static) -> ClientBuilder {
        ClientBuilder {
            server,
            tokens: Box::new(tokens),
            timeouts: Timeouts::default(),
            extra_ca: None,
            retries: 2,
        }
    }

    /// The same client, which tries each call once. For callers that try again themselves.
    #[must_use]
    pub fn without_retries(&self) -> Self {
        Self { retries: 0, ..self.clone() }
    }

    /// The address of the server.
    pub fn server(&self) -> &Server {
        self.shared.transport.server()
    }

    /// Does `work`, and does it again after a pause while its failures allow it.
    pub(crate) async fn repeat<T, F: Future<Output = Result<T, Error>>>(
        &self,
        repeat: Repeat,
        mut work: impl FnMut() -> F,
    ) -> Result<T, Error> {
        let pauses = ExponentialBuilder::default()
            .with_min_delay(Duration::from_millis(200))
            .with_max_delay(Duration::from_secs(2))
            .with_max_times(self.retries)
            .with_jitter();
        (|| work())
            .retry(pauses)
            .when(|error| match repeat {
                Repeat::Transient => error.is_transient(),
                Repeat::NeverSent => error.never_sent(),
                Repeat::Never => false,
            })
            .notify(|error, pause| tracing::debug!(%error, ?pause, "a call to slurmrestd is repeated"))
            .await
    }

    /// Sends a call once in the agreed version.
    async fn send(&self, call: &Call) -> Result<Arriving<'_>, Error> {
        let version = self.version().await?;
        let path = format!("/{}/{version}/{}", call.service, call.path);
        self.send_to(call, path).await
    }

    async fn send_to(&self, call: &Call, path: String) -> Result<Arriving<'_>, Error> {
        let out = Outgoing {
            method: call.method.clone(),
            path,
            body: call.body.clone(),
            fresh: call.repeat != Repeat::Transient,
            is_list: call.is_list,
        };
        let token = self.shared.tokens.token()?;
        let sent = self.shared.transport.send(&out, &token).await;
        if let Err(error) = &sent
            && error.is_transient()
        {
            // Perhaps the server goes down for an upgrade.
            self.forget_version();
        }
        sent
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("server", &self.server().to_string()).finish_non_exhaustive()
    }
}

/// A name as a part of a path.
pub(crate) fn segment(name: &str) -> String {
    let mut path = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            path.push(byte.into());
        } else {
            path.push_str(&format!("%{byte:02X}"));
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_leave_its_part_of_the_path() {
        assert_eq!(segment("worker-0.a_b"), "worker-0.a_b");
        assert_eq!(segment("../nodes?x=1#"), "..%2Fnodes%3Fx%3D1%23");
        assert_eq!(segment("ü "), "%C3%BC%20");
    }
}
