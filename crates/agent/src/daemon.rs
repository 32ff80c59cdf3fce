//! A daemon that is kept alive: started again when it ends, later each time, and stopped in the end.

use std::io;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::unistd::Pid;

use crate::children::{Children, Ended, Running};
use crate::output::Output;

/// The first restart comes at once, the others after this, twice this, and so on.
const FIRST_DELAY: Duration = Duration::from_secs(1);
const MAX_DELAY: Duration = Duration::from_secs(60);
/// Who lived this long starts afresh.
const HEALTHY: Duration = Duration::from_secs(60);

/// When something that failed may be tried again.
#[derive(Debug, Default)]
pub struct Backoff {
    failures: u32,
    next: Option<Instant>,
}

impl Backoff {
    /// Notes a failure.
    pub fn failed(&mut self) {
        self.next = Some(Instant::now() + delay(self.failures));
        self.failures = self.failures.saturating_add(1);
    }

    /// Notes a success.
    pub fn reset(&mut self) {
        *self = Self::default();
    }

    /// Whether it is time.
    pub fn due(&self) -> bool {
        self.next.is_none_or(|next| Instant::now() >= next)
    }
}

fn delay(failures: u32) -> Duration {
    match failures {
        0 => Duration::ZERO,
        _ => FIRST_DELAY.saturating_mul(1 << (failures - 1).min(10)).min(MAX_DELAY),
    }
}

/// A daemon, running or not.
pub struct Daemon {
    name: String,
    output: Output,
    running: Option<Running>,
    started: Instant,
    mark: u64,
    backoff: Backoff,
}

impl Daemon {
    /// A daemon that does not run yet.
    pub fn new(name: &str) -> io::Result<Self> {
        Ok(Self {
            name: name.to_owned(),
            output: Output::new(name)?,
            running: None,
            started: Instant::now(),
            mark: 0,
            backoff: Backoff::default(),
        })
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Starts it.
    ///
    /// # Errors
    ///
    /// The program cannot be executed.
    pub fn start(&mut self, children: &Children, command: &mut Command) -> Result<(), String> {
        let started = self.output.pipe().and_then(|pipe| {
            command.stdin(Stdio::null()).stdout(pipe.try_clone()?).stderr(pipe);
            self.mark = self.output.mark();
            children.spawn(command)
        });
        self.started = Instant::now();
        match started {
            Ok(running) => {
                self.running = Some(running);
                Ok(())
            }
            Err(error) => {
                self.backoff.failed();
                Err(format!("cannot start {}: {error}", command.get_program().display()))
            }
        }
    }

    /// Whether it runs.
    pub fn runs(&mut self) -> bool {
        self.running.as_mut().is_some_and(|running| running.ended().is_none())
    }

    /// Its process id while it runs.
    pub fn pid(&mut self) -> Option<Pid> {
        let running = self.running.as_mut()?;
        running.ended().is_none().then(|| running.pid())
    }

    /// The end of a daemon that ran, once, with its last words.
    pub fn take_end(&mut self) -> Option<(Ended, String)> {
        let ended = self.running.as_mut()?.ended()?;
        self.running = None;
        if self.started.elapsed() >= HEALTHY {
            self.backoff.reset();
        }
        self.backoff.failed();
        // The last lines may still be on their way through the pipe.
        std::thread::sleep(Duration::from_millis(50));
        // Who was killed did not say why.
        let words = if matches!(ended, Ended::Signal(_)) { String::new() } else { self.words() };
        Some((ended, words))
    }

    /// Whether it should be started now: it does not run, and its time has come.
    pub fn due(&self) -> bool {
        self.running.is_none() && self.backoff.due()
    }

    /// Notes that it could not even be started.
    pub fn start_failed(&mut self) {
        self.backoff.failed();
    }

    /// What it complained about last since it was started.
    pub fn complaint(&self) -> Option<String> {
        self.output.complaint_since(self.mark)
    }

    /// What it said about a failure since it was started.
    fn words(&self) -> String {
        self.output.words_since(self.mark)
    }

    /// Where its output is now; see [`Daemon::words_since`].
    pub fn mark(&self) -> u64 {
        self.output.mark()
    }

    /// What it said about a failure since then.
    pub fn words_since(&self, mark: u64) -> String {
        self.output.words_since(mark)
    }

    /// Passes a signal on.
    pub fn signal(&mut self, signal: Signal) {
        if let Some(running) = &mut self.running {
            running.signal(signal);
        }
    }

    /// Stops it and waits for the end; after `patience` it is killed. Its next start comes at once.
    pub fn stop(&mut self, signal: Signal, patience: Duration) {
        if let Some(mut running) = self.running.take() {
            running.stop(signal, patience);
        }
        self.backoff.reset();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_restart_is_at_once_and_later_ones_wait_longer_up_to_a_minute() {
        let delays: Vec<u64> = (0..9).map(|failures| delay(failures).as_secs()).collect();
        assert_eq!(delays, [0, 1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(delay(u32::MAX), MAX_DELAY);
    }
}
