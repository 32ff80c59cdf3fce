//! Which calls may be sent again, when, and how often.

use std::time::{Duration, Instant};

use http::{HeaderMap, Request, StatusCode, header};
use http_body::Body as _;
use kube::client::Body;
use serde::Deserialize;

use super::call::{Call, Verb};

/// How often and how patiently calls are repeated.
#[derive(Clone, Copy, Debug)]
pub struct RetryPolicy {
    /// How often a call is sent at most.
    pub tries: u32,
    /// The wait before the second try; it doubles with each one.
    pub first_wait: Duration,
    /// No wait is longer, whatever the server asks for: the caller has its own backoff.
    pub longest_wait: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { tries: 3, first_wait: Duration::from_millis(200), longest_wait: Duration::from_secs(2) }
    }
}

impl RetryPolicy {
    /// The wait before try number `next` (2 is the first repetition); none if there is none.
    ///
    /// `jitter` is random in 0..1.
    pub fn wait_before(&self, next: u32, asked: Option<Duration>, jitter: f64) -> Option<Duration> {
        if next > self.tries {
            return None;
        }
        let doubled = self.first_wait.saturating_mul(1 << (next.saturating_sub(2)).min(16));
        let wait = asked.unwrap_or(Duration::ZERO).max(doubled.mul_f64(0.5 + jitter));
        // More than we are ready to wait: the caller learns of it instead.
        (asked.unwrap_or(Duration::ZERO) <= self.longest_wait).then_some(wait.min(self.longest_wait))
    }
}

/// In the extensions of a request: what it is based on holds only for a moment. It is sent once, and not at all after this time.
#[derive(Clone, Copy, Debug)]
pub struct SendBefore(pub Instant);

/// The moment after which the request must not be sent any more; none if it may wait.
pub fn send_before(request: &Request<Body>) -> Option<Instant> {
    request.extensions().get().map(|SendBefore(time)| *time)
}

/// Whether sending this a second time, after the first may have been carried out, does no harm.
///
/// A POST could make two objects, and a replace or JSON patch that did its work would look like a conflict. A delete is
/// safe only if it names the uid: otherwise it could hit the successor of the object that was meant. And what holds only for a
/// moment may be wrong by then.
pub fn may_repeat(call: &Call, request: &Request<Body>) -> bool {
    if send_before(request).is_some() {
        return false;
    }
    match call.verb {
        Verb::Get | Verb::List | Verb::Apply => true,
        Verb::Delete => names_uid(request.body()),
        Verb::Watch | Verb::Create | Verb::Update | Verb::Patch | Verb::DeleteCollection | Verb::Connect => {
            false
        }
    }
}

#[derive(Deserialize)]
struct DeleteOptions {
    preconditions: Option<Preconditions>,
}

#[derive(Deserialize)]
struct Preconditions {
    uid: Option<String>,
}

fn names_uid(body: &Body) -> bool {
    let Some(copy) = body.try_clone() else { return false };
    if copy.is_end_stream() {
        return false;
    }
    let mut copy = copy;
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let std::task::Poll::Ready(Some(Ok(frame))) = std::pin::Pin::new(&mut copy).poll_frame(&mut context)
    else {
        return false;
    };
    frame
        .into_data()
        .ok()
        .and_then(|bytes| serde_json::from_slice::<DeleteOptions>(&bytes).ok())
        .and_then(|options| options.preconditions)
        .is_some_and(|preconditions| preconditions.uid.is_some())
}

/// Whether a status says that the server could not do it now, not that the request is wrong.
pub fn is_passing(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::TOO_MANY_REQUESTS
            | StatusCode::INTERNAL_SERVER_ERROR
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT
    )
}

/// How long the server asks us to wait, in the form it uses (seconds).
pub fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: &str, uri: &str, content_type: &str, body: &str) -> bool {
        let request = Request::builder()
            .method(method)
            .uri(uri)
            .header(header::CONTENT_TYPE, content_type)
            .body(Body::from(body.as_bytes().to_vec()))
            .unwrap();
        may_repeat(&Call::of(&request), &request)
    }

    #[test]
    fn only_harmless_calls_are_repeated() {
        let (pods, pod) = ("/api/v1/namespaces/a/pods", "/api/v1/namespaces/a/pods/p");
        let json = "application/json";
        assert!(request("GET", pods, json, ""));
        assert!(request("PATCH", pod, "application/apply-patch+yaml", "{}"));
        assert!(request("DELETE", pod, json, r#"{"preconditions":{"uid":"u"}}"#));
        assert!(!request("DELETE", pod, json, r#"{"preconditions":{"resourceVersion":"1"}}"#), "no uid");
        assert!(!request("DELETE", pod, json, ""), "no preconditions");
        assert!(!request("DELETE", pods, json, r#"{"preconditions":{"uid":"u"}}"#), "a collection");
        assert!(!request("POST", pods, json, "{}"));
        assert!(!request("PUT", pod, json, "{}"));
        assert!(!request("PATCH", pod, "application/merge-patch+json", "{}"));
        assert!(!request("GET", "/api/v1/pods?watch=true", json, ""));
    }

    #[test]
    fn what_holds_for_a_moment_is_not_repeated() {
        let body = br#"{"preconditions":{"uid":"u"}}"#.to_vec();
        let request = |extension: Option<SendBefore>| {
            let mut request =
                Request::delete("/api/v1/namespaces/a/pods/p").body(Body::from(body.clone())).unwrap();
            extension.map(|extension| request.extensions_mut().insert(extension));
            may_repeat(&Call::of(&request), &request)
        };
        assert!(request(None));
        assert!(!request(Some(SendBefore(Instant::now() + Duration::from_secs(60)))));
    }

    #[test]
    fn waits_grow_are_bounded_and_end() {
        let policy = RetryPolicy::default();
        let ms = |wait: Option<Duration>| wait.map(|wait| wait.as_millis());
        assert_eq!(ms(policy.wait_before(2, None, 0.5)), Some(200));
        assert_eq!(ms(policy.wait_before(3, None, 0.5)), Some(400));
        assert_eq!(policy.wait_before(4, None, 0.5), None, "three tries");
        assert_eq!(ms(policy.wait_before(2, Some(Duration::from_secs(1)), 0.5)), Some(1000));
        assert_eq!(policy.wait_before(2, Some(Duration::from_secs(60)), 0.5), None, "longer than we wait");
    }
}
