//! Faults in watch streams.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::{Stream, StreamExt as _, stream};
use http::Response;
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};

use crate::client::{AnswerBody, BoxError};

/// What goes wrong with a watch, at one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchFault {
    /// The connection ends just before it.
    Close,
    /// Instead of it the server says that the version is too old: everything has to be listed anew.
    Gone,
    /// It and all behind it come late.
    Lag(Duration),
    /// It comes twice.
    Duplicate,
    /// It and all behind it never come; after this time the server says that the version is too old.
    Skip(Duration),
}

impl fmt::Display for WatchFault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Close => out.write_str("close"),
            Self::Gone => out.write_str("gone"),
            Self::Lag(time) => write!(out, "lag-{}ms", time.as_millis()),
            Self::Duplicate => out.write_str("duplicate"),
            Self::Skip(time) => write!(out, "skip-{}ms", time.as_millis()),
        }
    }
}

const GONE: &str = r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version (on purpose)","reason":"Expired","code":410}}"#;

/// Passes a watch on, line by line; `fault` is asked before each event.
pub(super) fn tamper(
    response: Response<AnswerBody>,
    fault: impl Fn() -> Option<WatchFault> + Send + Sync + 'static,
) -> Response<AnswerBody> {
    let fault = Arc::new(fault);
    response.map(|body| {
        let lines = lines(body.into_data_stream()).flat_map(move |line| {
            let fault = match &line {
                // Bookmarks are no events of anything.
                Ok(line) if !is_bookmark(line) => fault(),
                _ => None,
            };
            apply(line, fault)
        });
        let ended =
            lines.take_while(|line| std::future::ready(line.is_some())).filter_map(std::future::ready);
        StreamBody::new(ended.map(|line| line.map(Frame::data))).boxed_unsync()
    })
}

fn is_bookmark(line: &[u8]) -> bool {
    line.starts_with(br#"{"type":"BOOKMARK""#)
}

type Line = Result<Bytes, BoxError>;

/// What becomes of one line; none ends the stream.
fn apply(line: Line, fault: Option<WatchFault>) -> stream::BoxStream<'static, Option<Line>> {
    let gone = || Some(Ok(Bytes::from_static(GONE.as_bytes()).iter().copied().chain([b'\n']).collect()));
    let later = |time, line| {
        stream::once(async move {
            tokio::time::sleep(time).await;
            line
        })
    };
    match (fault, line) {
        (Some(WatchFault::Close), _) => stream::iter([None]).boxed(),
        (Some(WatchFault::Gone), _) => stream::iter([gone(), None]).boxed(),
        (Some(WatchFault::Lag(time)), line) => later(time, Some(line)).boxed(),
        (Some(WatchFault::Skip(time)), _) => later(time, gone()).chain(stream::iter([None])).boxed(),
        (Some(WatchFault::Duplicate), Ok(line)) => {
            stream::iter([Some(Ok(line.clone())), Some(Ok(line))]).boxed()
        }
        (_, line) => stream::iter([Some(line)]).boxed(),
    }
}

/// Cuts a stream of chunks into lines, each with its line end.
fn lines(chunks: impl Stream<Item = Line> + Send + Unpin + 'static) -> impl Stream<Item = Line> + Send {
    stream::unfold((chunks, BytesMut::new()), |(mut chunks, mut buffer)| async move {
        loop {
            if let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
                let line = buffer.split_to(end + 1).freeze();
                return Some((Ok(line), (chunks, buffer)));
            }
            match chunks.next().await {
                Some(Ok(chunk)) => buffer.extend_from_slice(&chunk),
                Some(Err(error)) => return Some((Err(error), (chunks, buffer))),
                None if buffer.is_empty() => return None,
                None => return Some((Ok(buffer.split().freeze()), (chunks, buffer))),
            }
        }
    })
}
