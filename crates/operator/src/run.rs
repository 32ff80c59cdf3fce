//! The process: logging, client, leader election, probes, metrics and admission, until it is told to stop.

use std::net::Ipv6Addr;
use std::sync::Arc;

use engine::Key;
use engine::admission::{self, Admission, AdmissionError, AdmissionMetrics, Configuration, Policy, Source};
use engine::client::{self, CallMetrics, Cluster, ConnectError, WriteGate};
use engine::controller::ReconcileMetrics;
use engine::leader::{self, Claim, Election, Lost};
use engine::logging::{self, LoggingError};
use engine::required_kinds::{NotAllowed, Required, RequiredKinds};
use engine::server::{Checks, Results, Server, ServerError, Shown};
use engine::settings::{Address, Certificate, Settings};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::admission::{Guards, webhooks};
use crate::controllers::{self, NotFilled, Setup};
use crate::workers::WorkerMetrics;

/// The field manager of what admission writes: its certificate, and the caBundle of the webhooks.
const MANAGER: &str = "soperator";

/// Of each thread. Decoding a SlurmCluster without optimisation takes more than the usual 2 MiB; what is not used costs nothing.
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
    /// The admission server cannot start.
    #[error(transparent)]
    Admission(#[from] AdmissionError),
    /// Another process works now.
    #[error("this process is not the leader any more, and ends so that two never work at once")]
    Lost(#[from] Lost),
    /// The API server tells nothing.
    #[error(transparent)]
    Kinds(#[from] NotAllowed),
    /// The first lists take too long.
    #[error(transparent)]
    Caches(#[from] NotFilled),
}

/// Runs until SIGTERM or SIGINT. Then requests under way are answered, and the lease is released.
pub fn run(settings: &Settings) -> Result<(), RunError> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().thread_stack_size(STACK).enable_all().build()?;
    runtime.block_on(operate(settings))
}

async fn operate(settings: &Settings) -> Result<(), RunError> {
    let stopped = stop_signals()?;
    let log_level = logging::start(&settings.logging)?;
    settings.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    tracing::info!(version = env!("CARGO_PKG_VERSION"), namespace = settings.namespace, "operator starts");

    let metrics = Metrics::default();
    let claim = Claim::none();
    let cluster = Cluster::find().await?;
    let watches = client::Watches::default();
    let calls = || client::Options {
        metrics: metrics.calls.clone(),
        watches: watches.clone(),
        ..client::Options::default()
    };
    // Admission and access to metrics are the same in every replica, so these calls are not fenced. The leader's are.
    let free = cluster.connect(calls())?;
    let gate: Option<Arc<dyn WriteGate>> =
        if settings.leader_election.enabled { Some(Arc::new(claim.clone())) } else { None };
    let fenced = cluster.connect(client::Options { gate, ..calls() })?;

    let stop = CancellationToken::new();
    let mut tasks = JoinSet::new();
    let checks = Checks::default();
    checks.watches(&watches);
    let required = RequiredKinds::new(required(settings));
    let missing = required.missing();
    let known = missing.clone();
    checks.ready("custom resource definitions", move || known.borrow().clone().map_or(Ok(()), Err));
    let results = Results::default();
    let shown = Shown {
        checks: checks.clone(),
        metrics: metrics.registry(),
        results: results.clone(),
        log_level: Some(log_level),
        service: None,
    };
    let server = Server::bind(settings, shown, Some(&free)).await?;
    let admission = match admission_options(settings, metrics.admission.clone()) {
        Some(options) => Some(Admission::bind(options).await?),
        None => None,
    };
    let until = stop.clone();
    tasks.spawn(async move {
        server.run(until.clone()).await;
        // Without any address it has nothing to do; that is no reason to end the process.
        until.cancelled().await;
        Ok(())
    });
    if let Some(admission) = &admission {
        let ready = admission.ready();
        checks.ready("admission certificate", move || certificate_check(&ready));
    }
    tokio::select! {
        reached = cluster.reach(&free, settings.cache_sync_timeout) => reached?,
        () = stopped.cancelled() => return Ok(()),
    }

    let (client, until) = (free.clone(), stop.clone());
    tasks.spawn(async move {
        until.run_until_cancelled(required.wait(&client)).await.unwrap_or(Ok(()))?;
        until.cancelled().await;
        Ok(())
    });
    let identity = leader::identity();
    let setup = Setup {
        metrics: metrics.reconciles.clone(),
        worker_metrics: metrics.workers.clone(),
        results: results.clone(),
        ..Setup::of(settings, &identity)
    };
    // Every replica answers, so it asks by itself.
    let guards = Guards::new(free.clone(), setup.links.clone(), setup.defaults.clone());
    let has_guards = admission.is_some();
    if let Some(admission) = admission {
        tracing::info!(address = %admission.address(), "admission webhooks are served");
        let (until, webhooks) = (stop.clone(), guards.add_to(webhooks()));
        tasks.spawn(async move {
            admission.run(free, webhooks, until).await;
            Ok(())
        });
    }
    let elected = if let Some(candidate) = settings.candidate(&identity) {
        let election = Election::new(fenced.clone(), candidate, claim);
        let elected = election.elected();
        tasks.spawn(show_leadership(elected.clone(), metrics.leader.clone(), stop.clone()));
        let until = stop.clone();
        tasks.spawn(async move { Ok(election.run(until).await?) });
        elected
    } else {
        metrics.leader.set(1);
        watch::Sender::new(true).subscribe()
    };
    if has_guards {
        let (elected, until) = (elected.clone(), stop.clone());
        tasks.spawn(async move {
            guards.run(elected, until).await;
            Ok(())
        });
    }
    if setup.is_needed() {
        if setup.defaults.agent_image.is_empty() {
            tracing::warn!(
                "images.agent is not set (SOPERATOR_AGENT_IMAGE): Slurm pods cannot start without it"
            );
        }
        let (mut defined, until) = (missing, stop.clone());
        tasks.spawn(async move {
            // Without the definitions nothing could be watched.
            let known = async { defined.wait_for(Option::is_none).await.is_ok() };
            if until.run_until_cancelled(known).await == Some(true) {
                controllers::run(fenced, setup, elected, until.clone()).await?;
            }
            until.cancelled().await;
            Ok(())
        });
    }
    finish(tasks, &stopped, &stop).await
}

/// Waits for the word to stop, or for the first task that ends; then for all others.
async fn finish(
    mut tasks: JoinSet<Result<(), RunError>>,
    stopped: &CancellationToken,
    stop: &CancellationToken,
) -> Result<(), RunError> {
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
    tracing::info!("operator ends");
    result
}

fn flat(ended: Result<Result<(), RunError>, tokio::task::JoinError>) -> Result<(), RunError> {
    ended.unwrap_or_else(|error| Err(RunError::System(std::io::Error::other(error))))
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

/// The kinds of the groups that the chosen controllers serve; the other group's may not be installed.
fn required(settings: &Settings) -> Vec<Required> {
    let slinky = |name: &str| name.starts_with("slinky-");
    let serves = |kind: &api::Kind| {
        let of_slinky = kind.api_version.starts_with(api::slinky::GROUP);
        settings.controllers.names().any(|name| slinky(name) == of_slinky)
    };
    let kinds = api::kinds().into_iter().filter(serves);
    kinds.map(|kind| Required { api_version: kind.api_version, kind: kind.name }).collect()
}

fn certificate_check(ready: &watch::Receiver<bool>) -> Result<(), String> {
    if *ready.borrow() {
        Ok(())
    } else {
        Err("there is no certificate that the API server trusts yet".into())
    }
}

/// How admission is served; none if it is not.
fn admission_options(settings: &Settings, metrics: AdmissionMetrics) -> Option<admission::Options> {
    let webhooks = &settings.webhooks;
    let address = match webhooks.address {
        _ if !webhooks.enabled => return None,
        Address::Off => return None,
        Address::Everywhere(port) => (Ipv6Addr::UNSPECIFIED, port).into(),
        Address::At(address) => address,
    };
    let secret = Key::new(&settings.namespace, &webhooks.secret);
    let mut policy = Policy::for_service(&webhooks.service, &settings.namespace);
    policy.names.extend(webhooks.hosts.iter().cloned());
    let source = match webhooks.certificate {
        Certificate::Own => Source::Own { secret, policy },
        Certificate::CertManager => Source::CertManager { secret, names: policy.names },
        Certificate::Secret => Source::Secret(secret),
    };
    let name = &webhooks.configuration;
    let configurations = vec![Configuration::validating(name), Configuration::mutating(name)];
    Some(admission::Options { address, metrics, ..admission::Options::new(MANAGER, source, configurations) })
}

async fn show_leadership(
    mut elected: watch::Receiver<bool>,
    gauge: Gauge,
    stop: CancellationToken,
) -> Result<(), RunError> {
    loop {
        gauge.set(i64::from(*elected.borrow_and_update()));
        match stop.run_until_cancelled(elected.changed()).await {
            Some(Ok(())) => {}
            // The election is over, and the process with it.
            _ => {
                stop.cancelled().await;
                return Ok(());
            }
        }
    }
}

/// What the process counts.
#[derive(Default)]
struct Metrics {
    calls: CallMetrics,
    admission: AdmissionMetrics,
    reconciles: ReconcileMetrics,
    workers: WorkerMetrics,
    leader: Gauge,
}

impl Metrics {
    fn registry(&self) -> Arc<Registry> {
        let mut registry = Registry::default();
        self.calls.register(&mut registry);
        self.admission.register(&mut registry);
        self.reconciles.register(&mut registry);
        self.workers.register(&mut registry);
        registry.register("leader", "Whether this process is the one that works", self.leader.clone());
        Arc::new(registry)
    }
}

#[cfg(test)]
mod tests {
    use engine::settings::{Flags, Profile, World, load};

    use super::*;

    const ALL: &[&str] = &["nodeset", "slinky-cluster", "slinky-nodeset", "slurmcluster"];

    fn kinds_of(controllers: &'static [&'static str]) -> Vec<String> {
        let profile = Profile::new("operator", "lease").with_controllers(controllers);
        let settings =
            load(&profile, &Flags::default(), &World { env: &|_| None, ..World::default() }).unwrap();
        required(&settings).into_iter().map(|kind| format!("{}/{}", kind.api_version, kind.kind)).collect()
    }

    #[test]
    fn only_the_groups_that_are_served_are_waited_for() {
        assert_eq!(kinds_of(ALL).len(), api::kinds().len());
        let slinky = kinds_of(&["slinky-nodeset"]);
        assert_eq!(slinky, ["slinky.slurm.net/v1alpha1/Cluster", "slinky.slurm.net/v1alpha1/NodeSet"]);
        assert!(kinds_of(&["slurmcluster"]).contains(&"slurm.nebius.ai/v1/SlurmCluster".into()));
    }

    #[test]
    fn webhooks_that_are_off_have_no_server() {
        let profile = Profile::new("operator", "lease").with_controllers(ALL);
        let options = |env: &dyn Fn(&str) -> Option<String>| {
            let settings = load(&profile, &Flags::default(), &World { env, ..World::default() }).unwrap();
            admission_options(&settings, AdmissionMetrics::default())
        };
        let off = |name: &str| (name == "ENABLE_WEBHOOKS").then(|| "false".to_string());
        assert!(options(&off).is_none());
        let Some(Source::Own { secret, policy }) = options(&|_| None).map(|options| options.source) else {
            panic!("an own authority is the default")
        };
        assert_eq!(&*secret.name, "lease-webhook-tls");
        assert!(policy.names[0].starts_with("lease-webhook."), "{:?}", policy.names);
    }
}
