//! How much memory a rig takes.

use std::collections::BTreeSet;
use std::fs;

/// Bytes of all processes in the pid namespaces of the processes `inits`, and of this one; shared pages count once.
pub fn of_machines(inits: &[u32]) -> u64 {
    let namespace = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
    let wanted: BTreeSet<_> = inits.iter().filter_map(|pid| namespace(&pid.to_string())).collect();
    let own = std::process::id().to_string();
    let pids = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|item| item.file_name().into_string().ok());
    pids.filter(|pid| pid.starts_with(|c: char| c.is_ascii_digit()))
        // Containers have pid namespaces of their own below the node's, but their memory is not the rig's.
        .filter(|pid| *pid == own || namespace(pid).is_some_and(|namespace| wanted.contains(&namespace)))
        .filter_map(|pid| fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok())
        .filter_map(|text| proportional_kib(&text))
        .sum::<u64>()
        << 10
}

fn proportional_kib(smaps_rollup: &str) -> Option<u64> {
    smaps_rollup.lines().find_map(|line| line.strip_prefix("Pss:")?.split_whitespace().next()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_memory_is_counted() {
        assert!(of_machines(&[]) > 1 << 20);
    }
}
