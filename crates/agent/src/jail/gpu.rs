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
        Pod::Login => dummies(mounts).map(|()| false),
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

/// In a login pod libraries of the driver are empty files, over which programs that load them would stumble.
fn dummies(mounts: &Mounts) -> Result<(), String> {
    let is_gpu = std::env::var(env::CLUSTER_TYPE).as_deref() == Ok("gpu");
    if !is_gpu || !Path::new(DUMMY).exists() || mounts.root().stat(FLAG).is_err() {
        return Ok(());
    }
    for name in mounts.root().names(LIBRARIES) {
        let inside = Path::new(LIBRARIES).join(&name);
        let is_library = name.to_str().is_some_and(|name| name.contains(".so"));
        if is_library && mounts.root().stat(&inside).is_ok_and(|stat| stat.st_size == 0) {
            mounts.bind(Path::new(DUMMY), &inside, Depth::Itself)?;
        }
    }
    Ok(())
}
