//! A client that keeps its connection, as API servers do.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// A connection to the webhook.
pub(crate) struct Connection {
    stream: TlsStream<TcpStream>,
    address: SocketAddr,
    read: Vec<u8>,
}

impl Connection {
    /// Connects, trusting the authorities of `bundle` (PEM) only.
    pub(crate) async fn open(address: SocketAddr, bundle: &str) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(bundle.as_bytes()) {
            roots.add(certificate?)?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::from(address.ip());
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
        Ok(Self { stream, address, read: Vec::with_capacity(8 << 10) })
    }

    /// Sends a review and waits for the answer, which must be a patch.
    pub(crate) async fn post(&mut self, path: &str, body: &[u8]) -> Result<Vec<u8>> {
        let head = format!(
            "POST {path}?timeout=3s HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            self.address,
            body.len()
        );
        let request = [head.as_bytes(), body].concat();
        self.stream.write_all(&request).await?;
        self.stream.flush().await?;
        self.read.clear();
        loop {
            ensure!(self.stream.read_buf(&mut self.read).await? > 0, "the webhook hung up");
            let Some(Message { head, body, .. }) = Message::in_bytes(&self.read)? else { continue };
            ensure!(head.starts_with("HTTP/1.1 200"), "{head}");
            ensure!(
                body.windows(11).any(|part| part == b"\"JSONPatch\""),
                "{}",
                String::from_utf8_lossy(body)
            );
            return Ok(body.to_vec());
        }
    }
}

/// A whole message of HTTP/1.1 with a length.
pub(crate) struct Message<'a> {
    pub(crate) head: &'a str,
    pub(crate) body: &'a [u8],
    /// Where the next one begins.
    pub(crate) end: usize,
}

impl<'a> Message<'a> {
    /// The first one of `bytes`, once all of it is there.
    pub(crate) fn in_bytes(bytes: &'a [u8]) -> Result<Option<Self>> {
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { return Ok(None) };
        let head = std::str::from_utf8(&bytes[..end])?;
        let length = head
            .lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
            .context("a message without its length")?;
        let (start, length) = (end + 4, length.1.trim().parse::<usize>()?);
        let body = bytes.get(start..start + length);
        Ok(body.map(|body| Self { head, body, end: start + length }))
    }
}
