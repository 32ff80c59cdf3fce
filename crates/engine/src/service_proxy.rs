//! A way to a Service of the cluster from outside it: through the API server, by the rights of whoever runs the program.
//!
//! It listens on a Unix socket and passes each HTTP request on, so that any HTTP client can use it.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::net::UnixListener;
use tokio::task::AbortHandle;

use crate::client::BoxError;
use crate::error::chain;
use crate::key::Key;

/// Longest answer of the API server that is searched for a reason.
const REASON_LIMIT: usize = 64 * 1024;

/// Passes requests on while it lives.
#[derive(Debug)]
pub struct ServiceProxy {
    socket: PathBuf,
    refusal: Arc<Mutex<Option<String>>>,
    task: AbortHandle,
}

impl ServiceProxy {
    /// Listens on `socket`, a path that nobody uses and that others cannot reach, for requests to a port of a Service.
    pub fn start(client: Client, service: &Key, port: u16, socket: &Path) -> std::io::Result<Self> {
        let listener = UnixListener::bind(socket)?;
        let refusal = Arc::new(Mutex::new(None));
        let passage = Passage {
            client,
            prefix: format!(
                "/api/v1/namespaces/{}/services/http:{}:{port}/proxy",
                service.namespace, service.name
            ),
            refusal: Arc::clone(&refusal),
        };
        let task = tokio::spawn(serve(listener, passage)).abort_handle();
        Ok(Self { socket: socket.into(), refusal, task })
    }

    /// Where it listens.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// What the API server said when it last did not pass a request on.
    pub fn refusal(&self) -> Option<String> {
        self.refusal.lock().clone()
    }
}

impl Drop for ServiceProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[derive(Clone)]
struct Passage {
    client: Client,
    prefix: String,
    refusal: Arc<Mutex<Option<String>>>,
}

async fn serve(listener: UnixListener, passage: Passage) {
    while let Ok((stream, _)) = listener.accept().await {
        let passage = passage.clone();
        tokio::spawn(async move {
            let pass = service_fn(move |request| {
                let passage = passage.clone();
                async move { Ok::<_, Infallible>(passage.pass(request).await) }
            });
            // The client sees a broken connection itself.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), pass).await;
        });
    }
}

type AnswerBody = UnsyncBoxBody<Bytes, BoxError>;

impl Passage {
    async fn pass(&self, request: Request<Incoming>) -> Response<AnswerBody> {
        match self.send(request).await {
            Ok(answer) => answer,
            Err(reason) => {
                *self.refusal.lock() = Some(reason.clone());
                let mut answer = Response::new(whole(reason.into()));
                *answer.status_mut() = StatusCode::BAD_GATEWAY;
                answer
            }
        }
    }

    async fn send(&self, request: Request<Incoming>) -> Result<Response<AnswerBody>, String> {
        let (mut parts, body) = request.into_parts();
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        parts.uri = format!("{}{path}", self.prefix).parse().map_err(|error| format!("{error}"))?;
        // These were about the socket.
        parts.headers.remove(header::HOST);
        parts.headers.remove(header::CONNECTION);
        let body = body.collect().await.map_err(|error| chain(&error))?.to_bytes();
        let request = Request::from_parts(parts, Body::from(body.to_vec()));
        let answer = self.client.send(request).await.map_err(|error| chain(&error))?;
        if answer.status().is_success() {
            return Ok(answer.map(|body| body.map_err(BoxError::from).boxed_unsync()));
        }
        let (parts, body) = answer.into_parts();
        let body = body.collect().await.map_err(|error| chain(&error))?.to_bytes();
        if let Some(reason) = refusal(&body) {
            return Err(reason);
        }
        Ok(Response::from_parts(parts, whole(body)))
    }
}

fn whole(bytes: Bytes) -> AnswerBody {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

/// Why the API server itself refused, if the answer is its own.
fn refusal(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Status {
        kind: String,
        message: String,
    }
    if body.len() > REASON_LIMIT {
        return None;
    }
    let status: Status = serde_json::from_slice(body).ok()?;
    (status.kind == "Status").then_some(status.message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_api_servers_own_answers_are_refusals() {
        let own = br#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no endpoints available","code":503}"#;
        assert_eq!(refusal(own).as_deref(), Some("no endpoints available"));
        assert_eq!(refusal(br#"{"errors":[{"description":"x"}]}"#), None);
        assert_eq!(refusal(b"Authentication failure"), None);
    }
}
