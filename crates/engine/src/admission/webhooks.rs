//! The webhooks of a process, by path, behind one HTTP handler.

use std::collections::BTreeMap;
use std::fmt::{self, Debug};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use bytes::{Bytes, BytesMut};
use futures::future::BoxFuture;
use http::{Method, StatusCode, header};
use http_body_util::BodyExt as _;
use kube::core::DynamicObject;
use kube::core::admission::AdmissionReview;

use super::metrics::AdmissionMetrics;
use super::review::{Decision, Request};
use crate::serve::Limits;

/// The version of reviews that we understand, and answer in.
const VERSION: &str = "admission.k8s.io/v1";

/// What becomes of a request whose handler panics or takes too long. It should be what the webhook's `failurePolicy` says:
/// `Fail` or `Ignore`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFailure {
    /// It is denied.
    Deny,
    /// It passes, with a warning.
    Allow,
}

#[derive(Clone)]
enum Handler {
    /// Decides by what it holds, on a thread of its own.
    Pure(Arc<dyn Fn(&Request) -> Decision + Send + Sync>),
    /// Asks others before it decides.
    Asking(Arc<dyn Fn(Arc<Request>) -> BoxFuture<'static, Decision> + Send + Sync>),
}

struct Webhook {
    on_failure: OnFailure,
    handler: Handler,
}

/// Handlers by path.
#[derive(Default)]
pub struct Webhooks {
    by_path: BTreeMap<String, Arc<Webhook>>,
}

impl Debug for Webhooks {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_set().entries(self.by_path.keys()).finish()
    }
}

impl Webhooks {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Serves `handler` at `path`, for example `/validate-slurm-nebius-ai-v1-slurmcluster`. A handler is pure: it decides
    /// by the request and by what it holds (a cache, say), and makes no calls.
    pub fn on(
        self,
        path: &str,
        on_failure: OnFailure,
        handler: impl Fn(&Request) -> Decision + Send + Sync + 'static,
    ) -> Self {
        self.with(path, on_failure, Handler::Pure(Arc::new(handler)))
    }

    /// Serves a handler that must ask others before it decides. It should give up in less than the webhook's
    /// `timeoutSeconds`, because it knows best what to tell the user then.
    pub fn on_asking<A>(
        self,
        path: &str,
        on_failure: OnFailure,
        handler: impl Fn(Arc<Request>) -> A + Send + Sync + 'static,
    ) -> Self
    where
        A: Future<Output = Decision> + Send + 'static,
    {
        let asking = Handler::Asking(Arc::new(move |request| Box::pin(handler(request))));
        self.with(path, on_failure, asking)
    }

    fn with(mut self, path: &str, on_failure: OnFailure, handler: Handler) -> Self {
        self.by_path.insert(path.into(), Arc::new(Webhook { on_failure, handler }));
        self
    }

    /// The HTTP service of all webhooks.
    pub(super) fn into_router(self, limits: Limits, metrics: AdmissionMetrics) -> Router {
        let shared = Shared { webhooks: self.by_path, limits, metrics };
        // By our own table: the router's would panic on a path that it takes for a bad pattern.
        Router::new().fallback(answer).with_state(Arc::new(shared))
    }
}

struct Shared {
    webhooks: BTreeMap<String, Arc<Webhook>>,
    limits: Limits,
    metrics: AdmissionMetrics,
}

/// Why there is no review to answer.
struct Refusal {
    status: StatusCode,
    result: &'static str,
    text: String,
}

async fn answer(State(shared): State<Arc<Shared>>, request: axum::extract::Request) -> Response {
    let path = request.uri().path().to_string();
    let Some(webhook) = shared.webhooks.get(&path) else {
        shared.metrics.count("unknown", "not_found");
        let known: Vec<&str> = shared.webhooks.keys().map(String::as_str).collect();
        let text = format!("no webhook is served at {path}; there are: {}\n", known.join(", "));
        return (StatusCode::NOT_FOUND, text).into_response();
    };
    let (result, response) = match review(&shared, webhook, &path, request).await {
        Ok(answered) => answered,
        Err(refusal) => {
            tracing::warn!(
                path,
                status = refusal.status.as_u16(),
                reason = refusal.text,
                "bad admission request"
            );
            (refusal.result, (refusal.status, refusal.text + "\n").into_response())
        }
    };
    shared.metrics.count(&path, result);
    response
}

async fn review(
    shared: &Shared,
    webhook: &Webhook,
    path: &str,
    request: axum::extract::Request,
) -> Result<(&'static str, Response), Refusal> {
    if request.method() != Method::POST {
        let text = "send an AdmissionReview by POST".to_string();
        return Err(Refusal { status: StatusCode::METHOD_NOT_ALLOWED, result: "bad_method", text });
    }
    let limits = &shared.limits;
    let read = tokio::time::timeout(limits.body, whole(request.into_body(), limits.max_body)).await;
    let body = read.unwrap_or_else(|_| {
        let text = format!("the body did not come within {} s", limits.body.as_secs_f32());
        Err(Refusal { status: StatusCode::REQUEST_TIMEOUT, result: "slow_body", text })
    })?;
    // Megabytes of JSON take their time: not on a thread that others wait for.
    let parsed = tokio::task::spawn_blocking(move || parse(&body)).await;
    let request = parsed.unwrap_or_else(|error| Err(bad(format!("the body cannot be read: {error}"))))?;

    let request = Arc::new(request);
    let (decision, result) = decide(webhook, &request, path, limits.handler).await;
    let response = decision.into_response(&request).map_err(|error| Refusal {
        status: StatusCode::INTERNAL_SERVER_ERROR,
        result: "error",
        text: format!("the patch cannot be written as JSON: {error}"),
    })?;
    let json = serde_json::to_vec(&response.into_review()).map_err(|error| Refusal {
        status: StatusCode::INTERNAL_SERVER_ERROR,
        result: "error",
        text: format!("the answer cannot be written as JSON: {error}"),
    })?;
    Ok((result, ([(header::CONTENT_TYPE, "application/json")], json).into_response()))
}

/// Asks the handler, and stands in for it if it fails. Returns the decision and the word for metrics.
async fn decide(
    webhook: &Webhook,
    request: &Arc<Request>,
    path: &str,
    limit: Duration,
) -> (Decision, &'static str) {
    let asked = Arc::clone(request);
    // Both on a task of their own, so that a panic ends nothing else.
    let mut task = match webhook.handler.clone() {
        Handler::Pure(decide) => tokio::task::spawn_blocking(move || decide(&asked)),
        Handler::Asking(ask) => tokio::spawn(async move { ask(asked).await }),
    };
    let ended = tokio::time::timeout(limit, &mut task).await;
    task.abort();
    let (result, what) = match ended {
        Ok(Ok(decision)) => {
            let result = decision.result();
            return (decision, result);
        }
        Ok(Err(_)) => ("panic", "failed by an error of its own"),
        Err(_) => ("timeout", "took too long"),
    };
    tracing::error!(path, uid = request.uid, result, "an admission handler failed");
    let text = format!("the check at {path} {what}; the log of the admission server tells more");
    let decision = match webhook.on_failure {
        OnFailure::Deny => Decision::deny(text).with_code(500),
        OnFailure::Allow => Decision::allow().warn(text),
    };
    (decision, result)
}

fn bad(text: String) -> Refusal {
    Refusal { status: StatusCode::BAD_REQUEST, result: "bad_request", text }
}

fn parse(body: &[u8]) -> Result<Request, Refusal> {
    let review: AdmissionReview<DynamicObject> = serde_json::from_slice(body)
        .map_err(|error| bad(format!("the body is no AdmissionReview of {VERSION}: {error}")))?;
    let version = &review.types.api_version;
    if version != VERSION {
        let text = format!(
            "the AdmissionReview is of {version}, and only {VERSION} is answered; set admissionReviewVersions: [v1]"
        );
        return Err(bad(text));
    }
    review.try_into().map_err(|_| bad("the AdmissionReview has no request".into()))
}

/// Reads a body that is not too large. Of one that is, some more is read and thrown away: a client that is cut off while it
/// still writes would not see our answer.
async fn whole(mut body: Body, max: usize) -> Result<Bytes, Refusal> {
    let mut read = 0;
    let mut kept = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| bad(format!("the body ended early: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        read += data.len();
        if read <= max {
            kept.extend_from_slice(&data);
        } else if read > max.saturating_mul(4) {
            break;
        }
    }
    if read > max {
        let text = format!("the body is larger than {max} bytes");
        return Err(Refusal { status: StatusCode::PAYLOAD_TOO_LARGE, result: "too_large", text });
    }
    Ok(kept.freeze())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tower::ServiceExt as _;

    use super::super::review::tests::request;
    use super::*;

    fn webhooks() -> (Router, AdmissionMetrics) {
        let metrics = AdmissionMetrics::default();
        let limits = Limits { max_body: 2000, handler: Duration::from_secs(60), ..Limits::default() };
        let webhooks = Webhooks::new()
            .on("/deny", OnFailure::Deny, |_| Decision::deny("no"))
            .on("/panic-deny", OnFailure::Deny, |_| panic!("on purpose"))
            .on("/panic-allow", OnFailure::Allow, |_| panic!("on purpose"));
        (webhooks.into_router(limits, metrics.clone()), metrics)
    }

    async fn post(router: &Router, path: &str, body: impl Into<Body>) -> (u16, String) {
        let request = http::Request::post(path).body(body.into()).unwrap();
        let response = router.clone().oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    fn review_body() -> String {
        let request = serde_json::to_value(request()).unwrap();
        json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request })
            .to_string()
    }

    #[tokio::test]
    async fn a_review_is_answered_as_a_review() {
        let (router, metrics) = webhooks();
        let (status, body) = post(&router, "/deny", review_body()).await;
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((status, &body["kind"]), (200, &json!("AdmissionReview")));
        assert_eq!(body["response"]["uid"], "u-1");
        assert_eq!(body["response"]["allowed"], false);
        assert_eq!(metrics.requests("/deny", "denied"), 1);
    }

    #[tokio::test]
    async fn a_panic_is_answered_by_policy() {
        let (router, metrics) = webhooks();
        for (path, allowed) in [("/panic-deny", false), ("/panic-allow", true)] {
            let (status, body) = post(&router, path, review_body()).await;
            let body: Value = serde_json::from_str(&body).unwrap();
            assert_eq!((status, &body["response"]["allowed"]), (200, &json!(allowed)), "{path}");
            assert!(body.to_string().contains(path), "the user learns which check failed: {body}");
            assert_eq!(metrics.requests(path, "panic"), 1);
        }
    }

    #[tokio::test]
    async fn a_handler_that_hangs_is_answered_by_policy() {
        let (_, metrics) = webhooks();
        let limits = Limits { handler: Duration::from_millis(20), ..Limits::default() };
        // It hangs until the test has its answer, however slow the machine is.
        let (answered, hangs) = std::sync::mpsc::channel::<()>();
        let hangs = std::sync::Mutex::new(hangs);
        let router = Webhooks::new()
            .on("/hangs", OnFailure::Deny, move |_| {
                let _ = hangs.lock().unwrap().recv();
                Decision::allow()
            })
            .into_router(limits, metrics.clone());
        let (status, body) = post(&router, "/hangs", review_body()).await;
        drop(answered);
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((status, &body["response"]["allowed"]), (200, &json!(false)));
        assert!(body.to_string().contains("/hangs"), "the user learns which check failed: {body}");
        assert_eq!(metrics.requests("/hangs", "timeout"), 1);
    }

    fn fails() -> Decision {
        panic!("on purpose")
    }

    #[tokio::test]
    async fn a_handler_that_asks_others_is_waited_for_and_given_up_as_any_other() {
        let (_, metrics) = webhooks();
        let limits = Limits { handler: Duration::from_millis(200), ..Limits::default() };
        let (ended, mut is_ended) = tokio::sync::mpsc::channel::<()>(1);
        let router = Webhooks::new()
            .on_asking("/asks", OnFailure::Deny, |request: Arc<Request>| async move {
                tokio::task::yield_now().await;
                Decision::deny(format!("no {}", request.uid))
            })
            .on_asking("/panic", OnFailure::Allow, |_| async { fails() })
            .on_asking("/hangs", OnFailure::Deny, move |_| {
                let ended = ended.clone();
                async move {
                    let _held = ended;
                    std::future::pending::<Decision>().await
                }
            })
            .into_router(limits, metrics.clone());
        let (status, body) = post(&router, "/asks", review_body()).await;
        assert!(status == 200 && body.contains("no u-1"), "{body}");
        let (_, body) = post(&router, "/panic", review_body()).await;
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(body["response"]["allowed"], json!(true));
        let (_, body) = post(&router, "/hangs", review_body()).await;
        assert!(body.contains("took too long"), "{body}");
        assert_eq!(metrics.requests("/hangs", "timeout"), 1);
        drop(router);
        // Who is given up does not go on in the dark.
        assert_eq!(is_ended.recv().await, None);
    }

    #[tokio::test]
    async fn what_is_no_review_gets_a_clear_answer() {
        let (router, metrics) = webhooks();
        let (status, body) = post(&router, "/deny", "{\"kind\": ").await;
        assert_eq!(status, 400);
        assert!(body.contains("no AdmissionReview") && body.contains("line 1"), "{body}");
        let empty = r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}"#;
        let (status, body) = post(&router, "/deny", empty).await;
        assert_eq!((status, body.as_str()), (400, "the AdmissionReview has no request\n"));
        let old = review_body().replace("admission.k8s.io/v1", "admission.k8s.io/v1beta1");
        let (status, body) = post(&router, "/deny", old).await;
        assert_eq!(status, 400);
        assert!(
            body.contains("of admission.k8s.io/v1beta1") && body.contains("only admission.k8s.io/v1 "),
            "{body}"
        );
        let (status, body) = post(&router, "/deny", "x".repeat(2001)).await;
        assert_eq!((status, body.as_str()), (413, "the body is larger than 2000 bytes\n"));
        let (status, body) = post(&router, "/elsewhere", "").await;
        assert_eq!(status, 404);
        assert!(body.contains("/deny, "), "{body}");
        let get = router.clone().oneshot(http::Request::get("/deny").body(Body::empty()).unwrap()).await;
        assert_eq!(get.unwrap().status(), 405);
        assert_eq!(metrics.requests("/deny", "too_large"), 1);
        assert_eq!(metrics.requests("unknown", "not_found"), 1);
    }

    #[tokio::test]
    async fn a_body_that_never_ends_is_given_up() {
        let (_, metrics) = webhooks();
        let limits = Limits { body: Duration::from_millis(20), ..Limits::default() };
        let router =
            Webhooks::new().on("/a", OnFailure::Deny, |_| Decision::allow()).into_router(limits, metrics);
        let endless = futures::stream::pending::<Result<Bytes, std::io::Error>>();
        let (status, body) = post(&router, "/a", Body::from_stream(endless)).await;
        assert_eq!(status, 408, "{body}");
    }
}
