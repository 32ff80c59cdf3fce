//! Asks the agent inside a pod how things are. Only while something waits for the answer.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper_util::rt::TokioIo;
use slurm::agent::{AgentState, STATE_PORT};
use tokio::net::TcpStream;

/// From the first packet to the last byte. An agent answers from memory.
const PATIENCE: Duration = Duration::from_secs(2);
/// The agent's answer is a screen of text.
const LONGEST_ANSWER: usize = 64 << 10;

/// Why an agent does not tell how things are.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// Nobody answers.
    #[error("the agent at {0} cannot be reached")]
    Unreachable(SocketAddr, #[source] std::io::Error),
    /// It takes too long.
    #[error("the agent at {0} did not answer within {seconds} s", seconds = PATIENCE.as_secs())]
    Slow(SocketAddr),
    /// What it says cannot be understood.
    #[error("the agent at {0} gave no answer that makes sense: {1}")]
    Nonsense(SocketAddr, String),
}

/// What the agent of the pod with this address answers.
pub async fn state(pod: IpAddr) -> Result<AgentState, AgentError> {
    state_at(SocketAddr::new(pod, STATE_PORT)).await
}

async fn state_at(address: SocketAddr) -> Result<AgentState, AgentError> {
    tokio::time::timeout(PATIENCE, ask(address)).await.unwrap_or(Err(AgentError::Slow(address)))
}

async fn ask(address: SocketAddr) -> Result<AgentState, AgentError> {
    let nonsense = |problem: &dyn std::fmt::Display| AgentError::Nonsense(address, problem.to_string());
    let stream =
        TcpStream::connect(address).await.map_err(|error| AgentError::Unreachable(address, error))?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake::<_, Empty<Bytes>>(TokioIo::new(stream))
            .await
            .map_err(|error| nonsense(&error))?;
    let connection = tokio::spawn(connection);
    let request = http::Request::get("/state")
        .header(http::header::HOST, address.to_string())
        .body(Empty::new())
        .map_err(|error| nonsense(&error))?;
    let answer = sender.send_request(request).await.map_err(|error| nonsense(&error));
    let read = async {
        let answer = answer?;
        if answer.status() != http::StatusCode::OK {
            return Err(nonsense(&format!("status {}", answer.status())));
        }
        let body = Limited::new(answer.into_body(), LONGEST_ANSWER).collect().await;
        let body = body.map_err(|error| nonsense(&error))?.to_bytes();
        serde_json::from_slice(&body).map_err(|error| nonsense(&error))
    }
    .await;
    connection.abort();
    read
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    /// Answers the first request with this text, or not at all.
    async fn answering(answer: Option<String>) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 1024];
            let length = stream.read(&mut request).await.unwrap();
            assert!(request[..length].starts_with(b"GET /state HTTP/1.1\r\n"));
            if let Some(answer) = answer {
                let _ = stream.write_all(answer.as_bytes()).await;
            } else {
                std::future::pending::<()>().await;
            }
        });
        address
    }

    fn http(status: &str, body: &str) -> Option<String> {
        Some(format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len()))
    }

    #[tokio::test]
    async fn the_state_is_read() {
        let address =
            answering(http("200 OK", r#"{"daemon":"slurmctld","running":true,"config":{"inUse":"a"}}"#))
                .await;
        let state = state_at(address).await.unwrap();
        assert!(state.running);
        assert_eq!(state.config.unwrap().in_use, "a");
    }

    #[tokio::test]
    async fn a_closed_port_a_silent_agent_and_nonsense_are_told_apart() {
        let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        assert!(matches!(state_at(closed).await, Err(AgentError::Unreachable(..))));
        assert!(matches!(state_at(answering(None).await).await, Err(AgentError::Slow(_))));
        let error = state_at(answering(http("500 Oh", "")).await).await.unwrap_err().to_string();
        assert!(error.contains("status 500"), "{error}");
        assert!(matches!(
            state_at(answering(http("200 OK", "{")).await).await,
            Err(AgentError::Nonsense(..))
        ));
    }

    #[tokio::test]
    async fn an_endless_answer_is_cut_off() {
        let address = answering(http("200 OK", &" ".repeat(LONGEST_ANSWER + 1))).await;
        assert!(matches!(state_at(address).await, Err(AgentError::Nonsense(..))));
    }
}
