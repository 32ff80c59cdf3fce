//! Every child process: those that we start, and orphans, which land here because we are process 1.
//!
//! One thread takes all ends. Nobody else may wait for a process, or it would wait for one that is gone.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;

/// How long the reaper sleeps while there is no child at all. Orphans of `kubectl exec` may come any time.
const NO_CHILD: Duration = Duration::from_millis(200);
/// The most that is kept of what a helper prints.
const MAX_OUTPUT: u64 = 1 << 20;
/// How long a helper's output may stay open after its end, held by a child of its own.
const OUTPUT_GRACE: Duration = Duration::from_secs(1);

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// By itself, with this code.
    Code(i32),
    /// By a signal.
    Signal(Signal),
}

impl Ended {
    /// Whether it ended with code 0.
    pub fn well(self) -> bool {
        self == Ended::Code(0)
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ended::Code(code) => write!(f, "exit code {code}"),
            Ended::Signal(signal) => write!(f, "killed by {signal}"),
        }
    }
}

/// All children, and the thread that takes their ends.
pub struct Children {
    running: Mutex<BTreeMap<i32, Sender<Ended>>>,
}

/// A process of ours.
#[derive(Debug)]
pub struct Running {
    pid: Pid,
    end: Receiver<Ended>,
    ended: Option<Ended>,
}

/// What a helper printed, and how it ended.
#[derive(Debug)]
pub struct Printed {
    /// How it ended.
    pub ended: Ended,
    /// Its output.
    pub stdout: String,
    /// Its errors.
    pub stderr: String,
}

impl Children {
    /// Starts the thread.
    pub fn new() -> Arc<Self> {
        let children = Arc::new(Self { running: Mutex::default() });
        let reaper = Arc::clone(&children);
        std::thread::spawn(move || reaper.reap());
        children
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<i32, Sender<Ended>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a process.
    pub fn spawn(&self, command: &mut Command) -> io::Result<Running> {
        // Held until the process is noted, and while `spawn` waits for a child that could not execute: the reaper takes no
        // end meanwhile.
        let mut running = self.lock();
        take_signals(command);
        let child = command.spawn()?;
        let pid = Pid::from_raw(i32::try_from(child.id()).map_err(io::Error::other)?);
        let (sender, end) = channel();
        running.insert(pid.as_raw(), sender);
        Ok(Running { pid, end, ended: None })
    }

    /// Runs a helper to its end, at most for `patience`.
    ///
    /// # Errors
    ///
    /// It could not be started, or took too long and was killed.
    pub fn run(&self, command: &mut Command, patience: Duration) -> Result<Printed, String> {
        let name = command.get_program().to_string_lossy().into_owned();
        let failed = |error: io::Error| format!("cannot run {name}: {error}");
        let (stdout, stdout_end) = io::pipe().map_err(failed)?;
        let (stderr, stderr_end) = io::pipe().map_err(failed)?;
        command.stdin(Stdio::null()).stdout(stdout_end).stderr(stderr_end);
        let running = self.spawn(command);
        // Our own copies of the pipes' ends: the readers would wait for them.
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut running = running.map_err(failed)?;
        let (stdout, stderr) = (collect(stdout), collect(stderr));
        let Some(ended) = running.wait(patience) else {
            running.signal(Signal::SIGKILL);
            return Err(format!("{name} did not end within {} s", patience.as_secs()));
        };
        let text = |end: Receiver<String>| end.recv_timeout(OUTPUT_GRACE).unwrap_or_default();
        Ok(Printed { ended, stdout: text(stdout), stderr: text(stderr) })
    }

    fn reap(&self) {
        loop {
            // Only looked at, not taken: see `spawn`.
            let looked = waitid(Id::All, WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT);
            let Some(pid) = looked.ok().and_then(|status| status.pid()) else {
                std::thread::sleep(NO_CHILD);
                continue;
            };
            let mut running = self.lock();
            let ended = match waitpid(pid, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(_, code)) => Ended::Code(code),
                Ok(WaitStatus::Signaled(_, signal, _)) => Ended::Signal(signal),
                _ => continue,
            };
            // Nothing for orphans. Whoever does not listen any more need not be told.
            if let Some(sender) = running.remove(&pid.as_raw()) {
                let _ = sender.send(ended);
            }
        }
    }
}

/// Lets a child take signals that we block for ourselves: slurmctld reconfigures by one to itself.
#[expect(unsafe_code, reason = "the standard library has no other way to set a child's signal mask")]
fn take_signals(command: &mut Command) {
    // SAFETY: between fork and exec this makes one system call and touches no memory that others share.
    unsafe {
        command.pre_exec(|| SigSet::empty().thread_set_mask().map_err(io::Error::from));
    }
}

impl Running {
    /// Its process id.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<Ended> {
        if self.ended.is_none() {
            self.ended = match self.end.try_recv() {
                Ok(ended) => Some(ended),
                Err(TryRecvError::Empty) => None,
                // The reaper never lets go of a process that lives.
                Err(TryRecvError::Disconnected) => Some(Ended::Code(-1)),
            };
        }
        self.ended
    }

    /// Waits for its end.
    pub fn wait(&mut self, patience: Duration) -> Option<Ended> {
        if self.ended.is_none() {
            self.ended = match self.end.recv_timeout(patience) {
                Ok(ended) => Some(ended),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => Some(Ended::Code(-1)),
            };
        }
        self.ended
    }

    /// Sends a signal, unless it has ended.
    pub fn signal(&mut self, signal: Signal) {
        if self.ended().is_none() {
            // It may end this moment.
            let _ = kill(self.pid, signal);
        }
    }

    /// Asks it to end by `signal`, and kills it when `patience` is over.
    pub fn stop(&mut self, signal: Signal, patience: Duration) -> Option<Ended> {
        let deadline = Instant::now() + patience;
        self.signal(signal);
        if let Some(ended) = self.wait(deadline.saturating_duration_since(Instant::now())) {
            return Some(ended);
        }
        self.signal(Signal::SIGKILL);
        self.wait(Duration::from_secs(5))
    }
}

/// Reads a pipe to its end in a thread, and keeps the beginning.
fn collect(mut pipe: io::PipeReader) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = (&mut pipe).take(MAX_OUTPUT).read_to_end(&mut bytes);
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
        // The rest is thrown away, so that nobody hangs who writes it.
        let _ = io::copy(&mut pipe, &mut io::sink());
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    // There is one reaper in a process, and it takes the ends of all children, also those of other tests.
    #[test]
    fn helpers_are_run_killed_in_time_and_their_words_kept_apart() {
        crate::alone::run_alone(&[], "children::tests::with_a_reaper");
    }

    #[test]
    #[ignore = "runs inside helpers_are_run_killed_in_time_and_their_words_kept_apart"]
    fn with_a_reaper() {
        let children = Children::new();
        let printed =
            children.run(&mut shell("echo out; echo err >&2; exit 3"), Duration::from_secs(10)).unwrap();
        assert_eq!(printed.ended, Ended::Code(3));
        assert_eq!((printed.stdout.as_str(), printed.stderr.as_str()), ("out\n", "err\n"));

        let begun = Instant::now();
        let error = children.run(&mut shell("exec sleep 100"), Duration::from_millis(200)).unwrap_err();
        assert!(error.contains("sh did not end within"), "{error}");
        assert!(begun.elapsed() < Duration::from_secs(10));

        let error = children.run(&mut Command::new("/no/such/file"), Duration::from_secs(1)).unwrap_err();
        assert!(error.contains("/no/such/file"), "{error}");

        let mut running = children.spawn(&mut shell("trap '' TERM; while :; do sleep 0.1; done")).unwrap();
        std::thread::sleep(Duration::from_millis(200));
        assert_eq!(running.ended(), None);
        let ended = running.stop(Signal::SIGTERM, Duration::from_millis(300));
        assert_eq!(ended, Some(Ended::Signal(Signal::SIGKILL)));
    }
}
