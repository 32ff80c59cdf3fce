//! TLS and Unix sockets.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use slurm_client::{Client, Error, StaticToken};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, UnixListener};
use tokio_rustls::TlsAcceptor;

use crate::SHORT;
use crate::server::DOCUMENT;

/// Answers any request with the document of versions, or with no nodes.
async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    let mut head = Vec::new();
    while let Ok(byte) = stream.read_u8().await {
        head.push(byte);
        if !head.ends_with(b"\r\n\r\n") {
            continue;
        }
        let body = if head.starts_with(b"GET /openapi") { DOCUMENT } else { r#"{"nodes": []}"# };
        let text = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        if stream.write_all(text.as_bytes()).await.is_err() {
            return;
        }
        head.clear();
    }
}

#[tokio::test]
async fn a_unix_socket_is_spoken_to() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("slurmrestd.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let task = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream));
        }
    });
    let url = format!("unix:{}", path.display());
    let client =
        Client::builder(url.parse().unwrap(), StaticToken::new("t")).timeouts(SHORT).build().unwrap();
    assert_eq!(client.nodes().await.unwrap(), []);
    task.abort();
}

#[tokio::test]
async fn tls_is_spoken_to_a_server_whose_authority_is_trusted_and_to_no_other() {
    let made = rcgen::generate_simple_self_signed(["localhost".into()]).unwrap();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let task = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    answer(stream).await;
                }
            });
        }
    });
    let url = format!("https://localhost:{port}");
    let builder = || Client::builder(url.parse().unwrap(), StaticToken::new("t")).timeouts(SHORT).retries(0);
    let other = rcgen::generate_simple_self_signed(["localhost".into()]).unwrap().cert.pem();
    let stranger = builder().extra_ca(other.into_bytes()).build().unwrap();
    let error = stranger.nodes().await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
    assert!(error.to_string().contains("certificate"), "{error}");
    let friend = builder().extra_ca(made.cert.pem().into_bytes()).build().unwrap();
    assert_eq!(friend.nodes().await.unwrap(), []);
    task.abort();
}
