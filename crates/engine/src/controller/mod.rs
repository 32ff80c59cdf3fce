//! The controller runtime: takes keys that are due, runs the reconcile of each at most once at a time, and decides when
//! it runs again.
//!
//! It is not kube's `Controller`: that one keeps a store of its own, never calls a reconcile for an object that is gone,
//! has no backoff per key, and ends with the first panic.

mod backoff;
mod metrics;
mod queue;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::cache::{Cache, Cached, Change};
use crate::error::{ReconcileError, Retry, chain};
use crate::key::Key;
use crate::server::{LastResult, Results};
use backoff::Backoffs;
pub use metrics::ReconcileMetrics;
use queue::WorkQueue;

/// When a reconcile that went well wants to run again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// When something changes.
    OnChange,
    /// After this time at the latest.
    After(Duration),
}

/// How a controller runs.
#[derive(Clone, Debug)]
pub struct Options {
    /// Its name, in logs and metrics.
    pub name: &'static str,
    /// How many reconciles may run at once.
    pub concurrency: usize,
    /// A reconcile that takes longer is ended and tried again.
    pub deadline: Duration,
    /// How long a stop waits for reconciles that run.
    pub grace: Duration,
    /// Where results are counted.
    pub metrics: ReconcileMetrics,
    /// Where the last result of each object is kept, for `/debug/state`.
    pub results: Results,
}

impl Options {
    /// The usual settings.
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            concurrency: 4,
            deadline: Duration::from_secs(60),
            grace: Duration::from_secs(10),
            metrics: ReconcileMetrics::default(),
            results: Results::default(),
        }
    }
}

/// Wakes a controller. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Waker {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<WorkQueue>,
    changed: Notify,
}

impl Waker {
    /// Has `key` reconciled as soon as possible.
    pub fn wake(&self, key: &Key) {
        self.wake_at(key, Instant::now());
    }

    /// Has `key` reconciled at `at` or before.
    pub fn wake_at(&self, key: &Key, at: Instant) {
        self.shared.queue.lock().add(key, at);
        self.shared.changed.notify_one();
    }
}

/// A controller that is being put together.
#[derive(Debug)]
pub struct Controller {
    options: Options,
    waker: Waker,
}

impl Controller {
    /// A controller that nothing wakes yet.
    pub fn new(options: Options) -> Self {
        Self { options, waker: Waker::default() }
    }

    /// A handle that wakes it.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Wakes the keys that `keys_of` tells for each change in `cache`.
    pub fn watch<V: Cached, Keys: IntoIterator<Item = Key>>(
        &self,
        cache: &Cache<V>,
        keys_of: impl Fn(&Change<V>) -> Keys + Send + Sync + 'static,
    ) where
        V::DynamicType: Clone + std::fmt::Debug + Default + Eq + std::hash::Hash,
    {
        let waker = self.waker();
        cache.subscribe(move |change| {
            for key in keys_of(change) {
                waker.wake(&key);
            }
        });
    }

    /// Runs until `stop`, then waits for what runs.
    pub async fn run<Error, Running>(
        self,
        stop: CancellationToken,
        reconcile: impl Fn(Key) -> Running + Send + Sync,
    ) where
        Error: ReconcileError,
        Running: Future<Output = Result<Wake, Error>> + Send + 'static,
    {
        let mut runs = Runs::new(self.options, self.waker);
        loop {
            runs.start_what_is_due(&reconcile);
            let next = runs.next_due();
            tokio::select! {
                () = stop.cancelled() => break,
                Some(ended) = runs.tasks.join_next_with_id(), if !runs.tasks.is_empty() => runs.end(ended),
                () = runs.waker.shared.changed.notified() => {}
                () = sleep_until(next) => {}
            }
        }
        runs.stop().await;
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

/// How one run ended.
enum Outcome {
    Done(Wake),
    Failed { retry: Retry, category: &'static str, message: String },
}

struct Runs {
    options: Options,
    waker: Waker,
    tasks: JoinSet<Outcome>,
    started: HashMap<Id, (Key, Instant)>,
    backoffs: Backoffs,
}

impl Runs {
    fn new(options: Options, waker: Waker) -> Self {
        Self { options, waker, tasks: JoinSet::new(), started: HashMap::new(), backoffs: Backoffs::default() }
    }

    /// When a run can start next: never, while all places are taken.
    fn next_due(&self) -> Option<Instant> {
        if self.tasks.len() < self.options.concurrency.max(1) {
            self.waker.shared.queue.lock().next_due()
        } else {
            None
        }
    }

    fn start_what_is_due<Error, Running>(&mut self, reconcile: &impl Fn(Key) -> Running)
    where
        Error: ReconcileError,
        Running: Future<Output = Result<Wake, Error>> + Send + 'static,
    {
        while self.tasks.len() < self.options.concurrency.max(1) {
            let now = Instant::now();
            let (taken, waiting) = {
                let mut queue = self.waker.shared.queue.lock();
                (queue.take(now), queue.waiting())
            };
            let Some((key, due)) = taken else { return };
            self.options.metrics.started(self.options.name, now.saturating_duration_since(due), waiting);
            let span = tracing::info_span!(
                "reconcile",
                controller = self.options.name,
                namespace = %key.namespace,
                name = %key.name,
            );
            let running = bounded(reconcile(key.clone()), self.options.deadline).instrument(span);
            let task = self.tasks.spawn(running);
            self.started.insert(task.id(), (key, now));
        }
    }

    fn end(&mut self, ended: Result<(Id, Outcome), JoinError>) {
        let (id, outcome) = match ended {
            Ok(ended) => ended,
            Err(error) => {
                let (retry, message) = (Retry::Backoff, "panicked; see the log".to_string());
                (error.id(), Outcome::Failed { retry, category: "panic", message })
            }
        };
        let Some((key, started)) = self.started.remove(&id) else { return };
        let (result, message, wait) = match outcome {
            Outcome::Done(wake) => {
                self.backoffs.succeeded(&key);
                let wait = match wake {
                    Wake::OnChange => None,
                    Wake::After(wait) => Some(wait),
                };
                ("ok", None, wait)
            }
            Outcome::Failed { retry, category, message } => {
                if category == "panic" {
                    tracing::error!(controller = self.options.name, key = %key, "reconcile panicked");
                }
                (category, Some(message), self.backoffs.failed(&key, retry, rand::random()))
            }
        };
        let took = started.elapsed();
        self.options.metrics.ended(self.options.name, result, took);
        let last = LastResult::now(result, message, took, wait);
        self.options.results.note(self.options.name, &key, last);
        let wake = wait.map(|wait| Instant::now() + wait);
        self.waker.shared.queue.lock().done(&key, wake);
    }

    async fn stop(mut self) {
        let all_ended = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(self.options.grace, all_ended).await.is_err() {
            tracing::warn!(
                controller = self.options.name,
                "reconciles still ran at the end and were cut off"
            );
        }
    }
}

/// Runs a reconcile within its time; logs why it failed, in its span.
async fn bounded<Error: ReconcileError>(
    reconcile: impl Future<Output = Result<Wake, Error>>,
    deadline: Duration,
) -> Outcome {
    match tokio::time::timeout(deadline, reconcile).await {
        Ok(Ok(wake)) => Outcome::Done(wake),
        Ok(Err(error)) => {
            let (retry, category) = (error.retry(), error.category());
            let message = chain(&error);
            tracing::warn!(category, error = %message, "reconcile failed");
            Outcome::Failed { retry, category, message }
        }
        Err(_) => {
            tracing::warn!(seconds = deadline.as_secs(), "reconcile took too long and was ended");
            let message = format!("took longer than {} s and was ended", deadline.as_secs());
            Outcome::Failed { retry: Retry::Backoff, category: "deadline", message }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("no luck")]
    struct NoLuck(Retry);

    impl ReconcileError for NoLuck {
        fn retry(&self) -> Retry {
            self.0
        }

        fn category(&self) -> &'static str {
            "luck"
        }
    }

    fn start<Running: Future<Output = Result<Wake, NoLuck>> + Send + 'static>(
        options: Options,
        reconcile: impl Fn(Key) -> Running + Send + Sync + 'static,
    ) -> (Waker, CancellationToken, tokio::task::JoinHandle<()>) {
        let controller = Controller::new(options);
        let (waker, stop) = (controller.waker(), CancellationToken::new());
        let task = tokio::spawn(controller.run(stop.clone(), reconcile));
        (waker, stop, task)
    }

    async fn settle() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }

    #[tokio::test]
    async fn a_panic_ends_one_run_and_not_the_controller() {
        let runs = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&runs);
        let (waker, ..) = start(Options::new("test"), move |key| {
            counted.fetch_add(1, Ordering::SeqCst);
            async move {
                assert_ne!(&*key.name, "bad", "on purpose");
                Ok(Wake::OnChange)
            }
        });
        waker.wake(&Key::new("ns", "bad"));
        settle().await;
        waker.wake(&Key::new("ns", "good"));
        settle().await;
        assert_eq!(runs.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn no_more_than_the_limit_run_at_once_and_never_two_of_one_key() {
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let seen = (Arc::clone(&now), Arc::clone(&most));
        let options = Options { concurrency: 2, ..Options::new("test") };
        let (waker, ..) = start(options, move |_| {
            let (now, most) = (Arc::clone(&seen.0), Arc::clone(&seen.1));
            async move {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(5)).await;
                now.fetch_sub(1, Ordering::SeqCst);
                Ok(Wake::OnChange)
            }
        });
        for name in ["a", "b", "c", "d"] {
            waker.wake(&Key::new("ns", name));
        }
        settle().await;
        assert_eq!(most.swap(0, Ordering::SeqCst), 2);
        for _ in 0..5 {
            waker.wake(&Key::new("ns", "a"));
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        settle().await;
        assert_eq!(most.load(Ordering::SeqCst), 1, "one key never runs beside itself");
    }

    #[tokio::test]
    async fn a_run_that_hangs_is_ended() {
        let options = Options { deadline: Duration::from_millis(10), ..Options::new("test") };
        let runs = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&runs);
        let (waker, ..) = start(options, move |_| {
            let first = counted.fetch_add(1, Ordering::SeqCst) == 0;
            async move {
                if first {
                    std::future::pending::<()>().await;
                }
                Ok(Wake::OnChange)
            }
        });
        waker.wake(&Key::new("ns", "a"));
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(runs.load(Ordering::SeqCst), 2, "ended, and tried again after its backoff");
    }

    #[tokio::test]
    async fn an_error_that_waits_for_a_change_is_not_repeated() {
        let runs = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&runs);
        let (waker, ..) = start(Options::new("test"), move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
            async { Err(NoLuck(Retry::OnChange)) }
        });
        waker.wake(&Key::new("ns", "a"));
        settle().await;
        assert_eq!(runs.load(Ordering::SeqCst), 1);
        waker.wake(&Key::new("ns", "a"));
        settle().await;
        assert_eq!(runs.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn the_last_result_of_each_object_is_kept_for_whoever_looks() {
        let options = Options::new("test");
        let results = options.results.clone();
        let (waker, ..) = start(options, |key| async move {
            match &*key.name {
                "good" => Ok(Wake::After(Duration::from_secs(60))),
                "bad" => Err(NoLuck(Retry::OnChange)),
                other => panic!("{other} on purpose"),
            }
        });
        for name in ["good", "bad", "worse"] {
            waker.wake(&Key::new("ns", name));
        }
        settle().await;
        let shown = results.json();
        let of = |name: &str| shown["test"][format!("ns/{name}")].clone();
        assert_eq!(
            (&of("good")["result"], &of("good")["againAfter"]),
            (&"ok".into(), &"1m".into()),
            "{shown}"
        );
        assert_eq!(
            (&of("bad")["result"], &of("bad")["message"]),
            (&"luck".into(), &"no luck".into()),
            "{shown}"
        );
        assert_eq!(of("worse")["result"], "panic", "{shown}");
    }

    #[tokio::test]
    async fn a_stop_waits_for_what_runs() {
        let ended = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&ended);
        let (waker, stop, task) = start(Options::new("test"), move |_| {
            let counted = Arc::clone(&counted);
            async move {
                tokio::time::sleep(Duration::from_millis(100)).await;
                counted.fetch_add(1, Ordering::SeqCst);
                Ok(Wake::OnChange)
            }
        });
        waker.wake(&Key::new("ns", "a"));
        settle().await;
        stop.cancel();
        task.await.unwrap();
        assert_eq!(ended.load(Ordering::SeqCst), 1);
    }
}
