//! Runs a scenario once cleanly, then once for every place and kind of fault, and compares the ends.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use futures::{StreamExt as _, stream};
use kube::Client;
use tokio_util::sync::CancellationToken;

use super::fault::{Fault, Injector, Schedule, Write};
use super::watch::WatchFault;
use super::world::World;
use crate::client::BoxError;

/// Rest: no write for this long, in the end state. Longer than a watch is held back, or what comes then is not in the end state.
const REST: Duration = Duration::from_millis(700);

/// What a step of a scenario gives.
pub type Step<'a, T> = BoxFuture<'a, Result<T, BoxError>>;

/// Something that a controller does, which must end the same whatever goes wrong on the way.
pub trait Scenario: Send + Sync {
    /// Its name, by which a single case can be run again.
    fn name(&self) -> &str;
    /// The client for this run, with the injector in it.
    fn client(&self, injector: Arc<Injector>) -> Result<Client, BoxError>;
    /// A client without faults.
    fn plain_client(&self) -> Result<Client, BoxError>;
    /// Makes a namespace for one run.
    fn namespace(&self) -> Step<'_, String>;
    /// Starts the controller on this namespace; it runs until `stop`.
    fn start(&self, client: Client, namespace: &str, stop: CancellationToken) -> BoxFuture<'static, ()>;
    /// What the user does, step by step; each step is taken when the one before has come to rest.
    fn steps(&self) -> usize;
    /// The first step with faults at its writes and events: a scenario may begin as another one, which has them there.
    fn faults_from(&self) -> usize {
        0
    }
    /// Takes step `step` with a client without faults.
    fn act<'a>(&'a self, client: &'a Client, namespace: &'a str, step: usize) -> Step<'a, ()>;
    /// Whether the controller is done with `step`.
    fn is_done<'a>(&'a self, client: &'a Client, namespace: &'a str, step: usize) -> Step<'a, bool>;
    /// The world as it is.
    fn world<'a>(&'a self, client: &'a Client, namespace: &'a str) -> Step<'a, World>;
    /// A run that does not come to rest in this time has failed.
    fn patience(&self) -> Duration {
        Duration::from_secs(30)
    }
    /// How many cases may run beside each other: more than one if they share nothing but the API server.
    fn at_once(&self) -> usize {
        1
    }
    /// Faults of what the controller talks to besides the API server, by name; asked for after the clean run.
    fn own_faults(&self) -> Vec<String> {
        Vec::new()
    }
    /// Lets one of its own faults happen in the run on this namespace.
    fn arm(&self, _namespace: &str, _fault: &str) {}
    /// Called when the run on this namespace has ended, whether it went well or not.
    fn end<'a>(&'a self, _namespace: &'a str) -> Step<'a, ()> {
        Box::pin(std::future::ready(Ok(())))
    }
    /// What must hold at every write.
    fn monitor(&self, writes: &[Write]) -> Result<(), String>;
}

/// One place and kind of fault.
#[derive(Clone, Debug)]
pub enum Case {
    /// At a write, by number.
    Write(usize, Fault),
    /// At a watch event, by kind and number.
    Watch(String, usize, WatchFault),
    /// One of the scenario's own.
    Own(String),
}

impl fmt::Display for Case {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write(number, fault) => write!(out, "write-{number}-{fault}"),
            Self::Watch(kind, number, fault) => write!(out, "watch-{kind}-{number}-{fault}"),
            Self::Own(fault) => out.write_str(fault),
        }
    }
}

/// What a sweep found.
#[derive(Debug, Default)]
pub struct Report {
    /// How many cases ran.
    pub cases: usize,
    /// How many cases there are.
    pub of: usize,
    /// One line per failed case; the first words say how to run just that one.
    pub failures: Vec<String>,
}

const WRITE_FAULTS: &[Fault] = &[
    Fault::Crash,
    Fault::CrashAfterCommit,
    Fault::Fail(409),
    Fault::Fail(429),
    Fault::Fail(500),
    Fault::FailAfterCommit(504),
    Fault::Drop,
    Fault::DropAfterCommit,
    Fault::Delay(Duration::from_millis(300)),
];

const WATCH_FAULTS: &[WatchFault] = &[
    WatchFault::Close,
    WatchFault::Gone,
    WatchFault::Lag(Duration::from_millis(500)),
    WatchFault::Duplicate,
    WatchFault::Skip(Duration::from_millis(500)),
];

/// Which cases run: all, a seeded sample of so many, or those of these names.
#[derive(Clone, Debug)]
pub enum Choice {
    /// Every case.
    All,
    /// So many, chosen by the seed.
    Sample {
        /// How many.
        cases: usize,
        /// Another one gives other cases.
        seed: u64,
    },
    /// Just these.
    Named(BTreeSet<String>),
    /// Those whose name contains this, until one fails: to see that a bug is found.
    UntilFailure(&'static str),
}

impl Choice {
    /// `SOPERATOR_CASE` names some, with commas between; `SOPERATOR_SWEEP=full` takes all; otherwise a sample.
    pub fn from_env(cases: usize, seed: u64) -> Self {
        match (std::env::var("SOPERATOR_CASE"), std::env::var("SOPERATOR_SWEEP")) {
            (Ok(cases), _) => Self::Named(cases.split(',').map(String::from).collect()),
            (_, Ok(sweep)) if sweep == "full" => Self::All,
            _ => Self::Sample { cases, seed },
        }
    }

    fn pick(&self, scenario: &str, all: Vec<Case>) -> Vec<Case> {
        match self {
            Self::All => all,
            Self::Named(wanted) => {
                all.into_iter().filter(|case| wanted.contains(&format!("{scenario}/{case}"))).collect()
            }
            Self::UntilFailure(part) => {
                all.into_iter().filter(|case| case.to_string().contains(part)).collect()
            }
            Self::Sample { cases, seed } => {
                // By name: how many cases there are differs from run to run, and the sample should not.
                let rank = |case: &Case| {
                    let mut hasher = DefaultHasher::new();
                    (seed, case.to_string()).hash(&mut hasher);
                    hasher.finish()
                };
                let mut all = all;
                all.sort_by_cached_key(rank);
                all.truncate(*cases);
                all
            }
        }
    }
}

/// Whole sweeps take long: after so many cases somebody who looks is told how far it is.
const PROGRESS: usize = 100;

/// Runs the cases and compares each end with that of a clean run.
pub async fn run(scenario: Arc<dyn Scenario>, choice: Choice) -> Report {
    let clean = match run_case(&*scenario, None).await {
        Ok(clean) => clean,
        Err(error) => {
            let failures = vec![format!("{}: the run without any fault failed: {error}", scenario.name())];
            return Report { failures, ..Report::default() };
        }
    };
    let mut all = Vec::new();
    for number in clean.before.writes + 1..=clean.all.writes {
        all.extend(WRITE_FAULTS.iter().map(|fault| Case::Write(number, *fault)));
    }
    for (kind, events) in &clean.all.events {
        let before = clean.before.events.get(kind).copied().unwrap_or_default();
        for number in before + 1..=*events {
            all.extend(WATCH_FAULTS.iter().map(|fault| Case::Watch(kind.clone(), number, *fault)));
        }
    }
    all.extend(scenario.own_faults().into_iter().map(Case::Own));
    let mut report = Report { of: all.len(), ..Report::default() };
    let picked = choice.pick(scenario.name(), all);
    let count = picked.len();
    let cases = picked.into_iter().map(|case| {
        let (scenario, clean) = (&*scenario, &clean.world);
        async move {
            let problem = match run_case(scenario, Some(&case)).await {
                Err(error) => error.to_string(),
                Ok(end) => clean.differences(&end.world).join("\n"),
            };
            (!problem.is_empty()).then(|| format!("SOPERATOR_CASE={}/{case}: {problem}", scenario.name()))
        }
    });
    let mut results = stream::iter(cases).buffer_unordered(scenario.at_once());
    while let Some(failure) = results.next().await {
        report.cases += 1;
        report.failures.extend(failure);
        if report.cases.is_multiple_of(PROGRESS) {
            eprintln!(
                "{}: {} of {count} cases, {} failed",
                scenario.name(),
                report.cases,
                report.failures.len()
            );
        }
        if matches!(choice, Choice::UntilFailure(_)) && !report.failures.is_empty() {
            break;
        }
    }
    report.failures.sort();
    report
}

/// How many places for faults there were.
#[derive(Default)]
struct Places {
    writes: usize,
    events: BTreeMap<String, usize>,
}

struct End {
    world: World,
    /// Up to the first step with faults.
    before: Places,
    all: Places,
}

async fn run_case(scenario: &dyn Scenario, case: Option<&Case>) -> Result<End, BoxError> {
    let schedule = match case {
        None | Some(Case::Own(_)) => Schedule::default(),
        Some(Case::Write(number, fault)) => {
            Schedule { writes: BTreeMap::from([(*number, *fault)]), ..Schedule::default() }
        }
        Some(Case::Watch(kind, number, fault)) => {
            Schedule { watches: BTreeMap::from([(kind.clone(), (*number, *fault))]), ..Schedule::default() }
        }
    };
    let namespace = scenario.namespace().await?;
    if let Some(Case::Own(fault)) = case {
        scenario.arm(&namespace, fault);
    }
    let result = run_in(scenario, &namespace, schedule).await;
    let ended = scenario.end(&namespace).await;
    let end = result?;
    ended?;
    Ok(end)
}

async fn run_in(scenario: &dyn Scenario, namespace: &str, schedule: Schedule) -> Result<End, BoxError> {
    let plain = scenario.plain_client()?;
    let history: Arc<parking_lot::Mutex<Vec<Write>>> = Arc::default();
    let mut injector = Arc::new(Injector::new(schedule));
    let mut controller = Running::start(scenario, &injector, namespace)?;
    let (mut before, mut total) = (Places::default(), 0);
    for step in 0..scenario.steps() {
        if step == scenario.faults_from() {
            before = Places { writes: total + injector.writes().len(), events: injector.watch_events() };
        }
        scenario.act(&plain, namespace, step).await?;
        let deadline = Instant::now() + scenario.patience();
        let (mut quiet_since, mut seen) = (Instant::now(), usize::MAX);
        loop {
            if injector.crashed().is_cancelled() {
                // The process is gone with all that it knew; a new one starts, without faults.
                controller.kill().await;
                history.lock().extend(injector.writes());
                total += injector.writes().len();
                injector = Arc::new(Injector::new(Schedule::default()));
                controller = Running::start(scenario, &injector, namespace)?;
            }
            let writes = injector.writes().len();
            if writes != seen {
                (seen, quiet_since) = (writes, Instant::now());
            }
            let mut pause = Duration::from_millis(25);
            if quiet_since.elapsed() >= REST {
                if scenario.is_done(&plain, namespace, step).await? {
                    break;
                }
                // It waits for something else than itself, and each look costs.
                pause = Duration::from_millis(150);
            }
            if Instant::now() > deadline {
                return Err(
                    format!("step {step} was not done after {} s", scenario.patience().as_secs()).into()
                );
            }
            tokio::time::sleep(pause).await;
        }
    }
    history.lock().extend(injector.writes());
    total += injector.writes().len();
    controller.kill().await;
    scenario.monitor(&history.lock())?;
    Ok(End {
        world: scenario.world(&plain, namespace).await?,
        before,
        all: Places { writes: total, events: injector.watch_events() },
    })
}

struct Running {
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl Running {
    fn start(scenario: &dyn Scenario, injector: &Arc<Injector>, namespace: &str) -> Result<Self, BoxError> {
        let stop = CancellationToken::new();
        let task =
            tokio::spawn(scenario.start(scenario.client(Arc::clone(injector))?, namespace, stop.clone()));
        Ok(Self { stop, task })
    }

    /// Ends it as a crash would: in the middle of whatever it does.
    async fn kill(mut self) {
        self.end();
        let _ = (&mut self.task).await;
    }

    fn end(&self) {
        self.task.abort();
        // Watches and other tasks of its own.
        self.stop.cancel();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}
