//! The controller as one thing that can be started: by the process, and by tests.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use engine::Key;
use engine::controller::{Controller, Options, ReconcileMetrics};
use engine::events::Events;
use engine::server::Results;
use kube::Client;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::caches::Caches;
use crate::context::{Context, Times};
use crate::memory::Memory;
use crate::reconcile::reconcile;
use crate::unit::{is_material, unit_of};

/// How the controller runs.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The cluster whose jail is written.
    pub cluster: Key,
    /// Where the jail is.
    pub jail: PathBuf,
    /// How long things take.
    pub times: Times,
    /// How many are worked on at the same time.
    pub concurrency: usize,
    /// How long the first lists may take.
    pub patience: Duration,
    /// The name of this process, in events.
    pub identity: String,
    /// Where results are counted.
    pub metrics: ReconcileMetrics,
    /// Where the last result of each is kept.
    pub results: Results,
}

impl Setup {
    /// The usual settings.
    pub fn new(cluster: Key, jail: PathBuf) -> Self {
        Self {
            cluster,
            jail,
            times: Times::default(),
            concurrency: 1,
            patience: Duration::from_secs(60),
            identity: crate::MANAGER.into(),
            metrics: ReconcileMetrics::default(),
            results: Results::default(),
        }
    }
}

/// The first lists took too long.
#[derive(Debug, thiserror::Error)]
#[error(
    "the first lists are not complete after {0:?}; the log says which watch fails: may this program list and watch \
     JailedConfigs, ConfigMaps and SlurmClusters of its namespace?"
)]
pub struct NotFilled(Duration);

/// Runs the controller until `stop`. Caches are filled at once; work begins when `elected` is true.
///
/// # Errors
///
/// The first lists take too long.
pub async fn run(
    client: Client,
    setup: Setup,
    mut elected: watch::Receiver<bool>,
    stop: CancellationToken,
) -> Result<(), NotFilled> {
    let caches = Caches::start(&client, &setup.cluster.namespace, &stop);
    match stop.run_until_cancelled(tokio::time::timeout(setup.patience, caches.ready())).await {
        Some(Ok(())) => tracing::info!("caches are filled"),
        Some(Err(_)) => return Err(NotFilled(setup.patience)),
        None => return Ok(()),
    }
    let is_elected = async { elected.wait_for(|elected| *elected).await.is_ok() };
    // Told to stop, or the election is over.
    if stop.run_until_cancelled(is_elected).await != Some(true) {
        return Ok(());
    }
    let events = Events::start(client.clone(), crate::MANAGER, &setup.identity);
    let context = Arc::new(Context {
        client,
        caches,
        events,
        cluster: setup.cluster,
        jail: setup.jail,
        times: setup.times,
        memory: Memory::default(),
    });
    let controller = Controller::new(Options {
        concurrency: setup.concurrency,
        metrics: setup.metrics,
        results: setup.results,
        ..Options::new("jailedconfig")
    });
    watch(&controller, &context);
    controller.run(stop, move |unit| reconcile(Arc::clone(&context), unit)).await;
    Ok(())
}

/// Wakes units when something of theirs changes.
fn watch(controller: &Controller, context: &Arc<Context>) {
    let known = Arc::clone(context);
    controller.watch(&context.caches.configs, move |change| {
        // A path that one gives up is another's.
        if is_material(change.before.as_deref(), change.after.as_deref()) {
            let mut units = known.units();
            units.extend(change.before.as_deref().map(unit_of));
            return units;
        }
        change.after.as_deref().map(unit_of).into_iter().collect()
    });
    let known = Arc::clone(context);
    controller.watch(&context.caches.config_maps, move |change| {
        let mut units: Vec<Key> =
            known.caches.configs_from(&change.key.name).iter().map(|config| unit_of(config)).collect();
        if change.key == known.effective_map() {
            units.extend(known.memory.waiting());
        }
        units
    });
    let known = Arc::clone(context);
    controller.watch(&context.caches.clusters, move |change| {
        // Whose a JailedConfig is depends on how many there are.
        if change.before.is_none() || change.after.is_none() {
            return known.units();
        }
        if change.key == known.cluster { known.memory.waiting() } else { Vec::new() }
    });
}
