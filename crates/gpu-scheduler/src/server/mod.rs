//! The scheduler at work: watches feed the core, and what it decides is carried out.

mod bind;
mod caches;
mod limit;
mod metrics;
mod run;
mod tell;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use engine::Key;
use engine::client::Client;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::core::{self, Assignment, Core, Decision, Time};
use crate::facts::Uid;
use bind::{Done, Outcome};
use caches::{Caches, News};
use limit::Limit;
pub use metrics::Metrics;
pub use run::{RunError, run};
use tell::Teller;

/// The loop shows that it lives at least this often.
const BEAT: Duration = Duration::from_secs(10);
/// A loop that has not shown that it lives for so long is stuck.
const STUCK: Duration = Duration::from_secs(60);
/// News that are taken in one go before pods are looked at.
const BATCH: usize = 4096;

/// How a scheduler works.
#[derive(Clone, Debug)]
pub struct Options {
    /// What it decides by.
    pub core: core::Options,
    /// How many binds may be under way at most.
    pub max_in_flight: usize,
    /// Whether events are sent.
    pub events: bool,
    /// The name of this process.
    pub instance: String,
    /// What it counts.
    pub metrics: Metrics,
}

impl Options {
    /// The usual ones for a way to decide.
    pub fn new(core: core::Options) -> Self {
        let metrics = Metrics::new(&core.scheduler);
        Self { core, max_in_flight: 64, events: true, instance: engine::leader::identity(), metrics }
    }
}

/// Whether a scheduler lives and is ready, as probes ask.
#[derive(Clone, Debug)]
pub struct Health {
    begun: Instant,
    beat: Arc<AtomicU64>,
    works: Arc<AtomicBool>,
    filled: Arc<AtomicBool>,
}

impl Default for Health {
    fn default() -> Self {
        Self { begun: Instant::now(), beat: Arc::default(), works: Arc::default(), filled: Arc::default() }
    }
}

impl Health {
    fn beat(&self) {
        self.beat.store(self.begun.elapsed().as_secs(), Ordering::Relaxed);
    }

    /// An error if the loop is stuck. One that has not begun, because another process works or lists take long, is not.
    pub fn live(&self) -> Result<(), String> {
        let silent = self.begun.elapsed().as_secs().saturating_sub(self.beat.load(Ordering::Relaxed));
        if self.filled.load(Ordering::Relaxed) && silent > STUCK.as_secs() {
            return Err(format!("the loop has not moved for {silent} s"));
        }
        Ok(())
    }

    /// An error while the first lists are not complete. One that stands by is ready to take over.
    pub fn ready(&self) -> Result<(), String> {
        if self.works.load(Ordering::Relaxed) && !self.filled.load(Ordering::Relaxed) {
            return Err("the first lists are not complete".into());
        }
        Ok(())
    }
}

/// Schedules until `stop`. To be called when this process is elected, and not before: the first lists are then younger than
/// all that a predecessor bound, so that none of its devices is given away twice.
pub async fn schedule(client: Client, options: Options, health: Health, stop: CancellationToken) {
    health.beat();
    health.works.store(true, Ordering::Relaxed);
    let (sender, mut news) = mpsc::unbounded_channel();
    let caches = Caches::start(&client, &sender, &stop);
    let mut scheduler = Scheduler::new(client, options, health, caches);
    let filling = Arc::clone(&scheduler.caches);
    tokio::select! {
        () = filling.ready() => {}
        () = scheduler.take_only(&mut news) => return,
        () = stop.cancelled() => return,
    }
    // All of it: a device whose owner is still among the news would be given away.
    scheduler.take_some(&mut news, usize::MAX);
    scheduler.health.filled.store(true, Ordering::Relaxed);
    let (pods, nodes, _) = scheduler.core.sizes();
    tracing::info!(pods, nodes, devices = scheduler.core.ledger().len(), "scheduling begins");
    stop.run_until_cancelled(scheduler.work(&mut news)).await;
    scheduler.finish().await;
}

/// A bind that is over.
struct Ended {
    assignment: Assignment,
    done: Done,
    took: Duration,
}

struct Scheduler {
    client: Client,
    core: Core,
    caches: Arc<Caches>,
    binds: JoinSet<Ended>,
    /// Members of gangs that were decided together, and wait for their turn.
    waiting: std::collections::VecDeque<Assignment>,
    limit: Limit,
    teller: Teller,
    untold: mpsc::UnboundedReceiver<Uid>,
    metrics: Metrics,
    health: Health,
    begun: Instant,
}

impl Scheduler {
    fn new(client: Client, options: Options, health: Health, caches: Caches) -> Self {
        let (sender, untold) = mpsc::unbounded_channel();
        let teller = Teller::start(
            &client,
            &options.core.scheduler,
            &options.instance,
            options.events,
            &options.metrics,
            sender,
        );
        Self {
            client,
            core: Core::new(options.core),
            caches: Arc::new(caches),
            binds: JoinSet::new(),
            waiting: std::collections::VecDeque::new(),
            limit: Limit::new(options.max_in_flight),
            teller,
            untold,
            metrics: options.metrics,
            health,
            begun: Instant::now(),
        }
    }

    fn now(&self) -> Time {
        self.begun.elapsed()
    }

    /// Takes news for ever, and decides nothing.
    async fn take_only(&mut self, news: &mut mpsc::UnboundedReceiver<News>) {
        while let Some(one) = news.recv().await {
            self.health.beat();
            let now = self.now();
            one.tell(&mut self.core, now);
        }
    }

    /// Takes what is there, up to a number.
    fn take_some(&mut self, news: &mut mpsc::UnboundedReceiver<News>, most: usize) {
        let now = self.now();
        for _ in 0..most {
            let Ok(one) = news.try_recv() else { return };
            one.tell(&mut self.core, now);
        }
    }

    async fn work(&mut self, news: &mut mpsc::UnboundedReceiver<News>) {
        loop {
            self.health.beat();
            self.take_some(news, BATCH);
            self.decide();
            self.metrics.show(&self.core, self.binds.len(), self.limit.get());
            // Without room for binds nothing can be done about what is due; an answer makes room.
            let due = match self.core.next_time() {
                Some(time) if self.binds.len() < self.limit.get() => {
                    time.saturating_sub(self.now()).min(BEAT)
                }
                _ => BEAT,
            };
            tokio::select! {
                Some(ended) = self.binds.join_next() => match ended {
                    Ok(ended) => self.ended(ended),
                    Err(error) => tracing::error!(%error, "a bind ended early, which is a bug"),
                },
                Some(one) = news.recv() => {
                    let now = self.now();
                    one.tell(&mut self.core, now);
                }
                Some(uid) = self.untold.recv() => self.core.not_told(&uid),
                () = tokio::time::sleep(due) => self.metrics.show_ledger(&self.core),
            }
        }
    }

    /// Decides about pods as long as there is room for binds.
    fn decide(&mut self) {
        let mut decisions = Vec::new();
        while self.binds.len() < self.limit.get() {
            if let Some(assignment) = self.waiting.pop_front() {
                self.send(assignment);
                continue;
            }
            let now = self.now();
            if !self.core.decide(now, &mut decisions) {
                return;
            }
            let took = self.now().saturating_sub(now);
            self.metrics.decided(took);
            for decision in decisions.drain(..) {
                match decision {
                    Decision::Bind(assignment) => self.waiting.push_back(assignment),
                    Decision::Refuse(refusal) => {
                        self.metrics.refused(&refusal.plugins, took);
                        if refusal.news && !self.teller.refused(&refusal.pod, &refusal.message) {
                            self.core.not_told(&refusal.pod.uid);
                        }
                    }
                    Decision::Select { pod, node, claims } => {
                        let key = |claim: &str| Key::new(&pod.namespace, claim);
                        for claim in claims.iter().filter_map(|claim| self.caches.claims.get(&key(claim))) {
                            let (client, node) = (self.client.clone(), node.clone());
                            tokio::spawn(async move { tell::select_node(&client, &claim, &node).await });
                        }
                    }
                }
            }
        }
    }

    fn send(&mut self, assignment: Assignment) {
        let client = self.client.clone();
        self.binds.spawn(async move {
            let begun = Instant::now();
            let done = bind::bind(&client, &assignment).await;
            Ended { assignment, done, took: begun.elapsed() }
        });
    }

    fn ended(&mut self, ended: Ended) {
        let Ended { assignment, done, took } = ended;
        let (now, uid) = (self.now(), &assignment.pod.uid);
        if done.overload {
            self.limit.refused(now);
        } else {
            self.limit.answered(took, now);
        }
        let (attempts, seen) = self.core.history(uid);
        match done.outcome {
            Outcome::Bound => {
                self.metrics.bound(took, attempts, seen.map(|seen| now.saturating_sub(seen)));
                self.teller.bound(&assignment.pod, &assignment.node);
                if let Some(warning) = assignment.warning {
                    self.teller.warn(&assignment.pod, warning);
                }
                if self.core.nodes().get(&assignment.node).is_none() {
                    tracing::warn!(
                        pod = %format!("{}/{}", assignment.pod.namespace, assignment.pod.name),
                        node = %assignment.node,
                        "a node went while a pod was bound to it; the pod will be removed by the garbage collector"
                    );
                }
            }
            Outcome::Not(error) => {
                self.metrics.attempted("error", took);
                self.core.bind_failed(uid, &error, now);
            }
            Outcome::Rejected(error, why) => {
                self.metrics.attempted("error", took);
                tracing::warn!(
                    pod = %format!("{}/{}", assignment.pod.namespace, assignment.pod.name), node = %assignment.node, error = why,
                    "the API server refuses a bind"
                );
                self.teller.rejected(&assignment.pod, &assignment.node, &why);
                self.core.bind_failed(uid, &error, now);
            }
        }
    }

    /// Waits a moment for binds under way, so that their outcome is told.
    async fn finish(mut self) {
        let all = async {
            while let Some(ended) = self.binds.join_next().await {
                if let Ok(ended) = ended {
                    self.ended(ended);
                }
            }
        };
        let _ = tokio::time::timeout(Duration::from_secs(2), all).await;
    }
}
