//! What benchmarks share: how much memory this process has, and how much it had at most.

use std::fs;

use anyhow::{Context, Result};

/// The memory of this process now, in bytes.
pub fn memory() -> Result<u64> {
    status("VmRSS:")
}

/// The most memory that this process had since [`forget_peak`], in bytes.
pub fn peak() -> Result<u64> {
    status("VmHWM:")
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
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(key)).context("no such line")?;
    let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kilobytes * 1024)
}
