//! A TCP server that does what a test wants, good or bad, on a real socket.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// What the server does with a request.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// A whole answer.
    Answer(u16, String),
    /// An answer that says it is longer than it is; then the connection closes in good order.
    Cut(String),
    /// The beginning of an answer, then the connection is reset.
    Reset(String),
    /// Nothing at all.
    Silence,
    /// The beginning of an answer, then nothing.
    Stall(String),
    /// A beginning, then this again and again without end.
    Endless(String, String),
}

impl Reply {
    pub(crate) fn ok(body: impl Into<String>) -> Self {
        Self::Answer(200, body.into())
    }
}

/// What an answer depends on: the method and path with query of the request, and how many came before it.
type Script = dyn Fn(&str, usize) -> Reply + Send + Sync;

pub(crate) struct Server {
    address: std::net::SocketAddr,
    requests: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The document from which a client learns the versions.
pub(crate) const DOCUMENT: &str = r#"{"paths": {"/slurm/v0.0.42/nodes/": {}, "/slurm/v0.0.42/jobs/": {}}}"#;

impl Server {
    /// Answers `/openapi/v3` as it should, and everything else by the script.
    pub(crate) async fn start(script: impl Fn(&str, usize) -> Reply + Send + Sync + 'static) -> Self {
        Self::start_all(move |request, count| {
            if request.starts_with("GET /openapi/v3") { Reply::ok(DOCUMENT) } else { script(request, count) }
        })
        .await
    }

    /// Answers everything by the script.
    pub(crate) async fn start_all(script: impl Fn(&str, usize) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(AtomicUsize::new(0));
        let (script, counter): (Arc<Script>, _) = (Arc::new(script), Arc::clone(&requests));
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(stream, Arc::clone(&script), Arc::clone(&counter)));
            }
        });
        Self { address, requests, task }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// How many requests came, apart from those for the versions.
    pub(crate) fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

async fn serve(mut stream: TcpStream, script: Arc<Script>, counter: Arc<AtomicUsize>) {
    while let Some(request) = read_request(&mut stream).await {
        let count = if request.contains("/openapi/") { 0 } else { counter.fetch_add(1, Ordering::SeqCst) };
        if !reply(&mut stream, script(&request, count)).await {
            return;
        }
    }
}

/// The first line of the next request, without its version of HTTP.
async fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).unwrap();
    let length = head
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .map_or(0, |(_, value)| value.trim().parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some(head.lines().next()?.trim_end_matches(" HTTP/1.1").to_owned())
}

/// Whether the connection can be used again.
async fn reply(stream: &mut TcpStream, reply: Reply) -> bool {
    let head =
        |status: u16, length: usize| format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n\r\n");
    match reply {
        Reply::Answer(status, body) => {
            let text = if status == 304 || status == 204 {
                format!("HTTP/1.1 {status} X\r\n\r\n")
            } else {
                head(status, body.len()) + &body
            };
            stream.write_all(text.as_bytes()).await.is_ok()
        }
        Reply::Cut(body) => {
            let text = head(200, body.len() + 1000) + &body;
            let _ = stream.write_all(text.as_bytes()).await;
            false
        }
        Reply::Reset(body) => {
            let text = head(200, body.len() + 1000) + &body;
            let _ = stream.write_all(text.as_bytes()).await;
            tokio::time::sleep(Duration::from_millis(50)).await;
            // Closing with this set resets the connection.
            stream.set_zero_linger().unwrap();
            false
        }
        Reply::Silence => {
            tokio::time::sleep(Duration::from_secs(600)).await;
            false
        }
        Reply::Stall(body) => {
            let text = head(200, body.len() + 1000) + &body;
            let _ = stream.write_all(text.as_bytes()).await;
            tokio::time::sleep(Duration::from_secs(600)).await;
            false
        }
        Reply::Endless(beginning, again) => {
            let text = head(200, 1 << 50) + &beginning;
            let _ = stream.write_all(text.as_bytes()).await;
            while stream.write_all(again.as_bytes()).await.is_ok() {}
            false
        }
    }
}
