//! A plain client of the admission server, for what an API server would not send.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Connects, trusting only the authorities of `bundle` (PEM).
pub async fn connect(address: SocketAddr, bundle: &str) -> Result<TlsStream<TcpStream>> {
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
    let name = ServerName::from(address.ip());
    Ok(TlsConnector::from(Arc::new(config)).connect(name, stream).await?)
}

/// The certificate that a new connection gets.
pub async fn served(address: SocketAddr, bundle: &str) -> Result<Vec<u8>> {
    let stream = connect(address, bundle).await?;
    let certificates = stream.get_ref().1.peer_certificates().context("a certificate")?;
    Ok(certificates.first().context("a certificate")?.to_vec())
}

/// How many certificates a PEM text holds.
pub fn count_certificates(pem: &str) -> usize {
    pem.matches("BEGIN CERTIFICATE").count()
}

/// Sends a body and returns status and text.
pub async fn post(address: SocketAddr, bundle: &str, path: &str, body: &[u8]) -> Result<(u16, String)> {
    let mut stream = connect(address, bundle).await?;
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body).await?;
    let mut answer = Vec::new();
    // The server may end the connection without TLS's good-bye.
    let _ = stream.read_to_end(&mut answer).await;
    let answer = String::from_utf8(answer)?;
    let (head, text) = answer.split_once("\r\n\r\n").context("an answer")?;
    let status = head.split(' ').nth(1).context("a status")?.parse()?;
    Ok((status, text.into()))
}
