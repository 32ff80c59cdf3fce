//! enroot of the image, for jobs that run containers by pyxis.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::mounts::{Depth, Mounts};
use crate::agent::Agent;
use crate::programs;

const DIRECTORIES: [&str; 3] = ["/etc/enroot", "/usr/share/enroot", "/usr/lib/enroot"];
const PROGRAMS: &str = "/usr/bin";
/// With these, users without power make and run containers.
const CAPABILITIES: [(&str, &str); 2] =
    [("enroot-mksquashovlfs", "cap_sys_admin+pe"), ("enroot-aufs2ovlfs", "cap_sys_admin,cap_mknod+pe")];
const PATIENCE: Duration = Duration::from_secs(10);

/// Shows what the image has of it.
///
/// # Errors
///
/// Which mount failed, and why.
pub fn show(agent: &Agent, mounts: &Mounts) -> Result<(), String> {
    for directory in DIRECTORIES.iter().filter(|directory| Path::new(directory).is_dir()) {
        mounts.bind(Path::new(directory), directory, Depth::All)?;
    }
    for program in programs_of_enroot() {
        give_capabilities(agent, &program);
        mounts.bind(&program, &program, Depth::Itself)?;
    }
    Ok(())
}

fn programs_of_enroot() -> Vec<PathBuf> {
    let items = std::fs::read_dir(PROGRAMS).into_iter().flatten().flatten();
    let is_enroot = |path: &PathBuf| {
        path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("enroot"))
    };
    let mut found: Vec<PathBuf> = items.map(|item| item.path()).filter(is_enroot).collect();
    found.sort();
    found
}

fn give_capabilities(agent: &Agent, program: &Path) {
    let name = program.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let Some((_, capabilities)) = CAPABILITIES.iter().find(|(wanted, _)| *wanted == name) else { return };
    let Ok(mut setcap) = programs::command("setcap") else { return };
    let failure = match agent.run(setcap.arg(capabilities).arg(program), PATIENCE) {
        Ok(printed) if printed.ended.well() => return,
        Ok(printed) => printed.stderr.trim().to_owned(),
        Err(error) => error,
    };
    agent.say(&format!("{} gets no capabilities: {failure}", program.display()));
}
