//! Programs of a user's supervisord.conf, beside slurmd.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::Instant;

use crate::agent::Agent;
use crate::children::Ended;
use crate::daemon::Daemon;
use crate::supervisord::Program;
use crate::{lookup, programs};

/// The programs, in the order in which they start.
pub struct Programs {
    all: Vec<Kept>,
}

struct Kept {
    program: Program,
    daemon: Daemon,
    started: Option<Instant>,
    /// Starts in a row that failed at once.
    failures: u32,
    /// Nothing more is to be done.
    over: bool,
}

impl Programs {
    /// All programs but those that we run in our own way.
    ///
    /// # Errors
    ///
    /// The machine has no pipes left.
    pub fn new(all: Vec<Program>, own: &[&str]) -> io::Result<Self> {
        let others = all.into_iter().filter(|program| !own.contains(&program.name.as_str()));
        let kept = others.map(|program| {
            let (daemon, over) = (Daemon::new(&program.name)?, !program.autostart);
            Ok(Kept { program, daemon, started: None, failures: 0, over })
        });
        Ok(Self { all: kept.collect::<io::Result<_>>()? })
    }

    /// Starts what has to run.
    pub fn step(&mut self, agent: &Agent) {
        for kept in &mut self.all {
            kept.step(agent);
        }
    }

    /// Stops all, the last one first.
    pub fn stop(&mut self) {
        for kept in self.all.iter_mut().rev() {
            kept.daemon.stop(kept.program.stop_signal, kept.program.stop_wait);
        }
    }
}

impl Kept {
    fn step(&mut self, agent: &Agent) {
        if let Some((ended, words)) = self.daemon.take_end() {
            let code = match ended {
                Ended::Code(code) => Some(code),
                Ended::Signal(_) => None,
            };
            let lived = self.started.is_some_and(|started| started.elapsed() >= self.program.start_time);
            self.failures = if lived { 0 } else { self.failures.saturating_add(1) };
            self.over = if lived {
                !self.program.restarts_after(code)
            } else {
                self.failures > self.program.start_retries
            };
            if self.over && lived {
                agent.say(&format!("{} ended ({ended})", self.program.name));
            } else if self.over {
                agent.failed(&format!(
                    "{} ended too often at its start ({ended}): {words}",
                    self.program.name
                ));
            } else {
                agent.crashed(&self.daemon, ended, &words);
            }
        }
        if self.over || !self.daemon.due() {
            return;
        }
        let started = self.command(agent).inspect_err(|_| self.daemon.start_failed());
        match started.and_then(|mut command| self.daemon.start(&agent.children, &mut command)) {
            Ok(()) => self.started = Some(Instant::now()),
            Err(error) => agent.failed(&format!("{}: {error}", self.program.name)),
        }
    }

    fn command(&self, agent: &Agent) -> Result<Command, String> {
        let (file, arguments) = self.program.command.split_first().ok_or("there is no command")?;
        let mut command = programs::command(file)?;
        command.args(arguments).envs(&self.program.environment);
        if let Some(directory) = &self.program.directory {
            command.current_dir(directory);
        }
        if let Some(name) = &self.program.user {
            let user = lookup::user(&agent.children, name)?;
            command.uid(user.uid).gid(user.gid);
        }
        Ok(command)
    }
}
