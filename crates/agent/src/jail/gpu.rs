//! The driver's libraries and programs, where there is a driver: NVIDIA's own tool puts them into the jail of a worker.

use std::path::Path;
use std::time::Duration;

use slurm::agent::env;

use super::complement::Pod;
use super::mounts::{Depth, Mounts};
use super::root::Kind;
use crate::agent::Agent;
use crate::programs;

const TOOL: &str = "nvidia-container-cli";
const DEVICE: &str = "/dev/nvidiactl";
/// Tells login pods that libraries of the driver have names in the jail, empty where no driver is.
const FLAG: &str = "etc/gpu_libs_installed.flag";
/// A library of the original's login image, with nothing in it.
const DUMMY: &str = "/lib/x86_64-linux-gnu/libdummy.so";
const LIBRARIES: &str = "lib/x86_64-linux-gnu";
const PATIENCE: Duration = Duration::from_secs(120);

/// Shows the driver in the jail; says whether libraries came with it.
///
/// # Errors
///
/// NVIDIA's tool fails although there is a driver.
pub fn show(agent: &Agent, mounts: &Mounts, pod: Pod) -> Result<bool, String> {
    match pod {
        Pod::Worker => driver(agent, mounts),
        // It may be too early for them.
        Pod::Login => show_dummies(mounts).map(|_| false),
    }
}

fn driver(agent: &Agent, mounts: &Mounts) -> Result<bool, String> {
    if !Path::new(DEVICE).exists() {
        return Ok(false);
    }
    let Ok(mut tool) = programs::command(TOOL) else {
        agent.say(&format!("{DEVICE} is there, but the image has no {TOOL}: jobs see no driver"));
        return Ok(false);
    };
    let done =
        |names: &std::ffi::OsString| names.to_str().is_some_and(|name| name.starts_with("libcuda.so."));
    let filled = |name: &std::ffi::OsString| mounts.root().has_file(Path::new(LIBRARIES).join(name));
    if mounts.root().names(LIBRARIES).iter().any(|name| done(name) && filled(name)) {
        return Ok(true);
    }
    tool.args(["--user", "--no-pivot", "configure", "--no-cgroups"]);
    if let Some(ldconfig) = programs::find("ldconfig.real").or_else(|| programs::find("ldconfig")) {
        tool.arg(format!("--ldconfig=@{}", ldconfig.display()));
    }
    tool.args(["--device=all", "--utility", "--compute"]).arg(mounts.root().path());
    let printed = agent.run(&mut tool, PATIENCE)?;
    if !printed.ended.well() {
        return Err(format!(
            "cannot mount NVIDIA's driver in {}: {TOOL}: {}",
            mounts.root().path().display(),
            printed.stderr.trim()
        ));
    }
    // Only told: login pods do without it.
    let _ = mounts.root().make(FLAG, Kind::File, 0o644);
    Ok(true)
}

/// Shows a login pod libraries with nothing in them in the place of the driver's, as soon as a worker has left their names. Says
/// whether there is nothing more to wait for.
///
/// # Errors
///
/// Which mount failed, and why.
pub fn show_dummies(mounts: &Mounts) -> Result<bool, String> {
    let is_gpu = std::env::var(env::CLUSTER_TYPE).as_deref() == Ok("gpu");
    let dummy = Path::new(DUMMY);
    if !is_gpu || !dummy.exists() {
        return Ok(true);
    }
    dummies(mounts, dummy)
}

/// In a login pod libraries of the driver are empty files, over which programs that load them would stumble.
fn dummies(mounts: &Mounts, dummy: &Path) -> Result<bool, String> {
    if mounts.root().stat(FLAG).is_err() {
        return Ok(false);
    }
    for name in mounts.root().names(LIBRARIES) {
        let inside = Path::new(LIBRARIES).join(&name);
        let is_library = name.to_str().is_some_and(|name| name.contains(".so"));
        if is_library && mounts.root().stat(&inside).is_ok_and(|stat| stat.st_size == 0) {
            mounts.bind(dummy, &inside, Depth::Itself)?;
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;
    use crate::alone::run_alone;

    #[test]
    fn a_login_pod_gets_libraries_also_when_the_first_worker_comes_later() {
        run_alone(&["unshare", "--map-root-user", "--mount"], "jail::gpu::tests::where_mounts_are_allowed");
    }

    #[test]
    #[ignore = "runs inside a_login_pod_gets_libraries_also_when_the_first_worker_comes_later"]
    fn where_mounts_are_allowed() {
        let directory = tempfile::tempdir().unwrap();
        let (jail, dummy) = (directory.path().join("jail"), directory.path().join("libdummy.so"));
        let library = |name: &str| -> PathBuf { jail.join(LIBRARIES).join(name) };
        fs::create_dir_all(jail.join("etc")).unwrap();
        fs::create_dir_all(library("")).unwrap();
        fs::write(&dummy, "nothing in it").unwrap();
        let mounts = Mounts::new(&jail).unwrap();
        assert_eq!(dummies(&mounts, &dummy), Ok(false), "no worker was there yet");
        // What a worker leaves.
        fs::write(library("libcuda.so.1"), "").unwrap();
        fs::write(library("libc.so.6"), "of the jail").unwrap();
        fs::write(library("notes"), "").unwrap();
        assert_eq!(dummies(&mounts, &dummy), Ok(false), "it is not done yet");
        fs::write(jail.join(FLAG), "").unwrap();
        assert_eq!(dummies(&mounts, &dummy), Ok(true));
        assert_eq!(fs::read_to_string(library("libcuda.so.1")).unwrap(), "nothing in it");
        assert_eq!(fs::read_to_string(library("libc.so.6")).unwrap(), "of the jail");
        assert_eq!(fs::read_to_string(library("notes")).unwrap(), "");
        assert_eq!(mounts.undo(), Vec::<String>::new());
        assert_eq!(fs::read_to_string(library("libcuda.so.1")).unwrap(), "");
    }
}
