//! What all parts of a running agent share: its children, its state, and whether it was told to stop.

use std::process::Command;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal};
use slurm::agent::AgentState;

use crate::children::{Children, Ended, Printed};
use crate::daemon::Daemon;
use crate::jail::users::Users;
use crate::output::say;
use crate::programs;

/// The name of the agent's own lines.
const NAME: &str = "slurm-agent";
/// How often daemons are looked at.
pub const TICK: Duration = Duration::from_millis(250);

/// The running agent.
pub struct Agent {
    /// Its children.
    pub children: Arc<Children>,
    /// Users of the jail.
    pub users: Users,
    state: Mutex<AgentState>,
    signals: Mutex<Signals>,
    woken: Condvar,
}

#[derive(Default)]
struct Signals {
    stop: bool,
    pending: Vec<Signal>,
}

/// It was told to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;

/// Signals that are passed on to the daemon.
const PASSED_ON: [Signal; 3] = [Signal::SIGHUP, Signal::SIGUSR1, Signal::SIGUSR2];
const STOPPING: [Signal; 3] = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGQUIT];

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Agent {
    /// Takes over signals and children. To be called before any thread is made.
    ///
    /// # Errors
    ///
    /// Signals cannot be blocked.
    pub fn new(daemon: &str) -> Result<Arc<Self>, String> {
        let mut taken = SigSet::empty();
        for signal in PASSED_ON.into_iter().chain(STOPPING) {
            taken.add(signal);
        }
        taken.thread_block().map_err(|error| format!("cannot block signals: {error}"))?;
        // Orphans come to process 1. Where that is another, in a pod that shares its processes, they shall come here.
        nix::sys::prctl::set_child_subreaper(true)
            .map_err(|error| format!("cannot take orphans: {error}"))?;
        let agent = Arc::new(Self {
            children: Children::new(),
            users: Users::default(),
            state: Mutex::new(AgentState { daemon: daemon.to_owned(), ..AgentState::default() }),
            signals: Mutex::default(),
            woken: Condvar::new(),
        });
        let listener = Arc::clone(&agent);
        std::thread::spawn(move || {
            loop {
                if let Ok(signal) = taken.wait() {
                    listener.note(signal);
                }
            }
        });
        let (programs, version) = programs::survey(&agent.children);
        agent.update(|state| {
            state.programs = programs;
            state.slurm_version = version;
        });
        Ok(agent)
    }

    fn note(&self, signal: Signal) {
        let mut signals = lock(&self.signals);
        if STOPPING.contains(&signal) {
            self.say(&format!("{signal}: stopping"));
            signals.stop = true;
        } else {
            signals.pending.push(signal);
        }
        drop(signals);
        self.woken.notify_all();
    }

    /// Signals to pass on since the last call.
    pub fn pending_signals(&self) -> Vec<Signal> {
        std::mem::take(&mut lock(&self.signals).pending)
    }

    /// Waits, until it is told to stop or a signal is to be passed on.
    ///
    /// # Errors
    ///
    /// It was told to stop.
    pub fn pause(&self, time: Duration) -> Result<(), Stopped> {
        let deadline = Instant::now() + time;
        let mut signals = lock(&self.signals);
        loop {
            if signals.stop {
                return Err(Stopped);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || !signals.pending.is_empty() {
                return Ok(());
            }
            signals = self.woken.wait_timeout(signals, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits until `ready` says nothing more is to be waited for; what it says is shown in the state.
    ///
    /// # Errors
    ///
    /// It was told to stop.
    pub fn wait_for(&self, mut ready: impl FnMut() -> Result<(), String>) -> Result<(), Stopped> {
        let mut said = None;
        while let Err(reason) = ready() {
            if said.as_ref() != Some(&reason) {
                self.say(&format!("waiting: {reason}"));
                self.update(|state| state.waiting_for = Some(reason.clone()));
                said = Some(reason);
            }
            self.pause(Duration::from_secs(1))?;
        }
        self.update(|state| state.waiting_for = None);
        Ok(())
    }

    /// Prints a line of the agent's own.
    pub fn say(&self, line: &str) {
        say(NAME, line);
    }

    /// Something went wrong: it is printed, and shown in the state.
    pub fn failed(&self, what: &str) {
        if self.state().last_error.as_deref() != Some(what) {
            self.say(what);
        }
        self.update(|state| state.last_error = Some(what.to_owned()));
    }

    /// A daemon ended by itself: it is printed, shown and counted.
    pub fn crashed(&self, daemon: &Daemon, ended: Ended, words: &str) {
        self.say(&format!("{} ended ({ended}); it will be started again", daemon.name()));
        self.update(|state| {
            state.restarts = state.restarts.saturating_add(1);
            let words = if words.is_empty() { String::new() } else { format!(": {words}") };
            state.last_error = Some(format!("{} ended ({ended}){words}", daemon.name()));
        });
    }

    /// The state as it is now.
    pub fn state(&self) -> AgentState {
        lock(&self.state).clone()
    }

    /// Changes the state.
    pub fn update(&self, change: impl FnOnce(&mut AgentState)) {
        change(&mut lock(&self.state));
    }

    /// Runs a helper; see [`Children::run`].
    pub fn run(&self, command: &mut Command, patience: Duration) -> Result<Printed, String> {
        self.children.run(command, patience)
    }
}
