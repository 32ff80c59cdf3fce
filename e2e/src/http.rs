//! One HTTP request at a time, as sent and as answered: for tests that look at slurmrestd itself.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};

const TIMEOUT: Duration = Duration::from_secs(30);

/// Where slurmrestd is.
#[derive(Clone, Debug)]
pub enum Server {
    /// By TCP, as `http://host:port`.
    Url(String),
    /// By a Unix socket.
    Socket(PathBuf),
}

/// What is asked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request<'a> {
    /// GET, POST, ...
    pub method: &'a str,
    /// Path with its query.
    pub path: &'a str,
    /// Slurm's token, if one is sent.
    pub token: Option<&'a str>,
    /// A JSON body, if one is sent.
    pub body: Option<&'a str>,
}

/// What is answered.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The body as it was sent.
    pub body: String,
}

impl Server {
    /// Sends a request and returns the answer, whatever its status.
    pub fn send(&self, request: Request<'_>) -> Result<Answer> {
        let said = format!("{} {}", request.method, request.path);
        self.exchange(request).with_context(|| format!("no good answer to {said} from {self:?}"))
    }

    /// Asks for a path with a token.
    pub fn get(&self, path: &str, token: &str) -> Result<Answer> {
        self.send(Request { method: "GET", path, token: Some(token), body: None })
    }

    fn exchange(&self, request: Request<'_>) -> Result<Answer> {
        match self {
            Server::Url(url) => {
                let stream = TcpStream::connect(url.trim_start_matches("http://"))?;
                stream.set_read_timeout(Some(TIMEOUT))?;
                talk(&stream, request)
            }
            Server::Socket(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(TIMEOUT))?;
                talk(&stream, request)
            }
        }
    }
}

fn talk<S>(mut stream: &S, request: Request<'_>) -> Result<Answer>
where
    for<'a> &'a S: Read + Write,
{
    let mut text =
        format!("{} {} HTTP/1.1\r\nHost: slurm\r\nConnection: close\r\n", request.method, request.path);
    if let Some(token) = request.token {
        text.push_str(&format!("X-SLURM-USER-TOKEN: {token}\r\n"));
    }
    if let Some(body) = request.body {
        text.push_str(&format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len()));
    }
    text.push_str("\r\n");
    text.push_str(request.body.unwrap_or_default());
    stream.write_all(text.as_bytes())?;

    let mut answer = BufReader::new(stream);
    let mut line = String::new();
    answer.read_line(&mut line)?;
    let status = line.split(' ').nth(1).with_context(|| format!("a status line {line:?}"))?.parse()?;
    let mut length = 0;
    loop {
        line.clear();
        answer.read_line(&mut line)?;
        let header = line.trim_end().to_ascii_lowercase();
        if header.is_empty() {
            break;
        }
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse()?;
        }
    }
    let mut body = vec![0; length];
    answer.read_exact(&mut body)?;
    Ok(Answer { status, body: String::from_utf8(body)? })
}
