//! A Slurm machine ends with its holder, however that ends, and leaves nothing behind.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use e2e::wait_until;
use rig::SlurmMachine;
use rig::slurm::{Options, Running, Version};

/// Processes in the same pid namespace as process `pid`.
fn namespace_of(pid: u32) -> Result<PathBuf> {
    Ok(std::fs::read_link(format!("/proc/{pid}/ns/pid"))?)
}

fn processes_in(namespace: &PathBuf) -> usize {
    let items = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    items
        .filter(|item| std::fs::read_link(item.path().join("ns/pid")).is_ok_and(|at| at == *namespace))
        .count()
}

#[test]
fn dropping_a_machine_ends_every_process_and_the_way_in() -> Result<()> {
    let slurm = SlurmMachine::start(Options::new(Version::V24_11).nodes(1))?;
    slurm.exec_as("tester", &["sbatch", "--output=/dev/null", "--wrap", "sleep 1000"])?;
    slurm.wait_for_node("node-1", &["mixed", "allocated"])?;
    let namespace = namespace_of(slurm.pid())?;
    let address = slurm.rest_url()?.trim_start_matches("http://").to_string();
    assert!(processes_in(&namespace) >= 5, "init, munged, slurmctld, slurmd, slurmrestd");
    drop(slurm);
    assert_eq!(processes_in(&namespace), 0);
    assert!(std::net::TcpStream::connect(address).is_err(), "the port is closed");
    Ok(())
}

#[test]
fn killing_the_holder_ends_every_process() -> Result<()> {
    let mut holder = Command::new(std::env::current_exe()?)
        .args(["--ignored", "--exact", "lifecycle::hold_a_machine", "--nocapture"])
        .stdout(Stdio::piped())
        .spawn()?;
    let lines = BufReader::new(holder.stdout.take().context("no output")?).lines();
    let pid = lines
        .map_while(Result::ok)
        .find_map(|line| line.split_once("machine at ").and_then(|(_, pid)| pid.parse().ok()))
        .context("the holder did not start a machine")?;
    let namespace = namespace_of(pid)?;
    assert!(processes_in(&namespace) >= 3, "init, munged, slurmctld");
    holder.kill()?;
    holder.wait()?;
    wait_until("every process of the machine has ended", || Ok(processes_in(&namespace) == 0))
}

#[test]
#[ignore = "what `killing_the_holder_ends_every_process` kills"]
fn hold_a_machine() -> Result<()> {
    let slurm = SlurmMachine::start(Options::controller_only(Version::V26_05))?;
    println!("\nmachine at {}", slurm.pid());
    std::thread::sleep(Duration::from_secs(600));
    Ok(())
}

#[test]
fn daemons_are_stopped_killed_and_started_again() -> Result<()> {
    let slurm = SlurmMachine::start(Options::new(Version::V26_05).nodes(1))?;
    assert_eq!(slurm.running("slurmd-node-1"), Some(Running::Yes));
    assert_eq!(slurm.kill("slurmd-node-1")?, "killed by SIGKILL");
    slurm.restart("slurmctld")?;
    slurm.start_again("slurmd-node-1")?;
    slurm.wait_for_node("node-1", &["idle"])?;
    assert!(slurm.logs("slurmctld").contains("slurmctld version 26.05"));
    let error = format!("{:#}", slurm.stop("slurmfoo").unwrap_err());
    assert!(
        error.contains("no daemon is called \"slurmfoo\"; they are munged, slurmctld, slurmd-node-1"),
        "{error}"
    );
    Ok(())
}
