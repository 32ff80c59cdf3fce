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

use crate::core::{self, Assignment, BindError, Core, Decision, Time};
use crate::facts::{Pod, Uid};
pub use bind::Patience;
use bind::{Done, Outcome};
use caches::{Caches, News};
use limit::Limit;
pub use metrics::Metrics;
pub use run::{RunError, lead, run};
use tell::Teller;

/// The loop shows that it lives at least this often.
const BEAT: Duration = Duration::from_secs(10);
/// A loop that has not shown that it lives for so long is stuck.
const STUCK: Duration = Duration::from_secs(60);
/// So long a scheduler that is told to stop waits for the answers to its binds.
const LAST_BINDS: Duration = Duration::from_secs(5);
/// So many binds at most are repeated beside those that are under way.
const MOST_REPEATED: usize = 64;
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
    /// How long a bind is waited for that gets no clear answer.
    pub patience: Patience,
    /// What it counts.
    pub metrics: Metrics,
}

impl Options {
    /// The usual ones for a way to decide.
    pub fn new(core: core::Options) -> Self {
        let metrics = Metrics::new(&core.scheduler);
        Self {
            core,
            max_in_flight: 64,
            events: true,
            instance: engine::leader::identity(),
            patience: Patience::default(),
            metrics,
        }
    }
}

/// Whether a scheduler lives and is ready, as probes ask.
#[derive(Clone, Debug)]
pub struct Health {
    begun: Instant,
    beat: Arc<AtomicU64>,
    works: Arc<AtomicBool>,
    filled: Arc<AtomicBool>,
    unsettled: Arc<AtomicBool>,
}

impl Default for Health {
    fn default() -> Self {
        Self {
            begun: Instant::now(),
            beat: Arc::default(),
            works: Arc::default(),
            filled: Arc::default(),
            unsettled: Arc::default(),
        }
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

    /// Whether it is known of every bind of a scheduler that has ended what became of it.
    fn settled(&self) -> bool {
        !self.unsettled.load(Ordering::Relaxed)
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

/// A bind that is over, or takes too long.
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
    /// Binds of which nobody knows what became of them. They are in nobody's way, but their devices are not free.
    unclear: JoinSet<(Assignment, Outcome, Duration)>,
    patience: Patience,
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
        let caches = Arc::new(caches);
        let teller = Teller::start(
            &client,
            &caches,
            &options.core.scheduler,
            &options.instance,
            options.events,
            &options.metrics,
            sender,
        );
        Self {
            client,
            core: Core::new(options.core),
            caches,
            binds: JoinSet::new(),
            unclear: JoinSet::new(),
            patience: options.patience,
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
                Some(settled) = self.unclear.join_next() => match settled {
                    Ok((assignment, outcome, took)) => self.settled(assignment, outcome, took),
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
                        if refusal.news {
                            self.tell(&refusal.pod, "Scheduling", "Unschedulable", &refusal.message);
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
        // The server would bind it all the same, and the garbage collector would delete the pod.
        if self.core.nodes().get(&assignment.node).is_none() {
            tracing::info!(pod = %name(&assignment), node = %assignment.node, "a node went before a pod was bound to it");
            let now = self.now();
            return self.core.bind_failed(&assignment.pod.uid, &BindError::Again(Duration::ZERO), now);
        }
        let (client, patience) = (self.client.clone(), self.patience);
        self.binds.spawn(async move {
            let begun = Instant::now();
            let done = bind::bind(&client, &assignment, patience).await;
            Ended { assignment, done, took: begun.elapsed() }
        });
    }

    /// A bind left its place.
    fn ended(&mut self, ended: Ended) {
        let Ended { assignment, done, took } = ended;
        let now = self.now();
        if done.overload {
            self.limit.refused(now);
        } else {
            self.limit.answered(took, now);
        }
        match done.outcome {
            Err(unclear) => {
                self.metrics.attempted("error", took);
                let text = format!("binding to {} got no clear answer: {}", assignment.node, unclear.why);
                self.trouble(&assignment, text);
                let (client, mut patience) = (self.client.clone(), self.patience);
                // Where many fail, repetitions would only be a burden.
                if self.unclear.len() >= MOST_REPEATED {
                    patience.repeats = Duration::ZERO;
                }
                self.unclear.spawn(async move {
                    let begun = Instant::now();
                    let outcome = bind::settle(&client, &assignment, unclear, patience).await;
                    (assignment, outcome, took + begun.elapsed())
                });
            }
            Ok(outcome) => {
                if !matches!(outcome, Outcome::Bound) {
                    self.metrics.attempted("error", took);
                }
                self.settled(assignment, outcome, took);
            }
        }
    }

    /// It is known what became of a bind.
    fn settled(&mut self, assignment: Assignment, outcome: Outcome, took: Duration) {
        let (now, uid) = (self.now(), &assignment.pod.uid);
        match outcome {
            Outcome::Bound => {
                self.metrics.bound(took, assignment.attempts, now.saturating_sub(assignment.since));
                self.teller.bound(&assignment.pod, &assignment.node);
                if self.core.nodes().get(&assignment.node).is_none() {
                    tracing::warn!(
                        pod = %name(&assignment),
                        node = %assignment.node,
                        "a node went while a pod was bound to it; the pod will be removed by the garbage collector"
                    );
                }
                if let Some(warning) = assignment.warning {
                    self.teller.warn(&assignment.pod, warning);
                }
            }
            Outcome::Not(error) => self.core.bind_failed(uid, &error, now),
            Outcome::Rejected(error, why) => {
                let text = format!("binding to {} was refused: {why}", assignment.node);
                self.trouble(&assignment, text);
                self.core.bind_failed(uid, &error, now);
            }
        }
    }

    /// Tells that a bind did not succeed, if that is news.
    fn trouble(&mut self, assignment: &Assignment, text: String) {
        let Some(trouble) = self.core.bind_trouble(&assignment.pod.uid, text) else { return };
        tracing::warn!(
            pod = %name(assignment), node = %assignment.node, message = trouble.message,
            "a pod could not be bound"
        );
        self.tell(&trouble.pod, "Binding", trouble.reason, &trouble.message);
    }

    /// Tells why a pod waits: event and condition.
    fn tell(&mut self, pod: &Arc<Pod>, action: &'static str, reason: &'static str, message: &str) {
        if !self.teller.waits(pod, action, reason, message) {
            self.core.not_told(&pod.uid);
        }
    }

    /// Waits a moment for binds under way, so that it is known what became of them.
    async fn finish(mut self) {
        let all = async {
            while let Some(ended) = self.binds.join_next().await {
                if let Ok(ended) = ended {
                    self.ended(ended);
                }
            }
        };
        let in_time = tokio::time::timeout(LAST_BINDS, all).await.is_ok();
        self.health.unsettled.store(!in_time || !self.unclear.is_empty(), Ordering::Relaxed);
    }
}

/// A pod as log lines name it.
fn name(assignment: &Assignment) -> String {
    format!("{}/{}", assignment.pod.namespace, assignment.pod.name)
}
