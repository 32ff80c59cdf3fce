//! Keeps one daemon alive until the agent is told to stop.

use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::agent::{Agent, TICK};
use crate::daemon::Daemon;

/// How often mounted files are looked at.
pub const LOOK: Duration = Duration::from_secs(2);

/// What differs between daemons.
pub trait Plan {
    /// Puts everything in place for a start. Called before each.
    ///
    /// # Errors
    ///
    /// Why it cannot be started now. It is tried again.
    fn command(&mut self, agent: &Agent) -> Result<Command, String>;

    /// Looks at files and at the daemon, every few seconds.
    fn look(&mut self, agent: &Agent, daemon: &mut Daemon);

    /// How long the daemon may take to stop.
    fn stop_patience(&self) -> Duration {
        Duration::from_secs(20)
    }

    /// Stops the daemon in the end.
    fn stop(&mut self, _agent: &Agent, daemon: &mut Daemon) {
        daemon.stop(Signal::SIGTERM, self.stop_patience());
    }
}

/// Runs the daemon of a plan.
///
/// # Errors
///
/// The machine has no pipes left.
pub fn keep(agent: &Agent, name: &str, plan: &mut dyn Plan) -> Result<(), String> {
    let mut daemon = Daemon::new(name).map_err(|error| error.to_string())?;
    let mut looked = Instant::now();
    loop {
        step(agent, &mut daemon, |agent| plan.command(agent));
        for signal in agent.pending_signals() {
            daemon.signal(signal);
        }
        if looked.elapsed() >= LOOK {
            looked = Instant::now();
            plan.look(agent, &mut daemon);
        }
        if agent.pause(TICK).is_err() {
            break;
        }
    }
    plan.stop(agent, &mut daemon);
    agent.update(|state| state.running = false);
    Ok(())
}

/// Notes the end of a daemon, and starts it when it is time.
pub fn step(agent: &Agent, daemon: &mut Daemon, command: impl FnOnce(&Agent) -> Result<Command, String>) {
    if let Some((ended, words)) = daemon.take_end() {
        agent.crashed(daemon, ended, &words);
    }
    if daemon.due() {
        let started = command(agent).inspect_err(|_| daemon.start_failed());
        if let Err(error) = started.and_then(|mut command| daemon.start(&agent.children, &mut command)) {
            agent.failed(&error);
        }
    }
    let running = daemon.runs();
    agent.update(|state| state.running = running);
}
