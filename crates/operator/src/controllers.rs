//! The controllers of the operator, as one thing that can be started: by the process, and by tests.

use std::sync::Arc;
use std::time::Duration;

use engine::Scope;
use engine::controller::{Options, ReconcileMetrics};
use engine::events::Events;
use engine::optional_kinds::Overrides;
use engine::server::Results;
use engine::settings::Settings;
use kube::Client;
use render::Defaults;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::caches::{Caches, Groups};
use crate::context::Context;
use crate::slurm_links::SlurmLinks;
use crate::workers::WorkerMetrics;
use crate::{nodeset, slinky_cluster, slinky_nodeset, slurmcluster};

/// The controllers that are built.
const BUILT: [&str; 4] = [nodeset::NAME, slinky_cluster::NAME, slinky_nodeset::NAME, slurmcluster::NAME];

/// How the controllers run.
pub struct Setup {
    /// The namespaces that they look at.
    pub scope: Scope,
    /// The controllers that run, by name.
    pub controllers: Vec<&'static str>,
    /// Which optional kinds the user says are there, or not.
    pub overrides: Overrides,
    /// Settings that clusters fall back to.
    pub defaults: Defaults,
    /// How long the first lists may take.
    pub patience: Duration,
    /// How many objects of one kind are worked on at the same time.
    pub concurrency: usize,
    /// Types of conditions of Kubernetes nodes that tell Slurm why a node is drained.
    pub node_conditions: Vec<String>,
    /// The links to Slurm.
    pub links: SlurmLinks,
    /// The name of this process, in events.
    pub identity: String,
    /// Where results are counted.
    pub metrics: ReconcileMetrics,
    /// What is counted of sets of workers.
    pub worker_metrics: WorkerMetrics,
    /// Where the last result of each object is kept.
    pub results: Results,
}

impl Setup {
    /// All controllers, with the usual settings.
    pub fn new(scope: Scope, overrides: Overrides, defaults: Defaults) -> Self {
        Self {
            scope,
            controllers: BUILT.to_vec(),
            overrides,
            defaults,
            patience: Duration::from_secs(120),
            concurrency: 1,
            node_conditions: Vec::new(),
            links: SlurmLinks::default(),
            identity: "soperator".into(),
            metrics: ReconcileMetrics::default(),
            worker_metrics: WorkerMetrics::default(),
            results: Results::default(),
        }
    }

    /// As the settings of the process say.
    pub fn of(settings: &Settings, identity: &str) -> Self {
        let images = &settings.images;
        let defaults = Defaults {
            agent_image: images.agent.clone().unwrap_or_default(),
            slurmrestd_image: images.slurmrestd.clone(),
            mariadb_image: images.mariadb.clone(),
            cluster_domain: settings.cluster_domain.clone(),
            ..Defaults::default()
        };
        Self {
            controllers: settings.controllers.names().collect(),
            patience: settings.cache_sync_timeout,
            concurrency: settings.max_concurrent_reconciles,
            node_conditions: settings.node_conditions.clone(),
            identity: identity.into(),
            ..Self::new(settings.watch.clone(), settings.optional_kinds, defaults)
        }
    }

    fn runs(&self, name: &str) -> bool {
        self.controllers.contains(&name)
    }

    /// Whether any of the controllers that are built runs.
    pub fn is_needed(&self) -> bool {
        BUILT.iter().any(|name| self.runs(name))
    }

    fn options(&self, name: &'static str) -> Options {
        Options {
            concurrency: self.concurrency,
            metrics: self.metrics.clone(),
            results: self.results.clone(),
            ..Options::new(name)
        }
    }
}

/// The first lists took too long.
#[derive(Debug, thiserror::Error)]
#[error(
    "the first lists are not complete after {0:?}; the log says which watch fails: may this program list and watch all \
     kinds that it works with?"
)]
pub struct NotFilled(Duration);

/// Runs the controllers until `stop`. Caches are filled at once; work begins when `elected` is true.
pub async fn run(
    client: Client,
    setup: Setup,
    mut elected: watch::Receiver<bool>,
    stop: CancellationToken,
) -> Result<(), NotFilled> {
    let caches = Caches::start(&client, &setup.scope, Groups::of(&setup.controllers), setup.overrides, &stop);
    let all = async { tokio::join!(caches.ready(), caches.ready_beyond_namespaces()) };
    let filled = tokio::time::timeout(setup.patience, all);
    match stop.run_until_cancelled(filled).await {
        Some(Ok(_)) => tracing::info!("caches are filled"),
        Some(Err(_)) => return Err(NotFilled(setup.patience)),
        None => return Ok(()),
    }
    let elected = async { elected.wait_for(|elected| *elected).await.is_ok() };
    // Told to stop, or the election is over.
    if stop.run_until_cancelled(elected).await != Some(true) {
        return Ok(());
    }
    let events = Events::start(client.clone(), crate::MANAGER, &setup.identity);
    let options = BUILT.map(|name| setup.runs(name).then(|| setup.options(name)));
    let context = Context::new(
        client,
        caches,
        events,
        setup.defaults,
        setup.links,
        setup.worker_metrics,
        setup.node_conditions,
    );
    let mut tasks = JoinSet::new();
    for options in options.into_iter().flatten() {
        let (context, stop) = (Arc::clone(&context), stop.clone());
        match options.name {
            nodeset::NAME => tasks.spawn(nodeset::run(context, options, stop)),
            slinky_cluster::NAME => tasks.spawn(slinky_cluster::run(context, options, stop)),
            slinky_nodeset::NAME => tasks.spawn(slinky_nodeset::run(context, options, stop)),
            _ => tasks.spawn(slurmcluster::run(context, options, stop)),
        };
    }
    while let Some(ended) = tasks.join_next().await {
        if let Err(error) = ended {
            tracing::error!(%error, "a controller ended early");
        }
    }
    Ok(())
}
