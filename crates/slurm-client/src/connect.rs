//! Connections to slurmrestd: TCP, TLS or a Unix socket.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

use crate::server::Target;

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The certificate of the authority cannot be read.
    #[error("the CA certificate is no PEM: {0}")]
    Pem(String),
    /// There is no certificate to trust.
    #[error("no CA certificate to trust: this machine has none, and none was given")]
    NoRoots,
    /// TLS itself refuses.
    #[error("TLS cannot be set up: {0}")]
    Config(#[from] rustls::Error),
}

/// Opens connections to one target, whatever address a request names.
#[derive(Clone)]
pub(crate) struct Connector {
    target: Target,
    tls: Option<TlsConnector>,
    timeout: Duration,
}

impl Connector {
    /// `extra_ca` is trusted beside the authorities of this machine.
    pub(crate) fn new(target: Target, extra_ca: Option<&[u8]>, timeout: Duration) -> Result<Self, TlsError> {
        let tls = match target {
            Target::Tcp { tls: true, .. } => Some(TlsConnector::from(Arc::new(tls_config(extra_ca)?))),
            _ => None,
        };
        Ok(Self { target, tls, timeout })
    }

    async fn connect(self) -> io::Result<Stream> {
        let limit = self.timeout;
        tokio::time::timeout(limit, self.connect_at_leisure())
            .await
            .unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "no connection in time")))
    }

    async fn connect_at_leisure(self) -> io::Result<Stream> {
        let (host, port) = match self.target {
            Target::Unix(path) => return Ok(Stream::new(UnixStream::connect(path).await?)),
            Target::Tcp { host, port, .. } => (host, port),
        };
        let stream = TcpStream::connect((host.as_str(), port)).await?;
        // Requests are small and wait for their answer.
        stream.set_nodelay(true)?;
        let Some(tls) = self.tls else {
            return Ok(Stream::new(stream));
        };
        let name = ServerName::try_from(host).map_err(io::Error::other)?;
        Ok(Stream::new(tls.connect(name, stream).await?))
    }
}

impl tower_service::Service<Uri> for Connector {
    type Response = Stream;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Stream>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        Box::pin(self.clone().connect())
    }
}

fn tls_config(extra_ca: Option<&[u8]>) -> Result<ClientConfig, TlsError> {
    let mut roots = RootCertStore::empty();
    // A certificate of the machine that nobody can read is the machine's problem, not ours.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    for certificate in CertificateDer::pem_slice_iter(extra_ca.unwrap_or_default()) {
        roots.add(certificate.map_err(|error| TlsError::Pem(error.to_string()))?)?;
    }
    if roots.is_empty() {
        return Err(TlsError::NoRoots);
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Socket for T {}

/// An open connection of any kind.
pub(crate) struct Stream(TokioIo<Box<dyn Socket>>);

impl Stream {
    fn new(socket: impl Socket + 'static) -> Self {
        Self(TokioIo::new(Box::new(socket)))
    }
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl Read for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl Write for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
