//! A worker: slurmd, with sshd or the user's own programs beside it.
//!
//! Job steps are processes of their own and outlive slurmd, which is started again in place. When the pod is told to stop, the
//! node is drained and its jobs end first.

mod command;
mod node;
mod programs;

use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use slurm::agent::{env, path};

use self::node::Node;
use self::programs::Programs;
use super::keep::{LOOK, step};
use super::variable;
use crate::agent::{Agent, Stopped, TICK};
use crate::daemon::Daemon;
use crate::etc_slurm::{self, ETC_SLURM};
use crate::files;
use crate::jail::{Jail, Pod};
use crate::sshd::Sshd;
use crate::supervisord::{self, Supervisord};
use crate::{cgroup, lookup, munge_socket, proc, registration};

const SLURMCTLD_PORT: u16 = 6817;
const SLURMD: &str = "slurmd";
const SSHD: &str = "sshd";
const STOP: Duration = Duration::from_secs(20);
/// How long steps that have ended may try to tell it to a slurmctld that does not answer.
const REPORT: Duration = Duration::from_secs(60);

/// sshd beside slurmd.
struct Beside {
    sshd: Sshd,
    daemon: Daemon,
}

/// Runs a worker.
pub fn run(agent: &Agent) -> Result<(), String> {
    let node = Node::from_environment();
    registration::forget();
    agent.update(|state| state.job_steps = Some(Vec::new()));
    let user = user_programs();
    if let Some(user) = &user {
        agent.update(|state| state.unsupported.clone_from(&user.unsupported));
        for unsupported in &user.unsupported {
            agent.say(&format!("{}: not supported: {unsupported}", path::SUPERVISORD_CONFIG));
        }
    }
    // Without a file of the user's, sshd runs where it is configured.
    let wants_sshd =
        user.as_ref().is_none_or(|user| user.programs.iter().any(|program| program.name == SSHD));
    let failed = |error: std::io::Error| error.to_string();
    let mut sshd = None;
    if wants_sshd && Path::new(path::SSHD_CONFIG).exists() {
        sshd =
            Some(Beside { sshd: Sshd::new(variable(env::PORT)), daemon: Daemon::new(SSHD).map_err(failed)? });
    }
    let mut others = Programs::new(user.unwrap_or_default().programs, &[SLURMD, SSHD]).map_err(failed)?;
    let mut slurmd = Daemon::new(SLURMD).map_err(failed)?;

    prepare(agent);
    // Before slurmd runs: a job must never find half a jail.
    let mut jail = Jail::default();
    if let Ok(entered) = Jail::enter(agent, Pod::Worker) {
        jail = entered;
        if wait(agent).is_ok() {
            let Err(Stopped) = work(agent, &node, &mut slurmd, &mut sshd, &mut others);
        }
    }
    stop(agent, &node, &mut slurmd, &mut others);
    if let Some(beside) = &mut sshd {
        beside.daemon.stop(Signal::SIGTERM, STOP);
    }
    jail.leave(agent);
    Ok(())
}

/// The user's own supervisord.conf, if one is mounted.
fn user_programs() -> Option<Supervisord> {
    let text = std::fs::read(path::SUPERVISORD_CONFIG).ok()?;
    Some(supervisord::parse(&String::from_utf8_lossy(&text), &|name| std::env::var(name).ok()))
}

/// What slurmd finds in place.
fn prepare(agent: &Agent) {
    if variable(env::CGROUP_V2).as_deref() == Some("true")
        && let Err(error) = cgroup::prepare()
    {
        agent.failed(&error);
    }
    // Commands in the pod see what slurmd has fetched, not what the image may hold.
    if variable(env::CONF_SERVER).is_some()
        && let Err(error) = etc_slurm::hide(Path::new(ETC_SLURM))
    {
        agent.failed(&error);
    }
    if let Err(error) = files::make_directory(Path::new(path::SLURMD_SPOOL)) {
        agent.failed(&format!("cannot make {}: {error}", path::SLURMD_SPOOL));
    }
}

/// Waits for everything that slurmd needs, and then a random time, so that not all workers register at once.
fn wait(agent: &Agent) -> Result<(), Stopped> {
    agent.wait_for(munge_socket::listens)?;
    agent.wait_for(|| {
        if let Some(name) = own_name()
            && lookup::addresses(&agent.children, &name).is_empty()
        {
            return Err(format!("{name}, the name of this pod, has no address yet"));
        }
        let Some(server) = variable(env::CONF_SERVER) else { return Ok(()) };
        let (host, port) = lookup::host_and_port(&server, SLURMCTLD_PORT);
        lookup::listens(&agent.children, &host, port).map_err(|reason| format!("slurmctld: {reason}"))
    })?;
    let longest = variable(env::REGISTRATION_DELAY).and_then(|value| value.parse().ok()).unwrap_or(0);
    agent.pause(random_part(Duration::from_secs(longest)))
}

/// The DNS name of this pod, where it has one.
fn own_name() -> Option<String> {
    let (pod, service) = (variable(env::POD_NAME)?, variable(env::SERVICE_NAME)?);
    Some(match variable(env::POD_NAMESPACE) {
        Some(namespace) => format!("{pod}.{service}.{namespace}.svc"),
        None => format!("{pod}.{service}"),
    })
}

fn random_part(longest: Duration) -> Duration {
    let mut random = [0_u8; 4];
    let read = std::fs::File::open("/dev/urandom")
        .and_then(|mut file| std::io::Read::read_exact(&mut file, &mut random));
    match read {
        Ok(()) => longest.mul_f64(f64::from(u32::from_be_bytes(random)) / f64::from(u32::MAX)),
        Err(_) => longest / 2,
    }
}

/// Keeps everything alive until the agent is told to stop.
fn work(
    agent: &Agent,
    node: &Node,
    slurmd: &mut Daemon,
    sshd: &mut Option<Beside>,
    others: &mut Programs,
) -> Result<std::convert::Infallible, Stopped> {
    let mut looked = Instant::now();
    // Whether the node is registered, and a drain of ours from its last life is taken back.
    let mut settled = false;
    loop {
        if let Some(beside) = sshd {
            step(agent, &mut beside.daemon, |_| beside.sshd.command());
        }
        others.step(agent);
        // Last: `running` is about slurmd.
        step(agent, slurmd, |agent| command::slurmd(agent, node));
        for signal in agent.pending_signals() {
            slurmd.signal(signal);
        }
        if looked.elapsed() >= LOOK {
            looked = Instant::now();
            settled = settled || node.settle(agent);
            if let Some(beside) = sshd {
                beside.sshd.look(agent, &mut beside.daemon);
            }
        }
        agent.pause(TICK)?;
    }
}

/// Drains the node, waits for its jobs, and stops slurmd.
fn stop(agent: &Agent, node: &Node, slurmd: &mut Daemon, others: &mut Programs) {
    if slurmd.runs() || !proc::job_steps().all.is_empty() {
        let (mut asked, mut lived) = (None, Instant::now());
        node.drain(agent);
        loop {
            // Job steps need slurmd to report their end.
            step(agent, slurmd, |agent| command::slurmd(agent, node));
            let steps = proc::job_steps();
            if steps.all != steps.ended {
                lived = Instant::now();
            }
            if steps.all.is_empty() || lived.elapsed() >= REPORT {
                let ask = asked.is_none_or(|asked: Instant| asked.elapsed() >= LOOK);
                if ask && node.is_free(agent) {
                    break;
                }
                if ask {
                    asked = Some(Instant::now());
                }
            }
            std::thread::sleep(TICK);
        }
    }
    others.stop();
    slurmd.stop(Signal::SIGTERM, STOP);
    agent.update(|state| state.running = false);
    node.down(agent);
}
