//! What one look at a real slurmctld with thousands of nodes costs, here and there, and how large its snapshot is.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bench::{cpu_time, mb, memory};
use rig::SlurmMachine;
use rig::slurm::{Options, Version};
use slurm_client::{Client, StaticToken};

const LOOKS: u32 = 5;

fn main() -> Result<()> {
    for version in [Version::V24_11, Version::V26_05] {
        for nodes in [1_000, 10_000] {
            look(version, nodes)?;
        }
    }
    Ok(())
}

fn look(version: Version, nodes: u32) -> Result<()> {
    let slurm = SlurmMachine::start(Options::controller_only(version).rest().emulated(nodes))?;
    let client = Client::new(slurm.rest_url()?.parse()?, StaticToken::new(&slurm.token("root", 3600)?))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        // The first one finds out versions and fills pools; what more of them add is their own.
        let mut snapshots = vec![client.snapshot().await?];
        let before = memory()?;
        for _ in 0..LOOKS {
            snapshots.push(client.snapshot().await?);
        }
        let size = memory()?.saturating_sub(before) / u64::from(LOOKS);
        let complete = snapshots.iter().all(|snapshot| snapshot.nodes().len() == nodes as usize);
        anyhow::ensure!(complete, "a snapshot does not have all {nodes} nodes");
        drop(snapshots);
        let (here, there, begun) = (cpu_time("self")?, daemons(&slurm)?, Instant::now());
        for _ in 0..LOOKS {
            drop(client.snapshot().await?);
        }
        let each = |after: Duration, before: Duration| (after - before) / LOOKS;
        let (here, there) = (each(cpu_time("self")?, here), each(daemons(&slurm)?, there));
        println!(
            "{version:?}, {nodes} nodes: a look takes {:.1?}; CPU here {here:.1?}, in slurmctld and slurmrestd {there:.1?} ({:.0} times ours); snapshot {:.1} MB{}",
            begun.elapsed() / LOOKS,
            there.as_secs_f64() / here.as_secs_f64().max(1e-6),
            mb(size),
            if nodes == 10_000 { " (wanted: at most 10)" } else { "" },
        );
        Ok(())
    })
}

/// CPU time of the daemons so far.
fn daemons(slurm: &SlurmMachine) -> Result<Duration> {
    let mut sum = Duration::ZERO;
    for item in std::fs::read_dir("/proc")? {
        let path = item?.path();
        let name = std::fs::read_to_string(path.join("comm")).unwrap_or_default();
        // Ours are those below the machine's own process 1.
        let inside = std::fs::read_link(path.join("ns/pid")).ok()
            == std::fs::read_link(format!("/proc/{}/ns/pid", slurm.pid())).ok();
        if inside && matches!(name.trim(), "slurmctld" | "slurmrestd") {
            let pid = path.file_name().context("a number")?.to_string_lossy().into_owned();
            sum += cpu_time(&pid)?;
        }
    }
    Ok(sum)
}
