//! Serves HTTP/1.1, with TLS or without: nobody who is slow, silent or many can keep others from being served.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;

/// What callers may take of the server.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at once. When there are more, one that has no request under way makes place.
    pub max_connections: usize,
    /// Bytes of a request's body.
    pub max_body: usize,
    /// From the connect to the head of the first request, TLS included.
    pub silence: Duration,
    /// From the head of a request to the end of its body.
    pub body: Duration,
    /// What a handler may take.
    pub handler: Duration,
    /// How long a connection may lie idle between requests. The API server drops idle connections after 90 s; were we the
    /// first to do so, it could just be sending the next request.
    pub idle: Duration,
    /// How long a stop waits for requests under way.
    pub stop: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_connections: 512,
            max_body: 3 << 20,
            silence: Duration::from_secs(10),
            body: Duration::from_secs(10),
            handler: Duration::from_secs(10),
            idle: Duration::from_secs(120),
            stop: Duration::from_secs(10),
        }
    }
}

/// How long we wait after the system refused us a connection, for want of file descriptors for example.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves until `stop`, then waits for requests under way.
pub(crate) async fn serve(
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    router: Router,
    limits: Limits,
    stop: CancellationToken,
) {
    let server = Server {
        tls: tls.map(TlsAcceptor::from),
        router,
        limits,
        idle: Arc::default(),
        stop: stop.clone(),
        cut: CancellationToken::new(),
    };
    let permits = Arc::new(Semaphore::new(limits.max_connections.max(1)));
    let connections = TaskTracker::new();
    loop {
        let next = stop.run_until_cancelled(server.next(&listener, &permits)).await;
        match next {
            None => break,
            Some(Ok((stream, permit))) => {
                let server = server.clone();
                connections.spawn(async move {
                    server.connection(stream).await;
                    drop(permit);
                });
            }
            Some(Err(error)) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    connections.close();
    if tokio::time::timeout(limits.stop, connections.wait()).await.is_err() {
        tracing::warn!(left = connections.len(), "requests still ran at the end and were cut off");
        server.cut.cancel();
        connections.wait().await;
    }
}

#[derive(Clone)]
struct Server {
    tls: Option<TlsAcceptor>,
    router: Router,
    limits: Limits,
    idle: Arc<Mutex<IdleConnections>>,
    stop: CancellationToken,
    cut: CancellationToken,
}

impl Server {
    /// The next connection and its place among the limited number.
    async fn next(
        &self,
        listener: &TcpListener,
        permits: &Arc<Semaphore>,
    ) -> std::io::Result<(TcpStream, OwnedSemaphorePermit)> {
        let (stream, _) = listener.accept().await?;
        let permit = match Arc::clone(permits).try_acquire_owned() {
            Ok(permit) => Ok(permit),
            Err(_) => {
                self.idle.lock().end_one();
                Arc::clone(permits).acquire_owned().await
            }
        };
        permit.map(|permit| (stream, permit)).map_err(std::io::Error::other)
    }

    async fn connection(&self, stream: TcpStream) {
        let deadline = Instant::now() + self.limits.silence;
        // An answer goes out in one piece; waiting for more would only delay it.
        let _ = stream.set_nodelay(true);
        let place = Arc::new(Place::new(Arc::clone(&self.idle), self.cut.child_token()));
        let ended = place.end.clone().run_until_cancelled_owned(async {
            let Some(tls) = &self.tls else { return self.requests(stream, &place, deadline).await };
            match tokio::time::timeout_at(deadline, tls.accept(stream)).await {
                Ok(Ok(stream)) => self.requests(stream, &place, deadline).await,
                Ok(Err(error)) => tracing::debug!(%error, "no TLS with a client"),
                Err(_) => tracing::debug!("a client connected and sent nothing"),
            }
        });
        if ended.await.is_none() {
            tracing::debug!("a connection was ended to make place, or by the stop");
        }
    }

    async fn requests<S>(&self, stream: S, place: &Arc<Place>, deadline: Instant)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let service = service_fn(|request: http::Request<Incoming>| {
            let (router, place) = (self.router.clone(), Arc::clone(place));
            async move {
                let _busy = Busy::begin(place);
                router.oneshot(request.map(Body::new)).await
            }
        });
        let mut connection = std::pin::pin!(
            http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(self.limits.idle)
                .serve_connection(TokioIo::new(stream), service)
        );
        let (mut stopping, mut proven) = (false, false);
        loop {
            tokio::select! {
                ended = connection.as_mut() => {
                    if let Err(error) = ended {
                        tracing::debug!(%error, "a connection ended with an error");
                    }
                    return;
                }
                () = self.stop.cancelled(), if !stopping => {
                    stopping = true;
                    connection.as_mut().graceful_shutdown();
                }
                () = tokio::time::sleep_until(deadline), if !proven => {
                    proven = place.is_proven();
                    if !proven {
                        tracing::debug!("a client sent no request");
                        return;
                    }
                }
            }
        }
    }
}

/// The connections without a request under way, in the order in which they end when place is needed: first those that never
/// sent a request, then those that are idle longest.
#[derive(Debug, Default)]
struct IdleConnections {
    serial: u64,
    waiting: BTreeMap<(bool, u64), CancellationToken>,
}

impl IdleConnections {
    fn add(&mut self, proven: bool, end: CancellationToken) -> (bool, u64) {
        self.serial += 1;
        self.waiting.insert((proven, self.serial), end);
        (proven, self.serial)
    }

    fn end_one(&mut self) {
        if let Some((_, end)) = self.waiting.pop_first() {
            end.cancel();
        }
    }
}

/// One connection, as [`IdleConnections`] know it.
struct Place {
    idle: Arc<Mutex<IdleConnections>>,
    end: CancellationToken,
    /// Its key while it is idle.
    key: Mutex<Option<(bool, u64)>>,
    proven: std::sync::atomic::AtomicBool,
}

impl Place {
    fn new(idle: Arc<Mutex<IdleConnections>>, end: CancellationToken) -> Self {
        let key = idle.lock().add(false, end.clone());
        Self { idle, end, key: Mutex::new(Some(key)), proven: false.into() }
    }

    fn is_proven(&self) -> bool {
        self.proven.load(std::sync::atomic::Ordering::Relaxed)
    }

    fn leave(&self) {
        if let Some(key) = self.key.lock().take() {
            self.idle.lock().waiting.remove(&key);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.leave();
    }
}

/// A request under way.
struct Busy {
    place: Arc<Place>,
}

impl Busy {
    fn begin(place: Arc<Place>) -> Self {
        place.proven.store(true, std::sync::atomic::Ordering::Relaxed);
        place.leave();
        Self { place }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let key = self.place.idle.lock().add(true, self.place.end.clone());
        *self.place.key.lock() = Some(key);
    }
}
