//! Reads nodes and jobs again and again, once for every consumer in a process.
//!
//! One task reads the nodes and then the jobs, so no path ever has two requests in flight, and the jobs of a snapshot are
//! always younger than its nodes. Readers take the last snapshot and look at its age; nobody blocks on a call,
//! and no lock is held across one.

mod pace;
mod subscribe;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use slurm::{Interner, Moment, Reading};
use tokio::sync::{Notify, broadcast, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};

pub use pace::Pace;
use pace::{Outcome, Rhythm};
pub use subscribe::{Changed, Subscription};

use crate::client::{Client, JobsRead, Repeat};
use crate::clock;
use crate::error::Error;
use crate::snapshot::{Collector, Snapshot, by_id, by_name};

/// So many changes wait for a subscriber before it is told "everything".
const WAITING_CHANGES: usize = 64;

/// Reads nodes and jobs of one cluster until it is dropped.
///
/// ```no_run
/// use std::time::Duration;
/// use slurm_client::{Client, FileToken, Pace, Poller};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::new("http://slurm-rest:6820".parse()?, FileToken::new("/run/slurm/token"))?;
/// let poller = Poller::start(client, Pace::default());
/// let snapshot = poller.refresh(Duration::from_secs(10)).await?;
/// if snapshot.occupancy("worker-0", Duration::from_secs(10)).is_free() {
///     println!("worker-0 can go");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Poller {
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    latest: watch::Sender<Option<Arc<Snapshot>>>,
    health: watch::Sender<Health>,
    changes: broadcast::Sender<Changed>,
    /// How many want to see changes soon.
    waiting: AtomicUsize,
    /// A look is wanted now, with the full list of jobs.
    wanted: watch::Sender<Moment>,
    wake: Notify,
    /// Something was changed in Slurm: the next look should come soon.
    soon: Notify,
    /// The credential has changed: what failed before says nothing any more.
    anew: AtomicBool,
}

/// How reading goes.
#[derive(Clone, Debug, Default)]
pub struct Health {
    /// How many looks failed since the last one that did not.
    pub failures: u32,
    /// What the last failure was; none if the last look did not fail.
    pub error: Option<Arc<Error>>,
    /// How many looks there were, of whatever outcome.
    pub looks: u64,
}

/// No snapshot as young as was asked for.
#[derive(Clone, Debug, thiserror::Error)]
#[error("Slurm gave no new answer in time{}", .0.as_ref().map(|error| format!(": {error}")).unwrap_or_default())]
pub struct Stale(pub Option<Arc<Error>>);

/// While it lives, the poller looks often.
#[derive(Debug)]
pub struct WatchGuard(Arc<Shared>);

impl Drop for WatchGuard {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Poller {
    /// Begins to read. Must be called in a runtime.
    pub fn start(client: Client, pace: Pace) -> Self {
        let shared = Arc::new(Shared {
            latest: watch::Sender::new(None),
            health: watch::Sender::new(Health::default()),
            changes: broadcast::Sender::new(WAITING_CHANGES),
            waiting: AtomicUsize::new(0),
            wanted: watch::Sender::new(Moment::default()),
            wake: Notify::new(),
            soon: Notify::new(),
            anew: AtomicBool::new(false),
        });
        // The poller has its own pauses after failures.
        let reader = Reader::new(client.without_retries(), pace);
        let task = tokio::spawn(run(Arc::clone(&shared), reader));
        Self { shared, task }
    }

    /// The last snapshot; none before the first answer. It stays when reading fails, and gets older.
    pub fn latest(&self) -> Option<Arc<Snapshot>> {
        self.shared.latest.borrow().clone()
    }

    /// How reading goes.
    pub fn health(&self) -> Health {
        self.shared.health.borrow().clone()
    }

    /// Follows how reading goes: it changes with every look.
    pub fn watch_health(&self) -> watch::Receiver<Health> {
        self.shared.health.subscribe()
    }

    /// Makes the next look come soon, as after a change: something was changed in Slurm.
    pub fn look_soon(&self) {
        self.shared.soon.notify_one();
    }

    /// Looks at once, and forgets earlier failures: the credential is another one now.
    pub fn look_anew(&self) {
        self.shared.anew.store(true, Ordering::Relaxed);
        self.shared.wake.notify_one();
    }

    /// Tells which nodes change from now on.
    pub fn subscribe(&self) -> Subscription {
        Subscription::new(self.shared.changes.subscribe())
    }

    /// Makes the poller look often, until the guard is dropped: somebody waits for a drain.
    pub fn watch_closely(&self) -> WatchGuard {
        self.shared.waiting.fetch_add(1, Ordering::Relaxed);
        self.shared.wake.notify_one();
        WatchGuard(Arc::clone(&self.shared))
    }

    /// A snapshot that was asked for after this call, with all jobs read anew: for the look just before a deletion.
    ///
    /// Calls that come while a look goes on share the next one.
    pub async fn refresh(&self, limit: Duration) -> Result<Arc<Snapshot>, Stale> {
        self.refresh_after(clock::now(), limit).await
    }

    /// A snapshot that was asked for after this moment, with all jobs read anew.
    pub async fn refresh_after(&self, moment: Moment, limit: Duration) -> Result<Arc<Snapshot>, Stale> {
        self.shared.wanted.send_if_modified(|wanted| {
            let later = moment > *wanted;
            *wanted = moment.max(*wanted);
            later
        });
        self.shared.wake.notify_one();
        let mut latest = self.shared.latest.subscribe();
        let fresh = latest
            .wait_for(|snapshot| snapshot.as_ref().is_some_and(|snapshot| snapshot.full_look() >= moment));
        match timeout(limit, fresh).await {
            Ok(Ok(snapshot)) => snapshot.clone().ok_or(Stale(None)),
            Ok(Err(_)) | Err(_) => Err(Stale(self.health().error)),
        }
    }
}

impl Drop for Poller {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Client {
    /// Nodes and jobs of now, for those who look once. Everyone else shares a [`Poller`].
    pub async fn snapshot(&self) -> Result<Snapshot, Error> {
        self.repeat(Repeat::Transient, || async {
            Reader::new(self.without_retries(), Pace::default()).look(None, true).await
        })
        .await
    }
}

async fn run(shared: Arc<Shared>, mut reader: Reader) {
    let mut rhythm = Rhythm::new(reader.pace);
    loop {
        let began = Instant::now();
        let old = shared.latest.borrow().clone();
        let wanted = *shared.wanted.borrow();
        // Somebody wants all jobs anew, and has not got them yet.
        let full = old.as_ref().is_none_or(|old| old.full_look() < wanted);
        let outcome = match reader.look(old.as_deref(), full).await {
            Ok(snapshot) => publish(&shared, old.as_deref(), snapshot),
            Err(error) => {
                let outcome = Outcome::of(&error);
                fail(&shared, error);
                outcome
            }
        };
        drop(old);
        reader.interner.shrink();
        let waited_for = shared.waiting.load(Ordering::Relaxed) > 0;
        let (ended, took) = (Instant::now(), began.elapsed());
        let mut next = ended + rhythm.after(outcome, took, waited_for, fastrand::f64());
        loop {
            tokio::select! {
                () = sleep_until(next) => break,
                () = shared.wake.notified() => {
                    // After a failure not even a request for a look makes it come at once.
                    if outcome.is_failure() {
                        sleep_until(next.min(began + reader.pace.fast)).await;
                    }
                    break;
                }
                () = shared.soon.notified(), if !outcome.is_failure() => {
                    next = next.min(ended + reader.pace.shortest_after(took));
                }
            }
        }
        if shared.anew.swap(false, Ordering::Relaxed) {
            rhythm = Rhythm::new(reader.pace);
        }
    }
}

fn publish(shared: &Shared, old: Option<&Snapshot>, new: Snapshot) -> Outcome {
    let changed = match old {
        Some(old) if old.cluster() == new.cluster() => {
            let names = old.changed_nodes(&new);
            (!names.is_empty()).then(|| Changed::Nodes(names.into_iter().collect()))
        }
        // The first answer, or that of another cluster.
        _ => Some(Changed::Everything),
    };
    shared.latest.send_replace(Some(Arc::new(new)));
    shared.health.send_modify(|health| {
        *health = Health { failures: 0, error: None, looks: health.looks + 1 };
    });
    // The snapshot is there before anyone hears of it.
    let Some(changed) = changed else { return Outcome::Same };
    // Nobody may be listening.
    let _ = shared.changes.send(changed);
    Outcome::Changed
}

fn fail(shared: &Shared, error: Error) {
    let error = Arc::new(error);
    shared.health.send_modify(|health| {
        if health.failures == 0 {
            tracing::warn!(%error, "cannot read nodes and jobs from slurmrestd");
        }
        *health = Health {
            failures: health.failures.saturating_add(1),
            error: Some(Arc::clone(&error)),
            looks: health.looks + 1,
        };
    });
}

/// What the task knows between two looks.
struct Reader {
    client: Client,
    pace: Pace,
    interner: Interner,
    /// The controller's time by which to ask for changes of jobs.
    since: Option<u64>,
    /// When all jobs were read last.
    full_read: Option<Instant>,
}

impl Reader {
    fn new(client: Client, pace: Pace) -> Self {
        Self { client, pace, interner: Interner::default(), since: None, full_read: None }
    }

    /// Reads the nodes, then the jobs.
    async fn look(&mut self, old: Option<&Snapshot>, full: bool) -> Result<Snapshot, Error> {
        let asked = clock::now();
        let mut nodes = Collector::new(old.map_or(&[][..], Snapshot::nodes));
        let cluster =
            self.client.read_nodes(&mut self.interner, &mut |node| nodes.add(node, by_name)).await?;
        let nodes = nodes.finish(by_name);
        let nodes_read = Reading { asked, answered: clock::now() };

        // Even "nothing has changed" is not believed for ever: it depends on the controller's clock. And what another cluster
        // calls "as before" is not what we have.
        let young = self.full_read.is_some_and(|read| read.elapsed() < self.pace.full);
        let same = old.is_some_and(|old| old.cluster() == cluster);
        let since = if same && young && !full { self.since } else { None };
        let asked = clock::now();
        let mut jobs = Collector::new(old.map_or(&[][..], Snapshot::jobs));
        let read = self.client.read_jobs(since, &mut self.interner, &mut |job| jobs.add(job, by_id)).await?;
        let jobs_read = Reading { asked, answered: clock::now() };
        match (read, old) {
            (JobsRead::AsBefore, Some(old)) => Ok(old.with_same_jobs(nodes, nodes_read, jobs_read)),
            // Without a list from before, "as before" is no answer.
            (JobsRead::AsBefore, None) => {
                Err(Error::bad_answer(200, "it tells of changes, and nobody asked for them", b""))
            }
            (JobsRead::All { cluster: other, .. }, _) if other != cluster => Err(Error::bad_answer(
                200,
                format!("its jobs are those of cluster `{other}`, but its nodes were those of `{cluster}`"),
                b"",
            )),
            (JobsRead::All { since, .. }, _) => {
                self.since = since;
                self.full_read = Some(Instant::now());
                Ok(Snapshot::new(nodes, nodes_read, jobs.finish(by_id), jobs_read, &cluster))
            }
        }
    }
}
