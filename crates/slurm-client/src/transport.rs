//! Sends one request, and reads its answer piece by piece. Everything has a time limit.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::{Client as HttpClient, Error as HttpError};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use slurm::Secret;
use tokio::time::{Instant, timeout, timeout_at};

use crate::connect::{Connector, TlsError};
use crate::error::{Error, Stage};
use crate::server::Server;

const TOKEN_HEADER: &str = "x-slurm-user-token";
/// How long a connection is kept for the next request.
const KEEP_IDLE: Duration = Duration::from_secs(20);

/// How long a server may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// To accept a connection.
    pub connect: Duration,
    /// To begin an answer. slurmctld may be slow to write a long list.
    pub answer: Duration,
    /// Between two pieces of an answer.
    pub idle: Duration,
    /// For a whole call.
    pub call: Duration,
    /// For a whole call that answers with a list, which may be long.
    pub list: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            answer: Duration::from_secs(30),
            idle: Duration::from_secs(15),
            call: Duration::from_secs(30),
            list: Duration::from_secs(180),
        }
    }
}

/// The connections to one server.
#[derive(Debug)]
pub(crate) struct Transport {
    server: Server,
    timeouts: Timeouts,
    http: HttpClient<Connector, Full<Bytes>>,
    /// Never reuses a connection: a server may close an old one at the very moment of a request, and then nobody can
    /// tell whether the request was done.
    fresh: HttpClient<Connector, Full<Bytes>>,
}

/// What to send.
#[derive(Clone, Debug)]
pub(crate) struct Outgoing {
    pub(crate) method: Method,
    /// With its query.
    pub(crate) path: String,
    pub(crate) body: Option<Bytes>,
    /// On a connection of its own.
    pub(crate) fresh: bool,
    /// Whether the answer may be long.
    pub(crate) is_list: bool,
}

/// An answer whose body is still to be read.
pub(crate) struct Arriving<'a> {
    transport: &'a Transport,
    response: Response<Incoming>,
    deadline: Instant,
    limit: Duration,
}

impl Transport {
    pub(crate) fn new(server: Server, timeouts: Timeouts, extra_ca: Option<&[u8]>) -> Result<Self, TlsError> {
        let connector = Connector::new(server.target.clone(), extra_ca, timeouts.connect)?;
        let http = HttpClient::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(KEEP_IDLE)
            .build(connector.clone());
        let fresh = HttpClient::builder(TokioExecutor::new())
            .pool_max_idle_per_host(0)
            .retry_canceled_requests(false)
            .build(connector);
        Ok(Self { server, timeouts, http, fresh })
    }

    pub(crate) const fn server(&self) -> &Server {
        &self.server
    }

    /// Sends a request, and waits for the beginning of the answer.
    pub(crate) async fn send(&self, out: &Outgoing, token: &Secret) -> Result<Arriving<'_>, Error> {
        let limit = if out.is_list { self.timeouts.list } else { self.timeouts.call };
        let deadline = Instant::now() + limit;
        let request = self.request(out, token)?;
        let client = if out.fresh { &self.fresh } else { &self.http };
        // The connection has its own, shorter limit, and reports it as such.
        let answer_limit = self.timeouts.answer.max(self.timeouts.connect);
        let response = timeout(answer_limit.min(limit), client.request(request))
            .await
            .map_err(|_| self.late(Stage::Answer, answer_limit.min(limit)))?
            .map_err(|error| self.failed(&error))?;
        Ok(Arriving { transport: self, response, deadline, limit })
    }

    fn request(&self, out: &Outgoing, token: &Secret) -> Result<Request<Full<Bytes>>, Error> {
        let broken = |error: http::Error| Error::Unreachable {
            server: self.server.to_string(),
            reason: format!("the request cannot be written: {error}"),
        };
        // A scheme is needed, but the connector alone knows what it means.
        let uri = format!("http://{}{}{}", self.server.authority(), self.server.prefix, out.path);
        let mut token = HeaderValue::from_bytes(token.expose()).map_err(|error| broken(error.into()))?;
        token.set_sensitive(true);
        let mut request = Request::builder()
            .method(&out.method)
            .uri(uri)
            .header(TOKEN_HEADER, token)
            .header(http::header::ACCEPT, "application/json");
        if out.body.is_some() {
            request = request.header(http::header::CONTENT_TYPE, "application/json");
        }
        request.body(Full::new(out.body.clone().unwrap_or_default())).map_err(broken)
    }

    fn late(&self, stage: Stage, limit: Duration) -> Error {
        Error::Timeout { server: self.server.to_string(), stage, limit }
    }

    fn failed(&self, error: &HttpError) -> Error {
        let server = self.server.to_string();
        let reason = innermost(error);
        if !error.is_connect() {
            return Error::Interrupted { server, reason };
        }
        if is_timeout(error) {
            return self.late(Stage::Connect, self.timeouts.connect);
        }
        Error::Unreachable { server, reason }
    }
}

impl Arriving<'_> {
    pub(crate) fn status(&self) -> StatusCode {
        self.response.status()
    }

    /// The next piece of the body; none at its end.
    pub(crate) async fn piece(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            let (stage, limit) = if self.deadline <= Instant::now() + self.transport.timeouts.idle {
                (Stage::End, self.limit)
            } else {
                (Stage::Continue, self.transport.timeouts.idle)
            };
            let until = self.deadline.min(Instant::now() + self.transport.timeouts.idle);
            let frame = timeout_at(until, self.response.body_mut().frame())
                .await
                .map_err(|_| self.transport.late(stage, limit))?;
            let Some(frame) = frame else { return Ok(None) };
            let frame = frame.map_err(|error| Error::Interrupted {
                server: self.transport.server.to_string(),
                reason: innermost(&error),
            })?;
            // Anything else is a trailer, which slurmrestd does not send.
            if let Ok(data) = frame.into_data() {
                return Ok(Some(data));
            }
        }
    }

    /// The whole body, if it is no longer than `limit`.
    pub(crate) async fn body(mut self, limit: usize) -> Result<Vec<u8>, Error> {
        let mut body = Vec::new();
        while let Some(piece) = self.piece().await? {
            if body.len() + piece.len() > limit {
                return Err(Error::TooLong { server: self.transport.server.to_string(), limit });
            }
            body.extend_from_slice(&piece);
        }
        Ok(body)
    }
}

/// The cause of a failure, without the layers around it.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

fn is_timeout(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(io) = error.downcast_ref::<std::io::Error>()
            && io.kind() == std::io::ErrorKind::TimedOut
        {
            return true;
        }
        next = error.source();
    }
    false
}
