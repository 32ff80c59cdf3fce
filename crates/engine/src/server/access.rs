//! Who may read metrics: the API server says who a token belongs to (TokenReview), and whether that user may `get` the
//! path (SubjectAccessReview). Answers are kept for a short time.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use http::{HeaderMap, StatusCode, header};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::Client;
use kube::api::{Api, PostParams};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;

use crate::error::chain;

/// How long a caller who was let in stays so.
const ALLOWED_FOR: Duration = Duration::from_secs(30);
/// How long a caller who was turned away stays so: shorter, because somebody may just be giving the right.
const DENIED_FOR: Duration = Duration::from_secs(5);
/// Answers that are kept at most.
const MOST: usize = 1000;
/// Questions under way at most: whoever guesses tokens must not slow down the work.
const AT_ONCE: usize = 4;

/// Asks the API server about callers.
pub(super) struct Access {
    client: Client,
    path: &'static str,
    known: Mutex<HashMap<[u8; 32], (Instant, Verdict)>>,
    questions: Semaphore,
}

/// What became of a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Allowed,
    /// No token, or one that nobody knows.
    Unknown,
    /// A known user without the right.
    Forbidden(String),
}

impl Access {
    pub(super) fn new(client: Client, path: &'static str) -> Self {
        Self { client, path, known: Mutex::default(), questions: Semaphore::new(AT_ONCE) }
    }

    /// Lets a request in, or says with which status and words it is turned away.
    pub(super) async fn check(&self, headers: &HeaderMap) -> Result<(), (StatusCode, String)> {
        let Some(token) = bearer(headers) else {
            return Err((StatusCode::UNAUTHORIZED, "send a bearer token".into()));
        };
        // The token itself is not kept.
        let id: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        let verdict = match self.remembered(id) {
            Some(verdict) => verdict,
            None => {
                let verdict = self.ask(token).await.map_err(|error| {
                    tracing::warn!(error = %chain(&error), "cannot ask the API server about a caller of /metrics");
                    (StatusCode::SERVICE_UNAVAILABLE, "the API server cannot be asked who you are".into())
                })?;
                self.remember(id, verdict.clone());
                verdict
            }
        };
        match verdict {
            Verdict::Allowed => Ok(()),
            Verdict::Unknown => {
                Err((StatusCode::UNAUTHORIZED, "the API server does not know this token".into()))
            }
            Verdict::Forbidden(user) => {
                let path = self.path;
                let message = format!(
                    "{user} may not get {path}: give the right by a ClusterRole with nonResourceURLs"
                );
                Err((StatusCode::FORBIDDEN, message))
            }
        }
    }

    fn remembered(&self, id: [u8; 32]) -> Option<Verdict> {
        let known = self.known.lock();
        let (until, verdict) = known.get(&id)?;
        (Instant::now() < *until).then(|| verdict.clone())
    }

    fn remember(&self, id: [u8; 32], verdict: Verdict) {
        let now = Instant::now();
        let lasts = if verdict == Verdict::Allowed { ALLOWED_FOR } else { DENIED_FOR };
        let mut known = self.known.lock();
        if known.len() >= MOST {
            known.retain(|_, (until, _)| now < *until);
        }
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(id, (now + lasts, verdict));
    }

    async fn ask(&self, token: &str) -> Result<Verdict, kube::Error> {
        // Never closed.
        let _permit = self.questions.acquire().await;
        let review = TokenReview {
            spec: TokenReviewSpec { token: Some(token.to_string()), ..TokenReviewSpec::default() },
            ..TokenReview::default()
        };
        let review = Api::all(self.client.clone()).create(&PostParams::default(), &review).await?;
        let status = review.status.unwrap_or_default();
        match status.user {
            Some(user) if status.authenticated == Some(true) => self.ask_right(user).await,
            _ => Ok(Verdict::Unknown),
        }
    }

    async fn ask_right(&self, user: UserInfo) -> Result<Verdict, kube::Error> {
        let name = user.username.clone().unwrap_or_default();
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: user.username,
                uid: user.uid,
                groups: user.groups,
                extra: user.extra,
                non_resource_attributes: Some(NonResourceAttributes {
                    path: Some(self.path.into()),
                    verb: Some("get".into()),
                }),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let review = Api::all(self.client.clone()).create(&PostParams::default(), &review).await?;
        let allowed = review.status.is_some_and(|status| status.allowed && status.denied != Some(true));
        Ok(if allowed { Verdict::Allowed } else { Verdict::Forbidden(name) })
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    (scheme.eq_ignore_ascii_case("bearer") && !token.trim().is_empty()).then(|| token.trim())
}
