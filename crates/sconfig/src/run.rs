//! The process: logging, client, leader election, probes and metrics, until it is told to stop.

use std::sync::Arc;

use api::nebius::{JailedConfig, SlurmCluster};
use engine::Key;
use engine::client::{self, CallMetrics, Cluster, ConnectError, WriteGate};
use engine::controller::ReconcileMetrics;
use engine::leader::{self, Claim, Election, Lost};
use engine::logging::{self, LoggingError};
use engine::required_kinds::{NotAllowed, Required, RequiredKinds};
use engine::server::{Checks, Results, Server, ServerError, Shown};
use engine::settings::Settings;
use kube::Resource as _;
use prometheus_client::registry::Registry;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::context::Times;
use crate::controller::{self, NotFilled, Setup};
use crate::options::Flags;

/// Of each thread. Decoding large objects without optimisation takes more than the usual 2 MiB; what is not used costs nothing.
const STACK: usize = 8 << 20;

/// Why the role ends before it was told to.
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
    /// The API server tells nothing.
    #[error(transparent)]
    Kinds(#[from] NotAllowed),
    /// The first lists take too long.
    #[error(transparent)]
    Caches(#[from] NotFilled),
    /// A task of ours panicked.
    #[error("a task ended early")]
    Task(#[from] JoinError),
}

/// Runs until SIGTERM or SIGINT. Then the lease is released.
///
/// # Errors
///
/// Why it ends before that.
pub fn run(settings: &Settings, flags: &Flags) -> Result<(), RunError> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().thread_stack_size(STACK).enable_all().build()?;
    runtime.block_on(work(settings, flags))
}

async fn work(settings: &Settings, flags: &Flags) -> Result<(), RunError> {
    let stopped = stop_signals()?;
    let log_level = logging::start(&settings.logging)?;
    settings.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    flags.warnings().into_iter().for_each(|warning| tracing::warn!("{warning}"));
    let cluster_key = Key::new(&flags.cluster_namespace, &flags.cluster_name);
    tracing::info!(version = env!("CARGO_PKG_VERSION"), cluster = %cluster_key, "sconfigcontroller starts");

    let (calls, reconciles, results) =
        (CallMetrics::default(), ReconcileMetrics::default(), Results::default());
    let claim = Claim::none();
    let cluster = Cluster::find().await?;
    let watches = client::Watches::default();
    let options =
        || client::Options { metrics: calls.clone(), watches: watches.clone(), ..client::Options::default() };
    let free = cluster.connect(options())?;
    let gate: Option<Arc<dyn WriteGate>> =
        if settings.leader_election.enabled { Some(Arc::new(claim.clone())) } else { None };
    let fenced = cluster.connect(client::Options { gate, ..options() })?;

    let stop = CancellationToken::new();
    let mut tasks: JoinSet<Result<(), RunError>> = JoinSet::new();
    let checks = Checks::default();
    checks.watches(&watches);
    let required = RequiredKinds::new(required());
    let missing = required.missing();
    let known = missing.clone();
    checks.ready("custom resource definitions", move || known.borrow().clone().map_or(Ok(()), Err));
    let mut registry = Registry::default();
    calls.register(&mut registry);
    reconciles.register(&mut registry);
    let shown = Shown {
        checks,
        metrics: Arc::new(registry),
        results: results.clone(),
        log_level: Some(log_level),
        service: None,
    };
    let server = Server::bind(settings, shown, Some(&free)).await?;
    let until = stop.clone();
    tasks.spawn(async move {
        server.run(until.clone()).await;
        // Without any address it has nothing to do; that is no reason to end the process.
        until.cancelled().await;
        Ok(())
    });
    tokio::select! {
        reached = cluster.reach(&free, settings.cache_sync_timeout) => reached?,
        () = stopped.cancelled() => return Ok(()),
    }
    let until = stop.clone();
    tasks.spawn(async move {
        until.run_until_cancelled(required.wait(&free)).await.unwrap_or(Ok(()))?;
        until.cancelled().await;
        Ok(())
    });
    let identity = leader::identity();
    let elected = if let Some(candidate) = settings.candidate(&identity) {
        let election = Election::new(fenced.clone(), candidate, claim);
        let elected = election.elected();
        let until = stop.clone();
        tasks.spawn(async move { Ok(election.run(until).await?) });
        elected
    } else {
        watch::Sender::new(true).subscribe()
    };
    let setup = Setup {
        times: Times { patience: flags.reconfigure_wait_timeout, ..Times::default() },
        concurrency: settings.max_concurrent_reconciles,
        patience: settings.cache_sync_timeout,
        identity,
        metrics: reconciles,
        results,
        ..Setup::new(cluster_key, flags.jail_path.clone())
    };
    let (mut defined, until) = (missing, stop.clone());
    tasks.spawn(async move {
        // Without the definitions nothing could be watched.
        let known = async { defined.wait_for(Option::is_none).await.is_ok() };
        if until.run_until_cancelled(known).await == Some(true) {
            controller::run(fenced, setup, elected, until.clone()).await?;
        }
        until.cancelled().await;
        Ok(())
    });
    let mut result = tokio::select! {
        () = stopped.cancelled() => Ok(()),
        Some(ended) = tasks.join_next() => ended?,
    };
    stop.cancel();
    while let Some(ended) = tasks.join_next().await {
        result = result.and(ended?);
    }
    tracing::info!("sconfigcontroller ends");
    result
}

fn required() -> [Required; 2] {
    [
        Required { api_version: JailedConfig::api_version(&()).into(), kind: JailedConfig::kind(&()).into() },
        Required { api_version: SlurmCluster::api_version(&()).into(), kind: SlurmCluster::kind(&()).into() },
    ]
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
