//! Faults at chosen writes and watch events.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Request, StatusCode, header};
use http_body_util::BodyExt as _;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::watch::{self, WatchFault};
use crate::client::{Answer, Call, Interceptor, Next, Verb, answer};

/// What goes wrong with a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The server answers with this status and does nothing.
    Fail(u16),
    /// The server does it, and answers with this status nevertheless.
    FailAfterCommit(u16),
    /// The connection breaks before the server sees the call.
    Drop,
    /// The server does it, and the connection breaks before the answer.
    DropAfterCommit,
    /// The call takes this long.
    Delay(Duration),
    /// The process ends before the call.
    Crash,
    /// The process ends when the call is done.
    CrashAfterCommit,
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fail(code) => write!(out, "fail-{code}"),
            Self::FailAfterCommit(code) => write!(out, "commit-then-{code}"),
            Self::Drop => out.write_str("drop"),
            Self::DropAfterCommit => out.write_str("commit-then-drop"),
            Self::Delay(time) => write!(out, "delay-{}ms", time.as_millis()),
            Self::Crash => out.write_str("crash"),
            Self::CrashAfterCommit => out.write_str("commit-then-crash"),
        }
    }
}

/// Which faults happen where.
#[derive(Clone, Debug, Default)]
pub struct Schedule {
    /// By the number of the write, from 1. Only its first try: a repetition goes through.
    pub writes: BTreeMap<usize, Fault>,
    /// By kind (plural): the number of the event of that kind, from 1, and what happens to it.
    pub watches: BTreeMap<String, (usize, WatchFault)>,
}

/// One write that reached the injector.
#[derive(Clone, Debug)]
pub struct Write {
    /// What was written.
    pub call: Call,
    /// The JSON that was sent.
    pub body: Value,
    /// The status of the answer that the *server* gave; none if the call did not reach it.
    pub status: Option<u16>,
}

type Monitor = Box<dyn Fn(&[Write]) -> Result<(), String> + Send + Sync>;

/// Sits in the client and lets faults happen. Leases and events are left alone: they are not part of the result.
pub struct Injector {
    schedule: Schedule,
    writes: Mutex<Vec<Write>>,
    monitors: Vec<Monitor>,
    violations: Mutex<Vec<String>>,
    crashed: CancellationToken,
    watch_events: Arc<Mutex<BTreeMap<String, usize>>>,
}

impl fmt::Debug for Injector {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Injector").field("schedule", &self.schedule).finish_non_exhaustive()
    }
}

impl Injector {
    /// An injector of these faults.
    pub fn new(schedule: Schedule) -> Self {
        Self {
            schedule,
            writes: Mutex::default(),
            monitors: Vec::new(),
            violations: Mutex::default(),
            crashed: CancellationToken::new(),
            watch_events: Arc::default(),
        }
    }

    /// Checks something after each write; what it says against is told by [`Injector::violations`].
    pub fn with_monitor(
        mut self,
        monitor: impl Fn(&[Write]) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.monitors.push(Box::new(monitor));
        self
    }

    /// The writes so far.
    pub fn writes(&self) -> Vec<Write> {
        self.writes.lock().clone()
    }

    /// How many events of each kind passed.
    pub fn watch_events(&self) -> BTreeMap<String, usize> {
        self.watch_events.lock().clone()
    }

    /// What monitors said against writes.
    pub fn violations(&self) -> Vec<String> {
        self.violations.lock().clone()
    }

    /// Cancelled when a crash was due: the test then ends the controller. No call gets through any more.
    pub fn crashed(&self) -> CancellationToken {
        self.crashed.clone()
    }

    /// Counts the events of a kind, and tells the fault of each.
    fn watch_faults(&self, resource: &str) -> impl Fn() -> Option<WatchFault> + Send + Sync + 'static {
        let (events, resource) = (Arc::clone(&self.watch_events), resource.to_string());
        let fault = self.schedule.watches.get(&resource).copied();
        move || {
            let mut events = events.lock();
            let number = events.entry(resource.clone()).or_default();
            *number += 1;
            fault.filter(|(at, _)| at == number).map(|(_, fault)| fault)
        }
    }

    async fn write(&self, call: &Call, request: Request<Body>, next: Next) -> Answer {
        let (parts, body) = request.into_parts();
        let bytes = body.collect().await?.to_bytes();
        let number = {
            let mut writes = self.writes.lock();
            let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
            writes.push(Write { call: call.clone(), body, status: None });
            writes.len()
        };
        let request = Request::from_parts(parts, Body::from(bytes));
        let fault = self.schedule.writes.get(&number).copied();
        match fault {
            Some(Fault::Fail(code)) => return Ok(failure(code)),
            Some(Fault::Drop) => return Err("the connection broke (on purpose)".into()),
            Some(Fault::Crash) => return self.crash().await,
            Some(Fault::Delay(time)) => tokio::time::sleep(time).await,
            Some(Fault::FailAfterCommit(_) | Fault::DropAfterCommit | Fault::CrashAfterCommit) | None => {}
        }
        let result = next.send(request).await;
        self.note(number, result.as_ref().ok().map(|response| response.status().as_u16()));
        match fault {
            Some(Fault::FailAfterCommit(code)) => Ok(failure(code)),
            Some(Fault::DropAfterCommit) => Err("the connection broke (on purpose)".into()),
            Some(Fault::CrashAfterCommit) => self.crash().await,
            _ => result,
        }
    }

    fn note(&self, number: usize, status: Option<u16>) {
        let writes = {
            let mut writes = self.writes.lock();
            if let Some(write) = writes.get_mut(number - 1) {
                write.status = status;
            }
            writes.clone()
        };
        let found = self.monitors.iter().filter_map(|monitor| monitor(&writes).err());
        self.violations.lock().extend(found);
    }

    async fn crash(&self) -> Answer {
        self.crashed.cancel();
        std::future::pending().await
    }
}

impl Interceptor for Injector {
    fn intercept<'a>(&'a self, call: &'a Call, request: Request<Body>, next: Next) -> BoxFuture<'a, Answer> {
        async move {
            if self.crashed.is_cancelled() {
                return self.crash().await;
            }
            if matches!(call.resource.as_str(), "leases" | "events") {
                return next.send(request).await;
            }
            if call.verb == Verb::Watch {
                return Ok(watch::tamper(next.send(request).await?, self.watch_faults(&call.resource)));
            }
            if call.verb.writes() { self.write(call, request, next).await } else { next.send(request).await }
        }
        .boxed()
    }
}

/// An error as the API server writes it.
fn failure(code: u16) -> http::Response<crate::client::AnswerBody> {
    let reason = match code {
        409 => "Conflict",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "InternalError",
    };
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "a fault on purpose", "reason": reason, "code": code,
    });
    let status = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = answer(status, body.to_string());
    if code == 429 {
        response.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from_static("1"));
    }
    response
}
