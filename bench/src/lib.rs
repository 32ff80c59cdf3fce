//! What benchmarks share: memory and CPU time of processes, and a slurmrestd that answers with recorded records.

pub mod recorded;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

/// The memory of this process now, in bytes.
pub fn memory() -> Result<u64> {
    status("VmRSS:")
}

/// The program to measure: the one that is named, or else the `soperator` beside this program.
///
/// # Errors
///
/// It is not there.
pub fn soperator(named: Option<PathBuf>) -> Result<PathBuf> {
    let beside = || Ok::<_, anyhow::Error>(std::env::current_exe()?.with_file_name("soperator"));
    let path = named.map_or_else(beside, Ok)?;
    ensure!(
        path.exists(),
        "{} is not there: build it (cargo build --release --package soperator), or name it",
        path.display()
    );
    Ok(path)
}

/// The memory of another process now, in bytes.
pub fn memory_of(process: &str) -> Result<u64> {
    status_of(process, "VmRSS:")
}

/// The most memory that this process had since [`forget_peak`], in bytes.
pub fn peak() -> Result<u64> {
    status("VmHWM:")
}

/// The most memory that another process had since it began, in bytes.
pub fn peak_of(process: &str) -> Result<u64> {
    status_of(process, "VmHWM:")
}

/// Begins a new measurement of the peak.
pub fn forget_peak() -> Result<()> {
    fs::write("/proc/self/clear_refs", "5").context("cannot reset the peak of memory")
}

/// Bytes as MB.
pub fn mb(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

fn status(key: &str) -> Result<u64> {
    status_of("self", key)
}

fn status_of(process: &str, key: &str) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(key)).context("no such line")?;
    let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kilobytes * 1024)
}

/// CPU time of a process (`self` for this one) in all its threads.
pub fn cpu_time(process: &str) -> Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The name may hold blanks and brackets; what follows it does not.
    let fields = stat.rsplit_once(')').context("no name in stat")?.1;
    let ticks: u64 =
        fields.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    // USER_HZ is 100 on every Linux that we build for.
    Ok(Duration::from_millis(ticks * 10))
}
