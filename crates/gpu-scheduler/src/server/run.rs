//! The process: logging, client, leader election, probes and metrics, until it is told to stop.

use std::pin::pin;
use std::sync::Arc;

use engine::client::{self, CallMetrics, Client, Cluster, ConnectError, WriteGate};
use engine::leader::{self, Claim, Election, Lost};
use engine::logging::{self, LoggingError};
use engine::server::{Checks, Results, Server, ServerError, Shown};
use engine::settings::Settings;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{Health, Options, schedule};

/// Calls under way at once: binds, events, conditions and the lease.
const CALLS_AT_ONCE: usize = 192;

/// Why the scheduler ends before it was told to.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The system refuses threads or signals.
    #[error("the system does not let this program run")]
    System(#[from] std::io::Error),
    /// Log lines cannot be written.
    #[error(transparent)]
    Logging(#[from] LoggingError),
    /// There is no API server to talk to.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// A port is taken, or a certificate cannot be used.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// Another process works now.
    #[error("this process is not the leader any more, and ends so that two never work at once")]
    Lost(#[from] Lost),
}

/// Runs the scheduler until SIGTERM or SIGINT. Then the lease is released.
///
/// # Errors
///
/// It cannot begin, or another process took over.
pub fn run(settings: &Settings, options: Options) -> Result<(), RunError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(operate(settings, options))
}

async fn operate(settings: &Settings, mut options: Options) -> Result<(), RunError> {
    let stopped = stop_signals()?;
    let log_level = logging::start(&settings.logging)?;
    settings.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        scheduler = options.core.scheduler,
        "GPU scheduler starts"
    );
    options.instance = leader::identity();
    let (calls, leads) = (CallMetrics::default(), Gauge::<i64>::default());
    let claim = Claim::none();
    let cluster = Cluster::find().await?;
    let watches = client::Watches::default();
    let gate: Option<Arc<dyn WriteGate>> =
        if settings.leader_election.enabled { Some(Arc::new(claim.clone())) } else { None };
    let fenced = cluster.connect(client::Options {
        metrics: calls.clone(),
        watches: watches.clone(),
        max_in_flight: CALLS_AT_ONCE,
        gate,
        ..client::Options::default()
    })?;

    let stop = CancellationToken::new();
    let mut tasks: JoinSet<Result<(), RunError>> = JoinSet::new();
    let (checks, health) = (Checks::default(), Health::default());
    checks.watches(&watches);
    let (live, ready) = (health.clone(), health.clone());
    checks.live("loop", move || live.live());
    checks.ready("caches", move || ready.ready());
    let mut registry = Registry::default();
    calls.register(&mut registry);
    options.metrics.register(&mut registry);
    registry.register("leader", "Whether this process is the one that works", leads.clone());
    let shown = Shown {
        checks,
        metrics: Arc::new(registry),
        results: Results::default(),
        service: Some("gpu-scheduler"),
        log_level: Some(log_level),
    };
    let server = Server::bind(settings, shown, Some(&fenced)).await?;
    let until = stop.clone();
    tasks.spawn(async move {
        server.run(until.clone()).await;
        until.cancelled().await;
        Ok(())
    });
    tokio::select! {
        reached = cluster.reach(&fenced, settings.cache_sync_timeout) => reached?,
        () = stopped.cancelled() => return Ok(()),
    }
    let election = settings
        .candidate(&options.instance)
        .map(|candidate| Election::new(fenced.clone(), candidate, claim));
    let until = stop.clone();
    tasks.spawn(async move {
        if let Some(election) = election {
            let leading = || {
                leads.set(1);
            };
            lead(election, fenced, options, health, until, leading).await?;
        } else {
            leads.set(1);
            schedule(fenced, options, health, until.clone()).await;
            until.cancelled().await;
        }
        Ok(())
    });
    finish(tasks, &stopped, &stop).await
}

/// Runs for leadership, and schedules while this process leads, until `stop`. `leads` is called when it begins to.
///
/// The lease is released when every bind has its outcome, and not before: the next one would list pods while a bind is still
/// carried out, and give its device away. Where that is not known in time, the lease is left to run out.
///
/// # Errors
///
/// Another process took over.
pub async fn lead(
    election: Election,
    client: Client,
    options: Options,
    health: Health,
    stop: CancellationToken,
    leads: impl FnOnce(),
) -> Result<(), Lost> {
    let (mut elected, release) = (election.elected(), CancellationToken::new());
    let work = async {
        let leader = async { elected.wait_for(|elected| *elected).await.is_ok() };
        if stop.run_until_cancelled(leader).await == Some(true) {
            leads();
            schedule(client, options, health.clone(), stop.clone()).await;
        }
    };
    let mut election = pin!(election.run(release.clone()));
    tokio::select! {
        ended = &mut election => return ended,
        () = work => {}
    }
    if !health.settled() {
        tracing::warn!("the lease is not released, because nobody knows yet what became of some binds");
        return Ok(());
    }
    release.cancel();
    election.await
}

/// Waits for the word to stop, or for the first task that ends; then for all others.
async fn finish(
    mut tasks: JoinSet<Result<(), RunError>>,
    stopped: &CancellationToken,
    stop: &CancellationToken,
) -> Result<(), RunError> {
    let flat = |ended: Result<Result<(), RunError>, tokio::task::JoinError>| {
        ended.unwrap_or_else(|error| Err(RunError::System(std::io::Error::other(error))))
    };
    let mut result = tokio::select! {
        () = stopped.cancelled() => {
            tracing::info!("told to stop");
            Ok(())
        }
        Some(ended) = tasks.join_next() => flat(ended),
    };
    stop.cancel();
    while let Some(ended) = tasks.join_next().await {
        result = result.and(flat(ended));
    }
    tracing::info!("GPU scheduler ends");
    result
}

/// Is cancelled when somebody tells the process to stop.
fn stop_signals() -> std::io::Result<CancellationToken> {
    let stopped = CancellationToken::new();
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let told = stopped.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
        told.cancel();
    });
    Ok(stopped)
}
