//! Watches that have fallen silent: a connection that is dead without an error would hide every change from us.
//!
//! The API server sends a bookmark about once a minute on a watch where nothing happens. So a watch without a byte for
//! several minutes is ended here, and kube's watcher opens it anew where it stood. That is all that it takes, nearly always.
//! If it happens to one watch again and again, [`Watches::check`] says so.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Uri;
use http_body::{Body, Frame};
use http_body_util::BodyExt as _;
use parking_lot::Mutex;
use tokio::time::{Instant, Sleep};

use super::call::Call;
use super::metrics::CallMetrics;
use super::service::{AnswerBody, BoxError};

/// How long opening a watch anew may be of no use, unless [`Watches::with_patience`] says otherwise.
const PATIENCE: Duration = Duration::from_secs(600);
/// A watch that was ended here and is not opened anew for so long is not wanted any more. kube waits 6 s at most.
const FORGOTTEN: Duration = Duration::from_secs(60);

/// What is known of the watches of one or several clients. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Watches {
    patience: Duration,
    known: Arc<Mutex<Known>>,
}

#[derive(Debug, Default)]
struct Known {
    /// Kinds on whose watches a bookmark was seen. Where the API server keeps no cache of a kind it sends none, and then
    /// silence means nothing.
    with_bookmarks: BTreeSet<String>,
    /// The watches that were silent when they were last looked at.
    silent: BTreeMap<String, Silent>,
}

#[derive(Clone, Copy, Debug)]
struct Silent {
    /// When the last byte came.
    since: Instant,
    /// When it was ended, unless it was opened anew.
    ended: Option<Instant>,
}

impl Default for Watches {
    fn default() -> Self {
        Self::with_patience(PATIENCE)
    }
}

impl Watches {
    /// Watches that may be silent for `patience`, although they were opened anew, before [`Watches::check`] complains.
    pub fn with_patience(patience: Duration) -> Self {
        Self { patience, known: Arc::default() }
    }

    /// Whether every watch hears something, or did so not long ago; what to say if not.
    ///
    /// An API server that refuses connections or answers with errors is not silent: that is told elsewhere, and starting
    /// this process again would not help.
    pub fn check(&self) -> Result<(), String> {
        let now = Instant::now();
        let mut known = self.known.lock();
        known.silent.retain(|_, silent| silent.ended.is_none_or(|ended| now < ended + FORGOTTEN));
        let failing = known.silent.iter().filter(|(_, silent)| now >= silent.since + self.patience);
        let words: Vec<String> = failing
            .map(|(name, silent)| {
                format!(
                    "{name}: no byte for {} s, although it was opened anew",
                    (now - silent.since).as_secs()
                )
            })
            .collect();
        if words.is_empty() { Ok(()) } else { Err(words.join("; ")) }
    }

    /// Notes that a watch is opened.
    pub(super) fn begin(&self, call: &Call, uri: &Uri, metrics: &CallMetrics, limit: Duration) -> Session {
        let name = name(call, uri.query().unwrap_or_default());
        if let Some(silent) = self.known.lock().silent.get_mut(&name) {
            silent.ended = None;
        }
        Session {
            watches: self.clone(),
            metrics: metrics.clone(),
            call: call.clone(),
            name,
            limit,
            ended: false,
        }
    }
}

/// What tells one watch of a process from another: the kind, the namespace and the selectors.
fn name(call: &Call, query: &str) -> String {
    let selector = |pair: &&str| pair.starts_with("fieldSelector=") || pair.starts_with("labelSelector=");
    std::iter::once(call.to_string())
        .chain(query.split('&').filter(selector).map(ToString::to_string))
        .collect::<Vec<_>>()
        .join(" ")
}

/// One watch, from its request to its end.
#[derive(Debug)]
pub(super) struct Session {
    watches: Watches,
    metrics: CallMetrics,
    call: Call,
    name: String,
    /// How long it may be silent.
    limit: Duration,
    /// Whether we ended it.
    ended: bool,
}

impl Session {
    /// Something came, be it an error.
    pub(super) fn heard(&self) {
        self.watches.known.lock().silent.remove(&self.name);
    }

    /// Nothing came: not even the head of the answer.
    pub(super) fn unanswered(mut self) {
        self.end(true);
    }

    /// Passes the body on, and ends it when it is silent.
    pub(super) fn guard(self, body: AnswerBody) -> AnswerBody {
        let silence = Box::pin(tokio::time::sleep(self.limit));
        Guarded { body: Some(body), silence, session: self }.boxed_unsync()
    }

    /// Ends it for its silence, which `counts` even where no bookmarks are known to come.
    fn end(&mut self, counts: bool) {
        self.ended = true;
        self.metrics.count_silent(&self.call);
        let now = Instant::now();
        let mut known = self.watches.known.lock();
        if counts || known.with_bookmarks.contains(&self.kind()) {
            let since = now.checked_sub(self.limit).unwrap_or(now);
            let silent = known.silent.entry(self.name.clone()).or_insert(Silent { since, ended: None });
            silent.ended = Some(now);
        }
        tracing::warn!(
            watch = self.name,
            seconds = self.limit.as_secs(),
            "a watch fell silent and is opened anew"
        );
    }

    fn kind(&self) -> String {
        format!("{}/{}", self.call.group, self.call.resource)
    }

    fn take(&self, frame: &Frame<Bytes>) {
        let mut known = self.watches.known.lock();
        known.silent.remove(&self.name);
        if frame.data_ref().is_some_and(|bytes| bytes.starts_with(br#"{"type":"BOOKMARK""#)) {
            known.with_bookmarks.insert(self.kind());
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Whoever watched does not want to any more, or the server ended it in its own time.
        if !self.ended {
            self.heard();
        }
    }
}

/// The body of a watch's answer.
struct Guarded {
    /// None after the end.
    body: Option<AnswerBody>,
    silence: Pin<Box<Sleep>>,
    session: Session,
}

impl Body for Guarded {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        let Some(body) = &mut this.body else { return Poll::Ready(None) };
        match Pin::new(body).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => {
                this.silence.as_mut().reset(Instant::now() + this.session.limit);
                this.session.take(&frame);
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(end) => Poll::Ready(end),
            Poll::Pending => {
                std::task::ready!(this.silence.as_mut().poll(context));
                // Without the body its connection is closed, too.
                this.body = None;
                this.session.end(false);
                Poll::Ready(None)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::stream;
    use http::Request;
    use http_body_util::StreamBody;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(180);
    const BOOKMARK: &str = "{\"type\":\"BOOKMARK\",\"object\":{}}\n";
    const EVENT: &str = "{\"type\":\"ADDED\",\"object\":{}}\n";

    fn begin(watches: &Watches, uri: &str) -> Session {
        let request = Request::get(uri).body(kube::client::Body::empty()).unwrap();
        watches.begin(&Call::of(&request), request.uri(), &CallMetrics::default(), LIMIT)
    }

    fn pods(watches: &Watches) -> Session {
        begin(watches, "/api/v1/pods?watch=true&resourceVersion=7")
    }

    /// A body that brings each text after so many seconds, and then nothing.
    fn body(texts: &[(u64, &'static str)]) -> AnswerBody {
        let texts = texts.to_vec();
        let frames = stream::unfold(texts.into_iter(), |mut rest| async move {
            let Some((seconds, text)) = rest.next() else { return std::future::pending().await };
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            Some((Ok::<_, BoxError>(Frame::data(Bytes::from(text))), rest))
        });
        StreamBody::new(frames).boxed_unsync()
    }

    /// Reads a watch to its end: how many frames came, and after how many seconds it ended.
    async fn read(session: Session, texts: &[(u64, &'static str)]) -> (usize, u64) {
        let (began, mut frames) = (Instant::now(), 0);
        let mut guarded = session.guard(body(texts));
        while let Some(frame) = guarded.frame().await {
            frame.unwrap();
            frames += 1;
        }
        (frames, began.elapsed().as_secs())
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_ends_when_it_is_silent_and_not_while_bytes_come() {
        let watches = Watches::default();
        let session = pods(&watches);
        let metrics = session.metrics.clone();
        assert_eq!(read(session, &[(60, BOOKMARK), (170, EVENT), (179, BOOKMARK)]).await, (3, 409 + 180));
        assert_eq!(metrics.silent("pods"), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn only_silence_that_lasts_over_new_watches_fails_the_check() {
        let watches = Watches::default();
        read(pods(&watches), &[(60, BOOKMARK)]).await;
        let silent_since = Instant::now() - LIMIT;
        for _ in 0..2 {
            assert_eq!(watches.check(), Ok(()));
            read(pods(&watches), &[]).await;
        }
        assert_eq!(silent_since.elapsed().as_secs(), 540);
        assert_eq!(watches.check(), Ok(()), "nine minutes");
        let again = pods(&watches);
        tokio::time::sleep(Duration::from_secs(61)).await;
        let complaint = watches.check().unwrap_err();
        assert_eq!(complaint, "watch pods: no byte for 601 s, although it was opened anew");
        again.take(&Frame::data(Bytes::from(EVENT)));
        assert_eq!(watches.check(), Ok(()), "one byte is enough");
    }

    #[tokio::test(start_paused = true)]
    async fn where_no_bookmarks_come_silence_means_nothing() {
        let watches = Watches::default();
        let without = || begin(&watches, "/apis/x.y/v1/pods?watch=true");
        read(pods(&watches), &[(60, BOOKMARK)]).await;
        read(without(), &[(1, EVENT)]).await;
        for _ in 0..10 {
            assert_eq!(read(without(), &[]).await, (0, 180), "opened anew all the same");
            assert_eq!(watches.check(), Ok(()));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn without_even_a_head_silence_counts_in_any_case() {
        let watches = Watches::default();
        for _ in 0..3 {
            let session = pods(&watches);
            tokio::time::sleep(LIMIT).await;
            assert_eq!(watches.check(), Ok(()));
            session.unanswered();
        }
        let _again = pods(&watches);
        tokio::time::sleep(Duration::from_secs(59)).await;
        assert_eq!(watches.check(), Ok(()), "599 s");
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(watches.check().is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn an_error_explains_silence() {
        let watches = Watches::with_patience(LIMIT);
        read(pods(&watches), &[(60, BOOKMARK)]).await;
        assert!(watches.check().is_err());
        pods(&watches).heard();
        assert_eq!(watches.check(), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_nobody_opens_anew_is_forgotten() {
        let watches = Watches::with_patience(LIMIT);
        read(pods(&watches), &[(60, BOOKMARK)]).await;
        tokio::time::sleep(FORGOTTEN - Duration::from_secs(1)).await;
        assert!(watches.check().is_err());
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(watches.check(), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn one_watch_does_not_answer_for_another() {
        let watches = Watches::with_patience(LIMIT);
        let one =
            "/api/v1/namespaces/a/secrets?watch=true&fieldSelector=metadata.name%3Done&resourceVersion=1";
        read(begin(&watches, one), &[(1, BOOKMARK)]).await;
        begin(&watches, &one.replace("Done", "Dother")).heard();
        begin(&watches, &one.replace("/a/", "/b/")).heard();
        assert!(
            watches
                .check()
                .unwrap_err()
                .starts_with("watch secrets in a fieldSelector=metadata.name%3Done: ")
        );
        begin(&watches, &one.replace("Version=1", "Version=2")).heard();
        assert_eq!(watches.check(), Ok(()));
    }
}
