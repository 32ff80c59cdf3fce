//! Watches through a proxy that keeps connections open and passes nothing on any more: no error, no end, only silence.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use engine::Scope;
use engine::cache::{Cache, Selection};
use engine::client::{self, CallMetrics, Watches};
use engine::server::{Checks, Shown};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ObjectMeta, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Client, Config};
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use rig::ControlPlane;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use crate::server::{get, settings, start};

/// Which connections are silent.
#[derive(Clone, Copy, Debug)]
enum Silent {
    None,
    /// Those that began before.
    BegunBefore(Instant),
    /// All that are older.
    OlderThan(Duration),
}

impl Silent {
    fn holds(self, began: Instant) -> bool {
        match self {
            Self::None => false,
            Self::BegunBefore(time) => began < time,
            Self::OlderThan(age) => began.elapsed() > age,
        }
    }
}

/// A way to the API server.
struct Proxy {
    address: SocketAddr,
    silent: Arc<Mutex<Silent>>,
}

impl Proxy {
    async fn start(server: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let (address, silent) = (listener.local_addr()?, Arc::new(Mutex::new(Silent::None)));
        let state = Arc::clone(&silent);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(pass(client, server, Arc::clone(&state)));
            }
        });
        Ok(Self { address, silent })
    }

    fn set(&self, silent: Silent) {
        *self.silent.lock() = silent;
    }
}

/// Passes one connection on; what the server says, only while the connection is not silent.
async fn pass(client: TcpStream, server: SocketAddr, silent: Arc<Mutex<Silent>>) -> std::io::Result<()> {
    let began = Instant::now();
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = TcpStream::connect(server).await?.into_split();
    let up = tokio::io::copy(&mut from_client, &mut to_server);
    let down = async {
        let mut buffer = vec![0; 1 << 14];
        loop {
            let length = from_server.read(&mut buffer).await?;
            if silent.lock().holds(began) {
                std::future::pending::<()>().await;
            }
            if length == 0 {
                return Ok(());
            }
            to_client.write_all(&buffer[..length]).await?;
        }
    };
    tokio::select! {
        ended = up => ended.map(drop),
        ended = down => ended,
    }
}

/// A proxy, and a client as controllers have it that goes through it.
async fn through_a_proxy(options: client::Options) -> Result<(Proxy, Client)> {
    let kubeconfig = Kubeconfig::read_from(ControlPlane::shared().await?.kubeconfig())?;
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let port = config.cluster_url.port_u16().context("a port")?;
    let proxy = Proxy::start((Ipv4Addr::LOCALHOST, port).into()).await?;
    config.cluster_url = format!("https://{}", proxy.address).parse()?;
    Ok((proxy, client::connect(config, options)?))
}

fn config_map(name: &str) -> ConfigMap {
    let metadata = ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() };
    ConfigMap { metadata, ..ConfigMap::default() }
}

async fn until(what: &str, seconds: u64, mut check: impl AsyncFnMut() -> Result<bool>) -> Result<Duration> {
    let began = Instant::now();
    while !check().await? {
        anyhow::ensure!(began.elapsed() < Duration::from_secs(seconds), "waited {seconds} s until {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(began.elapsed())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_that_falls_silent_is_opened_anew_where_it_stood() -> Result<()> {
    const LIMIT: Duration = Duration::from_secs(3);
    let metrics = CallMetrics::default();
    let options =
        client::Options { watch_silence: LIMIT, metrics: metrics.clone(), ..client::Options::default() };
    let (proxy, client) = through_a_proxy(options).await?;
    let namespace = ControlPlane::shared().await?.namespace("silence").await?;
    let stop = CancellationToken::new();
    let _stop = stop.clone().drop_guard();
    let scope = Scope::Namespaces(vec![namespace.name().into()]);
    let cache = Cache::<ConfigMap>::start(&client, Selection::all(scope), &stop);
    tokio::time::timeout(Duration::from_secs(10), cache.ready()).await?;

    // A change twice a second: more than the API server's bookmarks, and enough that the watch is not silent by itself.
    let direct: Api<ConfigMap> = namespace.api();
    let ticking = direct.clone();
    let ticks = tokio::spawn(async move {
        for number in 0.. {
            ticking.create(&PostParams::default(), &config_map(&format!("tick-{number}"))).await?;
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        Ok::<(), kube::Error>(())
    });
    tokio::time::sleep(LIMIT * 2).await;
    assert!(cache.len() >= 8, "{} of the changes came", cache.len());
    assert_eq!(metrics.silent("configmaps"), 0, "a watch that hears something is left alone");

    proxy.set(Silent::BegunBefore(Instant::now()));
    let known = cache.len();
    tokio::time::sleep(LIMIT / 2).await;
    assert_eq!(cache.len(), known, "the proxy is silent");
    let took = until("the cache has caught up", 20, async || {
        Ok(cache.len() == direct.list(&Default::default()).await?.items.len())
    })
    .await?;
    println!("caught up {:?} after the silence began, with a limit of {LIMIT:?}", took + LIMIT / 2);
    assert_eq!(metrics.silent("configmaps"), 1);
    let mut registry = Registry::default();
    metrics.register(&mut registry);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry)?;
    for line in [
        r#"kubernetes_api_calls_total{verb="list",resource="configmaps",code="200"} 1"#,
        r#"kubernetes_watches_silent_total{resource="configmaps"} 1"#,
    ] {
        assert!(text.contains(line), "nothing was listed anew: {line} is not in {text}");
    }
    ticks.abort();
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn livez_fails_only_when_opening_watches_anew_does_not_help_for_long() -> Result<()> {
    const PATIENCE: Duration = Duration::from_secs(10);
    let (metrics, watches) = (CallMetrics::default(), Watches::with_patience(PATIENCE));
    let options = client::Options {
        watch_silence: Duration::from_secs(4),
        watches: watches.clone(),
        metrics: metrics.clone(),
        ..client::Options::default()
    };
    let (proxy, client) = through_a_proxy(options).await?;
    let namespace = ControlPlane::shared().await?.namespace("livez").await?;
    let checks = Checks::default();
    checks.watches(&watches);
    let running = start(&settings(&[]), Shown { checks, ..Shown::default() }, None).await?;
    let livez = async || get(running.health, "/livez?verbose").await.map(|(status, _, body)| (status, body));
    // The API server sends a bookmark two seconds before it ends a watch, and so it need not be waited for a minute.
    let api: Api<ConfigMap> = Api::namespaced(client, namespace.name());
    let events = watcher(api, watcher::Config::default().timeout(4)).default_backoff();
    let watching = tokio::spawn(events.for_each(|_| std::future::ready(())));
    tokio::time::sleep(Duration::from_secs(9)).await;
    assert_eq!(metrics.silent("configmaps"), 0, "bookmarks keep a watch that nothing happens on");
    assert_eq!(livez().await?.0, 200);

    // From now on every connection is made and answered, and then silent.
    proxy.set(Silent::OlderThan(Duration::from_millis(400)));
    let began = Instant::now();
    until("the silence is noticed", 15, async || Ok(metrics.silent("configmaps") > 0)).await?;
    assert_eq!(livez().await?.0, 200, "one new watch may help");
    until("livez fails", 30, async || Ok(livez().await?.0 == 503)).await?;
    let after = began.elapsed();
    let (_, body) = livez().await?;
    println!("livez failed after {after:?} of silence, with a patience of {PATIENCE:?}: {body}");
    assert!(after > PATIENCE - Duration::from_secs(4), "{after:?}");
    let expected = format!("[-]watches failed: watch configmaps in {}: no byte for ", namespace.name());
    assert!(body.starts_with(&expected), "{body}");

    proxy.set(Silent::None);
    let took = until("livez is well again", 30, async || Ok(livez().await?.0 == 200)).await?;
    println!("well {took:?} after the proxy spoke again");
    watching.abort();
    Ok(())
}
