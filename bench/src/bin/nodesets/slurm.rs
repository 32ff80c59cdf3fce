//! A real slurmctld and slurmrestd with as many nodes as wanted, and a proxy before them that notes requests.
//!
//! Nodes have no slurmd: slurmctld is told to believe that they are idle (`SlurmdTimeout=0`, then `State=DOWN` and `State=IDLE`),
//! because a thousand slurmds do not fit on a small machine. Everything that the operator reads and writes is real.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use rig::SlurmMachine;
use rig::slurm::{Options, Version};

use crate::proxy::Proxy;

/// The newest: peers speak newer versions of the API than older ones offer.
const VERSION: Version = Version::V26_05;
const PATIENCE: Duration = Duration::from_secs(180);
const DAY: u32 = 24 * 60 * 60;

/// What was asked for.
pub struct Requests {
    /// Lists of nodes.
    pub nodes: usize,
    /// Lists of jobs.
    pub jobs: usize,
    /// Everything else.
    pub others: usize,
    /// Lists that follow one of the same kind: each look is one list of nodes, then one of jobs.
    pub out_of_turn: usize,
}

/// A Slurm cluster.
pub struct Slurm {
    // Before the machine: it leads there.
    pub proxy: Proxy,
    pub machine: SlurmMachine,
    pub token: String,
}

impl Slurm {
    /// With these nodes (host lists), all idle. `port`: of the proxy; 0 for any.
    pub async fn start(hosts: &[String], port: u16) -> Result<Self> {
        let mut lines = String::from("SlurmdTimeout=0\n");
        for hosts in hosts {
            lines += &format!("NodeName={hosts} NodeAddr=127.0.0.1 CPUs=4 RealMemory=4000 State=UNKNOWN\n");
        }
        lines += PARTITION;
        let slurm = Self::with(&lines, port).await?;
        let all = format!("NodeName={}", hosts.join(","));
        // There is no way from UNKNOWN to IDLE but over DOWN.
        slurm.machine.exec(&["scontrol", "update", &all, "State=DOWN", "Reason=emulated"])?;
        slurm.machine.exec(&["scontrol", "update", &all, "State=IDLE"])?;
        // Once, half a minute after its start, slurmctld asks all nodes. That nobody answers changes how they look, so it must be
        // over before anything is measured; they stay idle, and take jobs and drains.
        let begun = Instant::now();
        loop {
            let states = slurm.machine.exec(&["sinfo", "--noheader", "--Node", "--format", "%T"])?;
            if states.lines().all(|state| state.trim() == "idle*") {
                break;
            }
            ensure!(begun.elapsed() < PATIENCE, "slurmctld has not asked all nodes:\n{states}");
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        Ok(slurm)
    }

    /// With so many nodes `w-0`, `w-1`, ... that wait for their slurmds.
    pub async fn with_nodes(count: usize) -> Result<Self> {
        let mut lines = String::new();
        for number in 0..count {
            let port = 7100 + number;
            lines += &format!(
                "NodeName=w-{number} NodeAddr=127.0.0.1 Port={port} CPUs=4 RealMemory=4000 State=UNKNOWN\n"
            );
        }
        lines += PARTITION;
        Self::with(&lines, 0).await
    }

    /// Starts a slurmd for each of so many nodes.
    pub fn start_slurmds(&self, count: usize) -> Result<()> {
        let nodes: Vec<String> = (0..count).map(|number| format!("w-{number}")).collect();
        for node in &nodes {
            let command = ["/usr/sbin/slurmd", "-D", "-N", node];
            self.machine.start_daemon(&format!("slurmd-{node}"), &command)?;
        }
        nodes.iter().try_for_each(|node| self.machine.wait_for_node(node, &["idle"]))
    }

    async fn with(lines: &str, port: u16) -> Result<Self> {
        let machine = SlurmMachine::start(Options::controller_only(VERSION).rest().extra_conf(lines))?;
        let proxy = Proxy::start(&machine.rest_url()?, port).await?;
        let token = machine.token("root", DAY)?;
        Ok(Self { proxy, machine, token })
    }

    /// What was asked for since then.
    pub fn requests(&self, since: Instant) -> Requests {
        let all = self.proxy.since(since);
        let count = |name: &str| all.iter().filter(|request| request.lists(name)).count();
        let (nodes, jobs) = (count("nodes"), count("jobs"));
        let turns: Vec<bool> = all
            .iter()
            .filter(|request| request.lists("nodes") || request.lists("jobs"))
            .map(|request| request.lists("nodes"))
            .collect();
        let out_of_turn = turns.windows(2).filter(|pair| pair.first() == pair.last()).count();
        Requests { nodes, jobs, others: all.len() - nodes - jobs, out_of_turn }
    }

    /// How long it took from the first change of a node after `since` to the last, and how many there were.
    pub fn changes(&self, since: Instant) -> Option<(Duration, Duration, usize)> {
        let mut all = self.proxy.since(since);
        all.retain(|request| request.method == "POST");
        let (first, last) = (all.first()?.at, all.last()?.at);
        Some((first - since, last - first, all.len()))
    }
}

const PARTITION: &str = "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n";
