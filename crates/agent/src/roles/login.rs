//! sshd of a login pod, which shows users the jail where there is one. Sessions outlive sshd when the pod is told to stop, until its grace ends.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::Signal;
use slurm::agent::{env, path};

use super::client_conf::ClientConf;
use super::keep::{Plan, keep};
use super::variable;
use crate::agent::{Agent, Stopped};
use crate::daemon::Daemon;
use crate::jail::{Jail, Pod};
use crate::proc;
use crate::sshd::Sshd;

struct Login {
    conf: ClientConf,
    sshd: Sshd,
    jail: Jail,
}

/// Runs sshd.
pub fn run(agent: &Agent) -> Result<(), String> {
    agent.update(|state| state.sessions = Some(0));
    let mut conf = None;
    let waited = agent.wait_for(|| {
        if !Path::new(path::SSHD_CONFIG).exists() {
            return Err(format!("{} is not there yet", path::SSHD_CONFIG));
        }
        conf = Some(ClientConf::new(agent)?);
        Ok(())
    });
    let entered = waited.and_then(|()| Jail::enter(agent, Pod::Login));
    match (entered, conf) {
        (Ok(jail), Some(conf)) => {
            let mut plan = Login { conf, sshd: Sshd::new(variable(env::PORT)), jail };
            let kept = keep(agent, "sshd", &mut plan);
            plan.jail.leave(agent);
            kept
        }
        (Err(Stopped), _) | (_, None) => Ok(()),
    }
}

impl Plan for Login {
    fn command(&mut self, _agent: &Agent) -> Result<Command, String> {
        self.sshd.command()
    }

    fn look(&mut self, agent: &Agent, daemon: &mut Daemon) {
        // The commands of users read it each time they start.
        self.conf.refresh(agent);
        self.jail.look(agent);
        self.sshd.look(agent, daemon);
    }

    fn stop(&mut self, agent: &Agent, daemon: &mut Daemon) {
        // Only the listener: sessions are processes of their own.
        daemon.stop(Signal::SIGTERM, Duration::from_secs(5));
        agent.update(|state| state.running = false);
        let mut said = None;
        loop {
            let open = proc::sessions();
            if open == 0 {
                return;
            }
            if said != Some(open) {
                agent.say(&format!("waiting for {open} sessions to end"));
                agent.update(|state| state.waiting_for = Some(format!("{open} sessions are open")));
                said = Some(open);
            }
            std::thread::sleep(Duration::from_secs(1));
        }
    }
}
