//! Applies and handshakes in a loop, by which a failure of a moment is found.

use std::io::Write as _;
use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::place::{Place, widget};
use crate::wire::served;

/// What came of one loop.
#[derive(Debug, Default)]
struct Rounds {
    done: usize,
    failures: Vec<String>,
}

impl Rounds {
    fn note(&mut self, result: Result<()>) {
        if let Err(error) = result {
            self.failures.push(format!("{}: {error:#}", self.done));
        }
        self.done += 1;
    }
}

/// Applies widgets one after the other, by the program `kubectl` and, faster, by API calls beside it. Ends with this value.
pub struct ApplyLoop {
    stop: DropGuard,
    kubectl: JoinHandle<Rounds>,
    calls: JoinHandle<Rounds>,
}

impl ApplyLoop {
    pub fn start(place: &Arc<Place>) -> Self {
        let stop = CancellationToken::new();
        let (stopped, at) = (stop.clone(), Arc::clone(place));
        let kubectl = tokio::task::spawn_blocking(move || {
            let mut rounds = Rounds::default();
            while !stopped.is_cancelled() {
                rounds.note(kubectl_apply(&at, &format!("number {}", rounds.done)));
            }
            rounds
        });
        let (stopped, at) = (stop.clone(), Arc::clone(place));
        let calls = tokio::spawn(async move {
            let mut rounds = Rounds::default();
            while !stopped.is_cancelled() {
                let result = at.apply("called", &format!("number {}", rounds.done)).await;
                rounds.note(result.map(drop).map_err(Into::into));
                // Leaves some of the machine to others.
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            rounds
        });
        Self { stop: stop.drop_guard(), kubectl, calls }
    }

    /// Ends both loops: how many applies there were by `kubectl` and by API calls, and which failed.
    pub async fn end(self) -> Result<(usize, usize, Vec<String>)> {
        drop(self.stop);
        let (kubectl, calls) = (self.kubectl.await?, self.calls.await?);
        Ok((kubectl.done, calls.done, [kubectl.failures, calls.failures].concat()))
    }
}

/// Connects again and again, as an API server would that is a little behind: it trusts whom the configuration named a moment
/// ago. The real one rarely connects, because it keeps its connections.
pub struct Handshakes {
    stop: DropGuard,
    task: JoinHandle<Rounds>,
}

impl Handshakes {
    pub fn start(place: &Arc<Place>, address: SocketAddr) -> Self {
        let stop = CancellationToken::new();
        let (stopped, place) = (stop.clone(), Arc::clone(place));
        let task = tokio::spawn(async move {
            let mut rounds = Rounds::default();
            while !stopped.is_cancelled() {
                rounds.note(handshake(&place, address).await);
            }
            rounds
        });
        Self { stop: stop.drop_guard(), task }
    }

    /// Ends it: how many handshakes there were, and which failed.
    pub async fn end(self) -> Result<(usize, Vec<String>)> {
        drop(self.stop);
        let handshakes = self.task.await?;
        Ok((handshakes.done, handshakes.failures))
    }
}

async fn handshake(place: &Place, address: SocketAddr) -> Result<()> {
    let bundle = place.bundle(0).await?;
    tokio::time::sleep(Duration::from_millis(200)).await;
    served(address, &bundle).await.map(drop).context("a handshake")
}

/// What a user does: `kubectl apply -f -`.
pub fn kubectl_apply(place: &Place, text: &str) -> Result<()> {
    let manifest = serde_json::to_vec(&widget("kubectl", text))?;
    let mut child = place
        .kubectl()
        .args(["apply", "-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    child.stdin.take().context("standard input")?.write_all(&manifest)?;
    let output = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "kubectl apply: {}: {said}", output.status);
    Ok(())
}
