//! The layers, as one tower service around kube's own stack.

use std::fmt::{self, Debug};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use kube::client::Body;
use tower::buffer::Buffer;
use tower::{Layer, Service, ServiceExt as _};

use super::call::{Call, Verb};
use super::limit::{Priority, PriorityLimit};
use super::{Options, WriteGate, retry};

/// An error of any kind, as tower passes it on.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
/// The body of an answer, whole or as a stream.
pub type AnswerBody = UnsyncBoxBody<Bytes, BoxError>;
/// What a call leads to.
pub type Answer = Result<Response<AnswerBody>, BoxError>;

/// Why a call failed before or without an answer.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The API server did not answer in time.
    #[error("{call}: no answer from the API server within {} s", after.as_secs_f32())]
    Timeout {
        /// What was asked.
        call: String,
        /// How long we waited.
        after: Duration,
    },
    /// It had to wait for other calls until what it is based on did not hold any more.
    #[error("{call}: not sent, because it had to wait for too long")]
    TooLate {
        /// What was to be done.
        call: String,
    },
    /// This process is not the leader (any more).
    #[error("{call}: not sent or broken off, because this process does not hold the lease")]
    NotLeader {
        /// What was to be written.
        call: String,
    },
}

/// Sees every try of every call, and may change what becomes of it.
pub trait Interceptor: Debug + Send + Sync {
    /// Passes the call on, or not.
    fn intercept<'a>(&'a self, call: &'a Call, request: Request<Body>, next: Next) -> BoxFuture<'a, Answer>;
}

/// The rest of the way to the API server.
pub struct Next {
    inner: Inner,
}

impl Next {
    /// Sends the request.
    pub fn send(self, request: Request<Body>) -> BoxFuture<'static, Answer> {
        self.inner.oneshot(request).boxed()
    }
}

impl Debug for Next {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Next")
    }
}

/// An answer that is made here instead of by the server.
pub fn answer(status: StatusCode, body: impl Into<Bytes>) -> Response<AnswerBody> {
    let mut response = Response::new(whole(body.into()));
    *response.status_mut() = status;
    response
}

fn whole(bytes: Bytes) -> AnswerBody {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

type Inner = Buffer<Request<Body>, BoxFuture<'static, Answer>>;

pub(super) struct EngineLayer {
    options: Arc<Options>,
    limit: PriorityLimit,
}

impl EngineLayer {
    pub(super) fn new(options: Options) -> Self {
        let limit = PriorityLimit::new(options.max_in_flight);
        Self { options: Arc::new(options), limit }
    }
}

impl<S, B> Layer<S> for EngineLayer
where
    S: Service<Request<Body>, Response = Response<B>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Service = EngineService;

    fn layer(&self, inner: S) -> EngineService {
        let inner = inner.map_err(Into::into).map_future(|sent| {
            async move {
                match sent.await {
                    Ok(response) => {
                        let response: Response<B> = response;
                        Ok(response.map(|body| body.map_err(Into::into).boxed_unsync()))
                    }
                    Err(error) => Err(error),
                }
            }
            .boxed()
        });
        EngineService {
            // kube's stack cannot be cloned, and repeating needs a second handle on it.
            inner: Buffer::new(inner, 1024),
            options: Arc::clone(&self.options),
            limit: self.limit.clone(),
        }
    }
}

#[derive(Clone)]
pub(super) struct EngineService {
    inner: Inner,
    options: Arc<Options>,
    limit: PriorityLimit,
}

impl Service<Request<Body>> for EngineService {
    type Response = Response<AnswerBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Answer>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        // Whoever has to wait does so for a permit, with its priority.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let service = self.clone();
        async move {
            let call = Call::of(&request);
            match call.verb {
                Verb::Watch => service.watch(&call, request).await,
                Verb::Connect => service.attempt(&call, request).await,
                _ => service.repeat(&call, request).await,
            }
        }
        .boxed()
    }
}

impl EngineService {
    /// Tries until there is an answer that will not get better, or no try is left.
    async fn repeat(&self, call: &Call, request: Request<Body>) -> Answer {
        let repeatable = retry::may_repeat(call, &request);
        let mut tries = 1;
        let mut next = Some(request);
        loop {
            let Some(request) = next.take() else { return Err("a call that cannot be repeated was".into()) };
            next = if repeatable { copy(&request) } else { None };
            let result = self.bounded(call, request).await;
            let asked = match &result {
                Ok(response) if retry::is_passing(response.status()) => {
                    retry::retry_after(response.headers())
                }
                Ok(_) => return result,
                Err(error) if error.is::<CallError>() && !is_timeout(error) => return result,
                Err(_) => None,
            };
            tries += 1;
            let wait = self.options.retry.wait_before(tries, asked, rand::random());
            match (&next, wait) {
                (Some(_), Some(wait)) => tokio::time::sleep(wait).await,
                _ => return result,
            }
        }
    }

    /// A watch that ends when nothing comes for too long, be it before its head or after.
    async fn watch(&self, call: &Call, request: Request<Body>) -> Answer {
        let Options { watches, metrics, watch_silence: limit, .. } = &*self.options;
        let session = watches.begin(call, request.uri(), metrics, *limit);
        match tokio::time::timeout(*limit, self.attempt(call, request)).await {
            Ok(Ok(response)) if response.status().is_success() => {
                Ok(response.map(|body| session.guard(body)))
            }
            Ok(other) => {
                session.heard();
                other
            }
            Err(_) => {
                metrics.count(call, "timeout");
                session.unanswered();
                Err(CallError::Timeout { call: call.to_string(), after: *limit }.into())
            }
        }
    }

    /// One try with a permit and within the time limit, up to the last byte of the answer.
    async fn bounded(&self, call: &Call, request: Request<Body>) -> Answer {
        let _permit = self.limit.acquire(Priority::of(call)).await;
        if retry::send_before(&request).is_some_and(|time| time <= Instant::now()) {
            return Err(CallError::TooLate { call: call.to_string() }.into());
        }
        let limit = if call.verb == Verb::List { self.options.list_timeout } else { self.options.timeout };
        match tokio::time::timeout(limit, self.attempt_whole(call, request)).await {
            Ok(result) => result,
            Err(_) => {
                self.options.metrics.count(call, "timeout");
                Err(CallError::Timeout { call: call.to_string(), after: limit }.into())
            }
        }
    }

    /// One try, up to the last byte of the answer.
    async fn attempt_whole(&self, call: &Call, request: Request<Body>) -> Answer {
        let (parts, body) = match self.attempt(call, request).await {
            Ok(response) => response.into_parts(),
            Err(error) => return Err(error),
        };
        match body.collect().await {
            Ok(collected) => Ok(Response::from_parts(parts, whole(collected.to_bytes()))),
            Err(error) => Err(error),
        }
    }

    /// One try, up to the head of the answer.
    async fn attempt(&self, call: &Call, request: Request<Body>) -> Answer {
        let next = Next { inner: self.inner.clone() };
        let sent = async {
            match &self.options.interceptor {
                Some(interceptor) => interceptor.intercept(call, request, next).await,
                None => next.send(request).await,
            }
        };
        let result = match self.options.gate.as_deref().filter(|_| call.needs_leadership()) {
            None => sent.await,
            // Asked first, and watched until the answer comes: a write that hangs over the end of our claim is broken off.
            Some(gate) => tokio::select! {
                biased;
                () = closed(gate) => return Err(CallError::NotLeader { call: call.to_string() }.into()),
                result = sent => result,
            },
        };
        match &result {
            Ok(response) => self.options.metrics.count(call, response.status().as_str()),
            Err(_) => self.options.metrics.count(call, "unreachable"),
        }
        result
    }
}

/// Ends when the gate lets no write through any more.
async fn closed(gate: &dyn WriteGate) {
    while let Some(until) = gate.may_write_until() {
        if until <= Instant::now() {
            return;
        }
        tokio::time::sleep_until(until.into()).await;
    }
}

fn is_timeout(error: &BoxError) -> bool {
    matches!(error.downcast_ref(), Some(CallError::Timeout { .. }))
}

fn copy(request: &Request<Body>) -> Option<Request<Body>> {
    let mut copy = Request::new(request.body().try_clone()?);
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.version_mut() = request.version();
    *copy.headers_mut() = request.headers().clone();
    *copy.extensions_mut() = request.extensions().clone();
    Some(copy)
}
