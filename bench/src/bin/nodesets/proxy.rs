//! Stands between a program and slurmrestd, and notes what is asked for.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, Result};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A request to slurmrestd.
#[derive(Clone, Debug)]
pub struct Request {
    pub at: Instant,
    pub method: String,
    /// With its query.
    pub path: String,
}

impl Request {
    /// Whether it asks for the list of this name: `nodes`, `jobs`.
    pub fn lists(&self, name: &str) -> bool {
        let path = self.path.split('?').next().unwrap_or_default();
        self.method == "GET" && path.trim_end_matches('/').ends_with(&format!("/{name}"))
    }
}

/// A way to slurmrestd that notes every request; it ends with this value.
pub struct Proxy {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
    task: JoinHandle<()>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Proxy {
    /// To `target` (`http://ADDRESS`), on this port of the loopback; 0 for any.
    pub async fn start(target: &str, port: u16) -> Result<Self> {
        let target: SocketAddr =
            target.trim_start_matches("http://").parse().with_context(|| format!("no address: {target}"))?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
            .await
            .with_context(|| format!("cannot listen on port {port}"))?;
        let address = listener.local_addr()?;
        let requests: Arc<Mutex<Vec<Request>>> = Arc::default();
        let log = Arc::clone(&requests);
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let log = Arc::clone(&log);
                // A connection that breaks is the business of those at its ends.
                tokio::spawn(async move { forward(client, target, &log).await });
            }
        });
        Ok(Self { address, requests, task })
    }

    /// Where programs find slurmrestd.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What was asked for since then.
    pub fn since(&self, moment: Instant) -> Vec<Request> {
        self.requests.lock().iter().filter(|request| request.at >= moment).cloned().collect()
    }
}

async fn forward(client: TcpStream, target: SocketAddr, log: &Mutex<Vec<Request>>) -> Result<()> {
    let server = TcpStream::connect(target).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let up = async {
        let (mut buffer, mut scanner) = (vec![0; 16 << 10], Scanner::default());
        loop {
            let length = from_client.read(&mut buffer).await?;
            let piece = buffer.get(..length).unwrap_or_default();
            if piece.is_empty() {
                break;
            }
            log.lock().extend(scanner.feed(piece));
            to_server.write_all(piece).await?;
        }
        to_server.shutdown().await
    };
    let down = async {
        tokio::io::copy(&mut from_server, &mut to_client).await?;
        to_client.shutdown().await
    };
    tokio::try_join!(up, down)?;
    Ok(())
}

/// Finds requests in what a client sends.
#[derive(Default)]
struct Scanner {
    rest: String,
}

/// What ends the first line of a request.
const END: &str = " HTTP/1.1\r\n";
/// More than the longest first line.
const LONGEST: usize = 4096;

impl Scanner {
    fn feed(&mut self, piece: &[u8]) -> Vec<Request> {
        self.rest.push_str(&String::from_utf8_lossy(piece));
        let mut found = Vec::new();
        while let Some(end) = self.rest.find(END) {
            // Before it stands the end of the last request: a line break, or the brace of a body.
            let line =
                self.rest.get(..end).unwrap_or_default().rsplit(['\n', '}']).next().unwrap_or_default();
            if let Some((method, path)) = line.split_once(' ') {
                found.push(Request { at: Instant::now(), method: method.into(), path: path.into() });
            }
            self.rest = self.rest.split_off(end + END.len());
        }
        if self.rest.len() > LONGEST {
            let mut from = self.rest.len() - LONGEST;
            while !self.rest.is_char_boundary(from) {
                from += 1;
            }
            self.rest = self.rest.split_off(from);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_found_wherever_the_pieces_are_cut() {
        let sent = "GET /slurm/v0.0.45/nodes/ HTTP/1.1\r\nhost: x\r\n\r\n\
                    POST /slurm/v0.0.45/node/w-1 HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}\
                    GET /slurm/v0.0.45/jobs/?update_time=7 HTTP/1.1\r\n\r\n";
        for size in [1, 7, 1000] {
            let mut scanner = Scanner::default();
            let found: Vec<Request> =
                sent.as_bytes().chunks(size).flat_map(|piece| scanner.feed(piece)).collect();
            let methods: Vec<&str> = found.iter().map(|request| request.method.as_str()).collect();
            assert_eq!(methods, ["GET", "POST", "GET"], "pieces of {size}");
            assert!(found[0].lists("nodes") && !found[0].lists("jobs"));
            assert!(found[2].lists("jobs"), "{}", found[2].path);
            assert_eq!(found[1].path, "/slurm/v0.0.45/node/w-1");
        }
    }
}
