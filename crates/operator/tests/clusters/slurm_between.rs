//! Stands between the operator and slurmrestd: looks at each request before it passes, and can keep it from passing.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::OwnedWriteHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;

/// What becomes of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// slurmrestd gets it.
    Pass,
    /// The connection breaks before slurmrestd sees it.
    Break,
    /// slurmrestd gets it, and the connection breaks before the answer comes.
    PassAndBreak,
    /// It is answered with this status and text, and slurmrestd does not see it.
    Answer(u16, String),
    /// Nobody answers for so long; then the connection breaks.
    Hang(Duration),
}

/// Passes everything on to the slurmrestd at this URL as `see` wants it, which gets the first line of each request and may take its
/// time. Returns the URL of its own.
pub async fn stand_between(
    url: &str,
    see: impl Fn(&str) -> Result<Fate> + Send + Sync + 'static,
) -> Result<String> {
    let to = url.trim_start_matches("http://").to_string();
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let own = format!("http://{}", listener.local_addr()?);
    let see = Arc::new(see);
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let Ok(server) = TcpStream::connect(&to).await else { continue };
            let see = Arc::clone(&see);
            tokio::spawn(pass(client, server, move |line| see(line)));
        }
    });
    Ok(own)
}

async fn pass<S>(client: TcpStream, server: TcpStream, see: S)
where
    S: Fn(&str) -> Result<Fate> + Send + Sync + 'static,
{
    let see = Arc::new(see);
    let (mut requests, to_client) = client.into_split();
    let (mut answers, mut to_server) = server.into_split();
    let to_client = Arc::new(Mutex::new(to_client));
    let back = tokio::spawn({
        let to_client = Arc::clone(&to_client);
        async move {
            let mut bytes = vec![0; 1 << 16];
            while let Ok(length @ 1..) = answers.read(&mut bytes).await {
                if to_client.lock().await.write_all(&bytes[..length]).await.is_err() {
                    break;
                }
            }
            let _ = to_client.lock().await.shutdown().await;
        }
    });
    let mut bytes = vec![0; 1 << 16];
    // Nobody sends a request before the answer to the one before: what comes at once is one request.
    while let Ok(length @ 1..) = requests.read(&mut bytes).await {
        let text = String::from_utf8_lossy(&bytes[..length]);
        let first = text.lines().next().unwrap_or_default().to_string();
        let see = Arc::clone(&see);
        let fate = match tokio::task::spawn_blocking(move || see(&first)).await {
            Ok(Ok(fate)) => fate,
            problem => {
                eprintln!("between: {problem:?}");
                Fate::Pass
            }
        };
        match fate {
            Fate::Pass => {}
            Fate::Break => break,
            Fate::PassAndBreak => {
                back.abort();
                let _ = to_server.write_all(&bytes[..length]).await;
                // Until slurmrestd has done it.
                tokio::time::sleep(Duration::from_millis(300)).await;
                break;
            }
            Fate::Answer(status, text) => {
                if answer(&to_client, status, &text).await.is_err() {
                    break;
                }
                continue;
            }
            Fate::Hang(time) => {
                tokio::time::sleep(time).await;
                break;
            }
        }
        if to_server.write_all(&bytes[..length]).await.is_err() {
            break;
        }
    }
    back.abort();
}

async fn answer(to_client: &Mutex<OwnedWriteHalf>, status: u16, text: &str) -> std::io::Result<()> {
    let head = format!(
        "HTTP/1.1 {status} From between\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        text.len()
    );
    to_client.lock().await.write_all(format!("{head}{text}").as_bytes()).await
}
