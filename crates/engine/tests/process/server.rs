//! The server, asked over the network as a kubelet or Prometheus would.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use engine::Key;
use engine::logging::{self, Level, Output};
use engine::server::{Checks, LastResult, Results, Server, ServerError, Shown};
use engine::settings::{Flags, Profile, Settings, World, load};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

/// Settings as flags give them; servers take any free port of loopback unless the flags say otherwise.
pub fn settings(flags: &[&str]) -> Settings {
    use clap::{Args as _, FromArgMatches as _};
    let mut words = vec!["role".to_string()];
    for flag in ["metrics-bind-address", "health-probe-bind-address", "debug-bind-address"] {
        if !flags.iter().any(|given| given.starts_with(&format!("--{flag}"))) {
            words.push(format!("--{flag}=127.0.0.1:0"));
        }
    }
    words.extend(flags.iter().map(ToString::to_string));
    let matches = Flags::augment_args(clap::Command::new("role")).get_matches_from(words);
    let flags = Flags::from_arg_matches(&matches).expect("flags");
    let world = World { env: &|_| None, ..World::default() };
    load(&Profile::new("test", "test"), &flags, &world).expect("settings")
}

/// Status, head and body of an answer to a plain GET.
pub async fn get(address: SocketAddr, path: &str) -> Result<(u16, String, String)> {
    ask(TcpStream::connect(address).await?, &format!("GET {path} HTTP/1.1\r\n"), "").await
}

/// Sends a request that begins with `head`, on a connection of any kind.
pub async fn ask<S>(mut stream: S, head: &str, body: &str) -> Result<(u16, String, String)>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let length = body.len();
    let request = format!("{head}host: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    let answer = String::from_utf8(answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no answer")?;
    let status = head.split(' ').nth(1).context("no status")?.parse()?;
    Ok((status, head.to_string(), body.to_string()))
}

/// A server at work.
pub struct Running {
    pub health: SocketAddr,
    pub metrics: SocketAddr,
    pub debug: SocketAddr,
    pub stop: CancellationToken,
    pub task: tokio::task::JoinHandle<()>,
}

pub async fn start(settings: &Settings, shown: Shown, client: Option<&kube::Client>) -> Result<Running> {
    let server = Server::bind(settings, shown, client).await?;
    let stop = CancellationToken::new();
    Ok(Running {
        health: server.health_address().context("health")?,
        metrics: server.metrics_address().context("metrics")?,
        debug: server.debug_address().context("debug")?,
        task: tokio::spawn(server.run(stop.clone())),
        stop,
    })
}

#[tokio::test]
async fn probes_tell_what_is_not_ready() -> Result<()> {
    let checks = Checks::default();
    let ready = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&ready);
    checks.ready("cache pods", move || {
        if seen.load(Ordering::SeqCst) { Ok(()) } else { Err("the first list is not complete".into()) }
    });
    checks.ready("certificate", || Ok(()));
    let shown = Shown { checks: checks.clone(), ..Shown::default() };
    let running = start(&settings(&[]), shown, None).await?;

    let (status, _, body) = get(running.health, "/readyz").await?;
    assert_eq!(status, 503);
    assert_eq!(body, "[-]cache pods failed: the first list is not complete\nreadyz check failed\n");
    assert_eq!(get(running.health, "/livez").await?.0, 200, "not ready is not dead");
    ready.store(true, Ordering::SeqCst);
    let (status, _, body) = get(running.health, "/readyz?verbose").await?;
    assert_eq!((status, body.as_str()), (200, "[+]cache pods ok\n[+]certificate ok\nreadyz check passed\n"));
    assert_eq!(get(running.health, "/healthz").await?.2, "ok");
    checks.live("watch", || Err("silent".into()));
    for path in ["/livez", "/healthz"] {
        let (status, _, body) = get(running.health, path).await?;
        assert_eq!(status, 503, "{path}");
        assert!(body.starts_with("[-]watch failed: silent\n"), "{body}");
    }
    assert_eq!(get(running.health, "/metrics").await?.0, 404, "each port has its own paths");
    assert_eq!(get(running.health, "/debug/state").await?.0, 404);
    Ok(())
}

#[tokio::test]
async fn a_service_with_a_name_also_answers_probes_as_json() -> Result<()> {
    let checks = Checks::default();
    let shown = Shown { checks: checks.clone(), service: Some("gpu-scheduler"), ..Shown::default() };
    let running = start(&settings(&[]), shown, None).await?;
    let (status, head, body) = get(running.health, "/health").await?;
    assert_eq!((status, body.as_str()), (200, r#"{"service":"gpu-scheduler","status":"healthy"}"#));
    assert!(head.contains("content-type: application/json"), "{head}");
    let (status, _, body) = get(running.health, "/ready").await?;
    assert_eq!((status, body.as_str()), (200, r#"{"service":"gpu-scheduler","status":"ready"}"#));
    checks.ready("cache nodes", || Err("the first list is not complete".into()));
    let (status, _, body) = get(running.health, "/ready").await?;
    assert_eq!(status, 503);
    assert!(body.contains("not ready") && body.contains("cache nodes failed"), "{body}");
    assert_eq!(get(running.health, "/health").await?.0, 200, "not ready is not dead");
    let nameless = start(&settings(&[]), Shown::default(), None).await?;
    assert_eq!(get(nameless.health, "/health").await?.0, 404);
    Ok(())
}

#[tokio::test]
async fn metrics_are_served_in_the_openmetrics_form() -> Result<()> {
    let counter = Counter::<u64>::default();
    let mut registry = Registry::default();
    registry.register("reconciles", "Reconciles", counter.clone());
    let shown = Shown { metrics: Arc::new(registry), ..Shown::default() };
    let running = start(&settings(&[]), shown, None).await?;
    counter.inc();
    let (status, head, body) = get(running.metrics, "/metrics").await?;
    assert_eq!(status, 200);
    assert!(
        head.contains("content-type: application/openmetrics-text; version=1.0.0; charset=utf-8"),
        "{head}"
    );
    assert!(body.contains("reconciles_total 1\n") && body.ends_with("# EOF\n"), "{body}");
    Ok(())
}

#[tokio::test]
async fn the_inside_is_shown_and_the_level_changed_on_loopback() -> Result<()> {
    let results = Results::default();
    let last = LastResult::now("conflict", Some("too bad".into()), Duration::from_millis(20), None);
    results.note("nodeset", &Key::new("ns", "a"), last);
    let options = logging::Options { level: Level::Info, outputs: Vec::<Output>::new() };
    let (subscriber, handle) = logging::subscriber(&options)?;
    let _default = tracing::subscriber::set_default(subscriber);
    let shown = Shown { results, log_level: Some(handle.clone()), ..Shown::default() };
    let running = start(&settings(&[]), shown, None).await?;
    assert!(running.debug.ip().is_loopback());

    let (status, _, body) = get(running.debug, "/debug/state").await?;
    let state: serde_json::Value = serde_json::from_str(&body)?;
    assert_eq!((status, &state["nodeset"]["ns/a"]["message"]), (200, &"too bad".into()), "{body}");
    assert_eq!(get(running.debug, "/debug/log-level").await?.2, "info\n");
    let put = "PUT /debug/log-level HTTP/1.1\r\n";
    let (status, _, body) = ask(TcpStream::connect(running.debug).await?, put, "debug\n").await?;
    assert_eq!((status, body.as_str(), handle.get()), (200, "debug\n", Some(Level::Debug)));
    let (status, _, body) = ask(TcpStream::connect(running.debug).await?, put, "loud").await?;
    assert_eq!((status, handle.get()), (400, Some(Level::Debug)), "{body}");
    Ok(())
}

#[tokio::test]
async fn a_taken_port_is_an_error_that_names_the_flag() -> Result<()> {
    let taken = std::net::TcpListener::bind("127.0.0.1:0")?;
    let address = taken.local_addr()?;
    for flag in ["metrics-bind-address", "health-probe-bind-address", "debug-bind-address"] {
        let settings = settings(&[&format!("--{flag}={address}")]);
        let Err(error) = Server::bind(&settings, Shown::default(), None).await else {
            panic!("{flag}: no error")
        };
        let text = error.to_string();
        assert!(text.starts_with(&format!("cannot listen on {address} for ")), "{text}");
        assert!(text.contains("in use") && text.contains(&format!("--{flag}, or 0 for none")), "{text}");
    }
    // The same when all addresses are asked for.
    let everywhere =
        std::net::TcpListener::bind("[::]:0").or_else(|_| std::net::TcpListener::bind("0.0.0.0:0"))?;
    let port = everywhere.local_addr()?.port();
    let settings = settings(&[&format!("--metrics-bind-address=:{port}")]);
    assert!(matches!(Server::bind(&settings, Shown::default(), None).await, Err(ServerError::Listen { .. })));
    Ok(())
}

#[tokio::test]
async fn zero_turns_a_server_off_and_a_bare_port_serves_everywhere() -> Result<()> {
    let off =
        settings(&["--metrics-bind-address=0", "--health-probe-bind-address=0", "--debug-bind-address=0"]);
    let server = Server::bind(&off, Shown::default(), None).await?;
    assert_eq!(
        (server.metrics_address(), server.health_address(), server.debug_address()),
        (None, None, None)
    );
    let server = Server::bind(&settings(&["--health-probe-bind-address=:0"]), Shown::default(), None).await?;
    let port = server.health_address().context("an address")?.port();
    tokio::spawn(server.run(CancellationToken::new()));
    assert_eq!(get(SocketAddr::from(([127, 0, 0, 1], port)), "/livez").await?.0, 200);
    Ok(())
}

#[tokio::test]
async fn a_stop_is_quick_and_answers_what_was_asked() -> Result<()> {
    let running = start(&settings(&[]), Shown::default(), None).await?;
    // Connected, and silent.
    let idle = TcpStream::connect(running.health).await?;
    // In the middle of a request.
    let mut half = TcpStream::connect(running.health).await?;
    half.write_all(b"GET /livez HTTP/1.1\r\nhost: x\r\n").await?;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let began = Instant::now();
    running.stop.cancel();
    half.write_all(b"connection: close\r\n\r\n").await?;
    let mut answer = String::new();
    half.read_to_string(&mut answer).await?;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer:?}");
    tokio::time::timeout(Duration::from_secs(10), running.task).await??;
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    assert!(TcpStream::connect(running.health).await.is_err());
    drop(idle);
    Ok(())
}
