//! `GET /state`, by hand: one short answer to one short question.

use std::io::{self, Read, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use slurm::agent::STATE_PORT;

use crate::agent::Agent;
use crate::proc;

/// How long a question may take to come, and an answer to be taken.
const PATIENCE: Duration = Duration::from_secs(5);
const MAX_QUESTION: usize = 8 << 10;
const MAX_CONNECTIONS: usize = 16;

/// Answers in threads of its own, for ever.
pub fn start(agent: &Arc<Agent>) {
    let agent = Arc::clone(agent);
    std::thread::spawn(move || {
        loop {
            match listen() {
                Ok(listener) => serve(&agent, &listener),
                Err(error) => agent.failed(&format!("cannot listen on port {STATE_PORT}: {error}")),
            }
            std::thread::sleep(Duration::from_secs(5));
        }
    });
}

fn listen() -> io::Result<TcpListener> {
    // IPv6 takes IPv4 too, where the pod has it.
    TcpListener::bind(SocketAddr::from((Ipv6Addr::UNSPECIFIED, STATE_PORT)))
        .or_else(|_| TcpListener::bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, STATE_PORT))))
}

fn serve(agent: &Arc<Agent>, listener: &TcpListener) {
    let open = Arc::new(AtomicUsize::new(0));
    loop {
        let Ok((stream, _)) = listener.accept() else {
            // Out of files, most likely: others must end first.
            std::thread::sleep(Duration::from_millis(100));
            continue;
        };
        if open.load(Ordering::Relaxed) >= MAX_CONNECTIONS {
            continue;
        }
        open.fetch_add(1, Ordering::Relaxed);
        let (agent, open) = (Arc::clone(agent), Arc::clone(&open));
        std::thread::spawn(move || {
            // Whoever asked and went away needs no answer.
            let _ = answer(&agent, stream);
            open.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

fn answer(agent: &Agent, mut stream: TcpStream) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let question = read_question(&mut stream)?;
    let (status, body) = match first_line(&question) {
        Some(("GET", "/state")) => ("200 OK", state(agent)),
        Some(("GET", _)) => ("404 Not Found", "{\"error\":\"there is only /state\"}".to_owned()),
        Some(_) => ("405 Method Not Allowed", "{\"error\":\"only GET\"}".to_owned()),
        None => ("400 Bad Request", "{\"error\":\"not HTTP\"}".to_owned()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())
}

/// The state, with what is counted anew for each answer.
fn state(agent: &Agent) -> String {
    let mut state = agent.state();
    if state.sessions.is_some() {
        state.sessions = Some(proc::sessions());
    }
    if state.job_steps.is_some() {
        let steps = proc::job_steps();
        (state.job_steps, state.ended_steps) = (Some(steps.all), steps.ended);
    }
    serde_json::to_string(&state).unwrap_or_else(|_| "{}".to_owned())
}

/// Reads up to the empty line.
fn read_question(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let deadline = Instant::now() + PATIENCE;
    let mut question = Vec::new();
    let mut chunk = [0_u8; 1024];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || question.len() > MAX_QUESTION {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        let read = stream.read(&mut chunk)?;
        question.extend(chunk.iter().take(read));
        if read == 0 || question.windows(4).any(|end| end == b"\r\n\r\n") {
            return Ok(question);
        }
    }
}

/// Method and path, without what follows a `?`.
fn first_line(question: &[u8]) -> Option<(&str, &str)> {
    let line = std::str::from_utf8(question.split(|byte| *byte == b'\r').next()?).ok()?;
    let mut words = line.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    version.starts_with("HTTP/").then(|| (method, target.split('?').next().unwrap_or(target)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_http_is_understood() {
        assert_eq!(first_line(b"GET /state?x=1 HTTP/1.1\r\nHost: a\r\n\r\n"), Some(("GET", "/state")));
        assert_eq!(first_line(b"POST / HTTP/1.0\r\n"), Some(("POST", "/")));
        assert_eq!(first_line(b"\x16\x03\x01"), None);
        assert_eq!(first_line(b""), None);
    }
}
