//! Listens and serves: HTTP/1.1, with TLS or without. Nobody who is slow or silent keeps a place for long.

use std::convert::Infallible;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;

use crate::settings::Address;

const MAX_CONNECTIONS: usize = 256;
/// For the TLS handshake, and for the head of a request.
const SILENCE: Duration = Duration::from_secs(10);
/// A connection ends after this, between two requests.
const LIFETIME: Duration = Duration::from_secs(600);
/// How long an end waits for requests under way.
const GRACE: Duration = Duration::from_secs(5);
/// How long we wait after the system refused us a connection, for want of file descriptors for example.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Takes the port of an address.
pub(super) async fn bind(address: Address) -> std::io::Result<Option<TcpListener>> {
    match address {
        Address::Off => Ok(None),
        Address::At(address) => TcpListener::bind(address).await.map(Some),
        Address::Everywhere(port) => {
            // The IPv6 one takes IPv4 too, but not every machine has IPv6.
            let both = TcpListener::bind(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port))).await;
            match both {
                Err(error) if error.kind() != std::io::ErrorKind::AddrInUse => {
                    TcpListener::bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))).await.map(Some)
                }
                other => other.map(Some),
            }
        }
    }
}

/// Serves until `stop`, then waits a moment for requests under way.
pub(super) async fn serve(
    listener: TcpListener,
    router: Router,
    tls: Option<TlsAcceptor>,
    stop: CancellationToken,
) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let connections = TaskTracker::new();
    let next = async || {
        let place = Arc::clone(&places).acquire_owned().await.map_err(std::io::Error::other)?;
        Ok::<_, std::io::Error>((listener.accept().await?.0, place))
    };
    while let Some(accepted) = stop.run_until_cancelled(next()).await {
        match accepted {
            Ok((stream, place)) => {
                let connection = accept(stream, router.clone(), tls.clone(), stop.clone());
                connections.spawn(async move {
                    connection.await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    connections.close();
    connections.wait().await;
}

async fn accept(stream: TcpStream, router: Router, tls: Option<TlsAcceptor>, stop: CancellationToken) {
    // Answers go out in one piece; waiting for more would only delay them.
    let _ = stream.set_nodelay(true);
    let Some(tls) = tls else { return answer(stream, router, stop).await };
    match tokio::time::timeout(SILENCE, tls.accept(stream)).await {
        Ok(Ok(stream)) => answer(stream, router, stop).await,
        Ok(Err(error)) => tracing::debug!(%error, "no TLS with a client"),
        Err(_) => tracing::debug!("a client connected and sent nothing"),
    }
}

async fn answer_of(router: Router, request: hyper::Request<Incoming>) -> http::Response<Body> {
    match router.oneshot(request.map(Body::new)).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

async fn answer<S>(stream: S, router: Router, stop: CancellationToken)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let router = router.clone();
        async move { Ok::<_, Infallible>(answer_of(router, request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(SILENCE)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => return,
        () = stop.cancelled() => {}
        () = tokio::time::sleep(LIFETIME) => {}
    }
    connection.as_mut().graceful_shutdown();
    // Whoever is not done by then is cut off.
    let _ = tokio::time::timeout(GRACE, connection).await;
}
