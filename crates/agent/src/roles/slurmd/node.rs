//! The Slurm node that the pod is: drained before the pod stops, undrained when it is back. A drain of somebody else's stays.

use std::process::Command;
use std::time::Duration;

use slurm::agent::{DRAIN_MARKER as MARKER, env};

use super::super::variable;
use crate::agent::Agent;
use crate::{programs, registration};

const STOPS: &str = "slurm-agent: the pod stops";
const BACK: &str = "the pod runs again";
const DOWN_TRIES: u32 = 4;
const PATIENCE: Duration = Duration::from_secs(15);

/// The node.
pub struct Node {
    name: String,
}

/// What `scontrol show node` says about a node.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Shown {
    /// E.g. `IDLE`, `DRAIN`, `DYNAMIC_NORM`.
    states: Vec<String>,
    reason: String,
}

impl Shown {
    fn parse(text: &str) -> Option<Self> {
        let line = text.lines().find(|line| line.starts_with("NodeName="))?;
        let state = line.split_whitespace().find_map(|word| word.strip_prefix("State="))?;
        // The last field of the line, or one before the comment; it has blanks.
        let reason = line.split_once(" Reason=").map(|(_, rest)| rest).unwrap_or_default();
        let mut states: Vec<String> = state
            .split('+')
            .map(|word| word.trim_end_matches(['*', '$', '~', '#', '%', '!']).to_owned())
            .collect();
        if state.contains('*') {
            states.push("NOT_RESPONDING".to_owned());
        }
        Some(Self { states, reason: reason.to_owned() })
    }

    fn is(&self, state: &str) -> bool {
        self.states.iter().any(|known| known == state)
    }

    fn is_drained_by_us(&self) -> bool {
        self.is("DRAIN") && self.reason.starts_with(MARKER)
    }

    /// Whether slurmd has told slurmctld about itself.
    fn is_registered(&self) -> bool {
        !["UNKNOWN", "DOWN", "NOT_RESPONDING", "FUTURE"].iter().any(|state| self.is(state))
    }
}

impl Node {
    /// The node of this pod.
    pub fn from_environment() -> Self {
        let host =
            || std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned();
        Self { name: variable(env::NODE_NAME).or_else(|| variable(env::POD_NAME)).unwrap_or_else(host) }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn ask(&self, agent: &Agent, program: &str, arguments: &[&str]) -> Result<String, String> {
        let mut command: Command = programs::command(program)?;
        command.args(arguments);
        if let Some(server) = variable(env::CONF_SERVER) {
            // Also before slurmd has fetched the configuration.
            command.env("SLURM_CONF_SERVER", server);
        }
        let printed = agent.run(&mut command, PATIENCE)?;
        if printed.ended.well() { Ok(printed.stdout) } else { Err(printed.stderr.trim().to_owned()) }
    }

    fn shown(&self, agent: &Agent) -> Result<Shown, String> {
        let text = self.ask(agent, "scontrol", &["show", "node", &self.name, "--oneliner"])?;
        Shown::parse(&text).ok_or_else(|| format!("scontrol does not know {}", self.name))
    }

    fn update(&self, agent: &Agent, words: &[&str]) -> Result<(), String> {
        let name = format!("NodeName={}", self.name);
        self.ask(agent, "scontrol", &[&["update", &name][..], words].concat()).map(drop)
    }

    /// Lets no new job come, unless somebody else has drained it already.
    pub fn drain(&self, agent: &Agent) {
        let drained = self.shown(agent).and_then(|shown| {
            if shown.is("DRAIN") {
                return Ok(());
            }
            agent.say(&format!("draining {}", self.name));
            self.update(agent, &["State=DRAIN", &format!("Reason={STOPS}")])
        });
        if let Err(error) = drained {
            // slurmctld may be gone for good: what lives here is still waited for.
            agent.failed(&format!("cannot drain {}: {error}", self.name));
        }
    }

    /// Whether slurmctld has no job here. Without an answer, what lives here counts alone.
    pub fn is_free(&self, agent: &Agent) -> bool {
        let states = "running,suspended,stopped,completing,configuring,stage_out,signaling,resizing";
        match self.ask(
            agent,
            "squeue",
            &["--noheader", "--nodelist", &self.name, "--states", states, "--format", "%i"],
        ) {
            Ok(jobs) => jobs.trim().is_empty(),
            Err(error) => {
                agent.failed(&format!("cannot ask for jobs on {}: {error}", self.name));
                true
            }
        }
    }

    /// Tells slurmctld at once that the node is gone, if the drain is ours and no job is there.
    pub fn down(&self, agent: &Agent) {
        for _ in 0..DOWN_TRIES {
            if self.try_down(agent) {
                return;
            }
            // An answer of slurmd that was still on its way calls the node back: it is told once more.
            std::thread::sleep(Duration::from_secs(1));
        }
    }

    /// Says whether there is nothing more to tell.
    fn try_down(&self, agent: &Agent) -> bool {
        let told = self.shown(agent).and_then(|shown| {
            let busy = ["ALLOCATED", "MIXED", "COMPLETING"].iter().any(|busy| shown.is(busy));
            if busy || shown.is("DOWN") || !shown.is_drained_by_us() {
                return Ok(true);
            }
            self.update(agent, &["State=DOWN", &format!("Reason={STOPS}")]).map(|()| false)
        });
        told.unwrap_or_else(|error| {
            agent.say(&format!("cannot call {} down: {error}", self.name));
            true
        })
    }

    /// Notes that the node has registered, and takes back a drain of ours. Says whether there is nothing more to do.
    pub fn settle(&self, agent: &Agent) -> bool {
        // slurmd itself first: what slurmctld says may be from the node's last life.
        let shown = self.ask(agent, "scontrol", &["show", "slurmd"]).and_then(|_| self.shown(agent));
        let Some(shown) = shown.ok().filter(Shown::is_registered) else { return false };
        if shown.is_drained_by_us() {
            agent.say(&format!("undraining {}", self.name));
            // Slurm 24.11 keeps the reason of a drain that is over, which would make the next one look like ours.
            if self.update(agent, &["State=UNDRAIN", &format!("Reason={BACK}")]).is_err() {
                return false;
            }
        }
        registration::note().inspect_err(|error| agent.failed(error)).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_and_reason_are_read_from_one_line() {
        let text = "NodeName=a Arch=x State=IDLE+DRAIN+DYNAMIC_NORM* ThreadsPerCore=1 Reason=slurm-agent: the pod stops [root@2026-11-16T06:00:00]\n";
        let shown = Shown::parse(text).unwrap();
        assert_eq!(shown.states, ["IDLE", "DRAIN", "DYNAMIC_NORM", "NOT_RESPONDING"]);
        assert!(
            shown.is("DRAIN") && shown.is_drained_by_us() && !shown.is_registered(),
            "it does not respond"
        );
        let back = Shown::parse("NodeName=a State=IDLE Reason=slurm-agent: the pod stops [root@x]").unwrap();
        assert!(back.is_registered() && !back.is_drained_by_us(), "the reason of an old drain may stay");
        let by_admin =
            Shown::parse("NodeName=a State=IDLE+DRAIN Reason=disk: slurm-agent: x [root@x]").unwrap();
        assert!(!by_admin.is_drained_by_us());
        assert_eq!(Shown::parse("Node a not found"), None);
    }
}
