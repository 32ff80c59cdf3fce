//! Control groups of version 2, as slurmd wants them: a group `system.slice` below ours that may have controllers.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const MOUNT: &str = "/sys/fs/cgroup";
/// Where processes go that were in the group itself: a group with processes can give no controllers to groups below it.
const LEAF: &str = "slurm-agent";
/// Where slurmd makes its groups.
const SLICE: &str = "system.slice";

/// Prepares the groups of this container.
///
/// # Errors
///
/// They cannot be changed; the container needs `privileged`.
pub fn prepare() -> Result<(), String> {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let Some(path) = path_of(&own) else {
        return Err("this container has no control group of version 2".into());
    };
    let group = group(Path::new(MOUNT), path);
    prepare_in(&group).map_err(|error| {
        format!(
            "cannot prepare the control group {}: {error}; does the container have `privileged: true`?",
            group.display()
        )
    })
}

/// The path in `0::/path`.
fn path_of(own: &str) -> Option<&str> {
    own.lines().find_map(|line| line.strip_prefix("0::"))
}

/// The group of this container. When the agent was here before in this container, it is in the leaf itself.
fn group(mount: &Path, path: &str) -> PathBuf {
    let path = path.trim_start_matches('/');
    let path = path.strip_suffix(LEAF).unwrap_or(path).trim_end_matches('/');
    if path.is_empty() { mount.to_owned() } else { mount.join(path) }
}

fn prepare_in(group: &Path) -> io::Result<()> {
    let (leaf, slice) = (group.join(LEAF), group.join(SLICE));
    for directory in [&leaf, &slice] {
        if !directory.is_dir() {
            fs::create_dir(directory)?;
        }
    }
    for process in fs::read_to_string(group.join("cgroup.procs"))?.lines() {
        // It may have ended; kernel threads cannot be moved.
        let _ = fs::write(leaf.join("cgroup.procs"), process);
    }
    let controllers = fs::read_to_string(group.join("cgroup.controllers"))?;
    for directory in [group, &slice] {
        for controller in controllers.split_whitespace() {
            fs::write(directory.join("cgroup.subtree_control"), format!("+{controller}"))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_is_the_containers_also_after_processes_moved_to_the_leaf() {
        assert_eq!(path_of("12:pids:/x\n0::/kubepods/a\n"), Some("/kubepods/a"));
        assert_eq!(path_of("12:pids:/x\n"), None);
        let mount = Path::new("/m");
        assert_eq!(group(mount, "/"), Path::new("/m"));
        assert_eq!(group(mount, "/slurm-agent"), Path::new("/m"));
        assert_eq!(group(mount, "/kubepods/a"), Path::new("/m/kubepods/a"));
        assert_eq!(group(mount, "/kubepods/a/slurm-agent"), Path::new("/m/kubepods/a"));
    }

    #[test]
    fn processes_move_and_controllers_are_given_on() {
        let group = tempfile::tempdir().unwrap();
        fs::write(group.path().join("cgroup.procs"), "1\n").unwrap();
        fs::write(group.path().join("cgroup.controllers"), "cpuset memory\n").unwrap();
        for _ in 0..2 {
            prepare_in(group.path()).unwrap();
        }
        assert_eq!(fs::read_to_string(group.path().join("slurm-agent/cgroup.procs")).unwrap(), "1");
        assert_eq!(
            fs::read_to_string(group.path().join("system.slice/cgroup.subtree_control")).unwrap(),
            "+memory"
        );
    }
}
