//! The root cgroup of each node, in every hierarchy of the machine (v1, v2 and hybrid).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// How long the kernel may need to let go of the processes of a machine that was killed.
const PATIENCE: Duration = Duration::from_secs(10);

/// Controllers that kubelets need.
const CONTROLLERS: [&str; 4] = ["cpu", "cpuset", "memory", "pids"];
/// In v1 one more.
const V1_CONTROLLER: &str = "cpuacct";

/// One mounted hierarchy.
#[derive(Debug, PartialEq, Eq)]
enum Hierarchy<'a> {
    /// With its mount options, among which are the names of its controllers.
    V1(PathBuf, &'a str),
    V2(PathBuf),
}

/// All cgroup hierarchies, from the text of `/proc/self/mounts`.
fn hierarchies_in(mounts: &str) -> Vec<Hierarchy<'_>> {
    mounts
        .lines()
        .filter_map(|line| {
            let mut fields = line.split(' ').skip(1);
            let (target, kind, options) = (fields.next()?, fields.next()?, fields.next()?);
            match kind {
                "cgroup" => Some(Hierarchy::V1(target.into(), options)),
                "cgroup2" => Some(Hierarchy::V2(target.into())),
                _ => None,
            }
        })
        .collect()
}

fn mounts() -> Result<String> {
    fs::read_to_string("/proc/self/mounts").context("cannot read /proc/self/mounts")
}

/// Mount points of all cgroup hierarchies of this machine.
pub fn hierarchies() -> Result<Vec<PathBuf>> {
    let mounts = mounts()?;
    let found: Vec<PathBuf> = hierarchies_in(&mounts)
        .into_iter()
        .map(|hierarchy| match hierarchy {
            Hierarchy::V1(target, _) | Hierarchy::V2(target) => target,
        })
        .collect();
    if found.is_empty() {
        bail!("no cgroup file system is mounted: mount one on /sys/fs/cgroup");
    }
    Ok(found)
}

/// Whether this machine has every controller that kubelets need.
pub fn check_controllers() -> Result<()> {
    hierarchies()?;
    let offered = |v2: &Path| fs::read_to_string(v2.join("cgroup.controllers")).unwrap_or_default();
    let missing = missing_controllers(&hierarchies_in(&mounts()?), offered);
    if !missing.is_empty() {
        bail!(
            "kubelets need cgroup controllers that this machine does not offer: {}. /proc/cgroups tells whether the kernel has them \
             (1 in the last column; if not, boot it with `cgroup_enable=NAME`). If it has, mount each below /sys/fs/cgroup \
             (v1: `mount -t cgroup -o NAME cgroup /sys/fs/cgroup/NAME`), or let this container have it",
            missing.join(", ")
        );
    }
    Ok(())
}

/// The controllers that kubelets miss; `offered` tells those of a v2 hierarchy.
fn missing_controllers(
    hierarchies: &[Hierarchy<'_>],
    offered: impl Fn(&Path) -> String,
) -> Vec<&'static str> {
    // The kubelet's own rule: it goes by v2 only if that is all there is, or at least what lies on top.
    let top = Path::new("/sys/fs/cgroup");
    let found: Vec<String> =
        if hierarchies.iter().any(|hierarchy| matches!(hierarchy, Hierarchy::V2(target) if target == top)) {
            let controllers = offered(top);
            // Every group of v2 counts the time that its processes used.
            controllers.split_whitespace().chain([V1_CONTROLLER]).map(str::to_owned).collect()
        } else {
            let options = hierarchies.iter().filter_map(|hierarchy| match hierarchy {
                Hierarchy::V1(_, options) => Some(options),
                Hierarchy::V2(_) => None,
            });
            options.flat_map(|options| options.split(',')).map(str::to_owned).collect()
        };
    let needed = CONTROLLERS.into_iter().chain([V1_CONTROLLER]);
    needed.filter(|name| !found.iter().any(|found| found == name)).collect()
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

    const HYBRID: &str = "proc /proc proc rw 0 0\n\
                          tmpfs /sys/fs/cgroup tmpfs rw 0 0\n\
                          cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n\
                          cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,nosuid,cpu,cpuacct 0 0\n\
                          cgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0\n\
                          cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
    const V2: &str = "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n";

    fn missing(mounts: &str, offered: &str) -> Vec<&'static str> {
        missing_controllers(&hierarchies_in(mounts), |_| offered.to_owned())
    }

    #[test]
    fn v1_v2_and_hybrid_hierarchies_are_found() {
        let v1 = |path: &str, options| Hierarchy::V1(path.into(), options);
        assert_eq!(
            hierarchies_in(HYBRID),
            [
                v1("/sys/fs/cgroup/memory", "rw,memory"),
                v1("/sys/fs/cgroup/cpu,cpuacct", "rw,nosuid,cpu,cpuacct"),
                v1("/sys/fs/cgroup/cpuset", "rw,cpuset"),
                Hierarchy::V2("/sys/fs/cgroup/unified".into()),
            ]
        );
    }

    #[test]
    fn missing_controllers_are_named_in_v1_v2_and_hybrid() {
        assert_eq!(missing(V2, "cpuset cpu io memory hugetlb pids rdma\n"), [""; 0]);
        assert_eq!(missing(V2, "cpu io\n"), ["cpuset", "memory", "pids"]);
        assert_eq!(missing(HYBRID, "pids\n"), ["pids"], "the kubelet looks for it in v1");
        assert_eq!(missing(&HYBRID.replace(",cpuacct 0", ",pids 0"), ""), ["cpuacct"]);
        let net_cls = "cgroup /run/net_cls cgroup rw,net_cls 0 0\n";
        assert_eq!(missing(&format!("{V2}{net_cls}"), "cpuset cpu memory pids\n"), [""; 0]);
    }
}
