//! The root cgroup of each node, in every hierarchy of the machine (v1, v2 and hybrid).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// How long the kernel may need to let go of the processes of a machine that was killed.
const PATIENCE: Duration = Duration::from_secs(10);

/// Mount points of all cgroup hierarchies, from the text of `/proc/self/mounts`.
fn hierarchies_in(mounts: &str) -> Vec<PathBuf> {
    mounts
        .lines()
        .filter_map(|line| {
            let mut fields = line.split(' ');
            let (_, target, kind) = (fields.next()?, fields.next()?, fields.next()?);
            (kind == "cgroup" || kind == "cgroup2").then(|| PathBuf::from(target))
        })
        .collect()
}

/// Mount points of all cgroup hierarchies of this machine.
pub fn hierarchies() -> Result<Vec<PathBuf>> {
    let found =
        hierarchies_in(&fs::read_to_string("/proc/self/mounts").context("cannot read /proc/self/mounts")?);
    if found.is_empty() {
        bail!("no cgroup file system is mounted: mount one on /sys/fs/cgroup");
    }
    Ok(found)
}

/// Makes the cgroup `name` in every hierarchy.
pub fn create(name: &str) -> Result<()> {
    for hierarchy in hierarchies()? {
        let dir = hierarchy.join(name);
        fs::create_dir_all(&dir).with_context(|| format!("cannot make the cgroup {}", dir.display()))?;
        // A v1 cpuset without processors and memory takes no process.
        for file in ["cpuset.cpus", "cpuset.mems"] {
            if let (Ok(parent), Ok(own)) =
                (fs::read(hierarchy.join(file)), fs::read_to_string(dir.join(file)))
                && own.trim().is_empty()
            {
                fs::write(dir.join(file), parent)
                    .with_context(|| format!("cannot write {file} of {}", dir.display()))?;
            }
        }
    }
    Ok(())
}

/// Lets frozen processes in the cgroup `name` go on: suspended jobs. In v1 not even SIGKILL ends them before that.
pub fn thaw(name: &str) -> Result<()> {
    for hierarchy in hierarchies()? {
        thaw_tree(&hierarchy.join(name));
    }
    Ok(())
}

fn thaw_tree(dir: &Path) {
    let state = dir.join("freezer.state");
    if fs::read_to_string(&state).is_ok_and(|state| state.trim() != "THAWED") {
        // It may have gone meanwhile.
        let _ = fs::write(&state, "THAWED");
    }
    for item in fs::read_dir(dir).into_iter().flatten().flatten() {
        if item.file_type().is_ok_and(|kind| kind.is_dir()) {
            thaw_tree(&item.path());
        }
    }
}

/// Removes the cgroup `name` and all below it from every hierarchy. Its processes must be gone or going.
pub fn remove(name: &str) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    thaw(name)?;
    for hierarchy in hierarchies()? {
        let dir = hierarchy.join(name);
        while let Err(error) = remove_tree(&dir) {
            if Instant::now() > deadline {
                return Err(error).with_context(|| format!("cannot remove the cgroup {}", dir.display()));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    Ok(())
}

/// `rmdir`, depth first: the files of a cgroup cannot be removed and need not be.
fn remove_tree(dir: &Path) -> io::Result<()> {
    let items = match fs::read_dir(dir) {
        Ok(items) => items,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for item in items {
        let item = item?;
        if item.file_type()?.is_dir() {
            remove_tree(&item.path())?;
        }
    }
    match fs::remove_dir(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_frozen_anywhere_below_is_thawed() {
        let dir = tempfile::tempdir().unwrap();
        let job = dir.path().join("kubepods/pod/job_9/step_batch");
        fs::create_dir_all(&job).unwrap();
        fs::write(job.join("freezer.state"), "FROZEN\n").unwrap();
        thaw_tree(dir.path());
        assert_eq!(fs::read_to_string(job.join("freezer.state")).unwrap(), "THAWED");
    }

    #[test]
    fn v1_v2_and_hybrid_hierarchies_are_found() {
        let mounts = "proc /proc proc rw 0 0\n\
                      tmpfs /sys/fs/cgroup tmpfs rw 0 0\n\
                      cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        assert_eq!(
            hierarchies_in(mounts),
            [PathBuf::from("/sys/fs/cgroup/memory"), PathBuf::from("/sys/fs/cgroup/unified")]
        );
    }
}
