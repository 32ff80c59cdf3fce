//! A note that slurmctld knows the node of this pod: for probes, which would else have to ask slurmctld every second.

use std::path::Path;

use crate::files;
use crate::lookup::ROOT;

const FILE: &str = "/run/slurm-agent/registered";

/// Notes it.
///
/// # Errors
///
/// It cannot be written.
pub fn note() -> Result<(), String> {
    files::write(Path::new(FILE), b"", ROOT, 0o644)
}

/// Forgets it: what another life of this container noted does not count.
pub fn forget() {
    // It need not be there.
    let _ = std::fs::remove_file(FILE);
}

/// Whether it was noted.
pub fn is_noted() -> bool {
    Path::new(FILE).exists()
}
