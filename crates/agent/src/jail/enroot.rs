//! enroot of the image, for jobs that run containers by pyxis.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::mounts::{Depth, Mounts};
use super::root::Root;
use crate::agent::Agent;
use crate::programs;

/// What admins change in the jail: nothing that the jail has is covered.
const CONFIGURATION: &str = "/etc/enroot";
const DIRECTORIES: [&str; 2] = ["/usr/share/enroot", "/usr/lib/enroot"];
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
    for file in missing(Path::new(CONFIGURATION), mounts.root(), Path::new(CONFIGURATION)) {
        mounts.bind(&file, &file, Depth::Itself)?;
    }
    for program in programs_of_enroot() {
        give_capabilities(agent, &program);
        mounts.bind(&program, &program, Depth::Itself)?;
    }
    Ok(())
}

/// Files below a directory of the image that the jail does not have at the same place, sorted. An empty file there is a place where
/// one of these was mounted before.
fn missing(directory: &Path, jail: &Root, inside: &Path) -> Vec<PathBuf> {
    let items = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut found = Vec::new();
    for item in items {
        let (path, inside) = (item.path(), inside.join(item.file_name()));
        if path.is_dir() {
            found.extend(missing(&path, jail, &inside));
        } else if path.is_file() && !jail.has_file(&inside) {
            found.push(path);
        }
    }
    found.sort();
    found
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn files_of_the_jail_are_not_covered() {
        let folder = tempfile::tempdir().unwrap();
        let (image, jail) = (folder.path().join("image"), folder.path().join("jail"));
        for path in ["enroot.conf", "hooks.d/10-a.sh", "hooks.d/20-b.sh", "mounts.d/10-c.fstab"] {
            let file = image.join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "of the image").unwrap();
        }
        fs::create_dir_all(jail.join("etc/enroot/hooks.d")).unwrap();
        fs::write(jail.join("etc/enroot/enroot.conf"), "of a JailedConfig").unwrap();
        // A place that an earlier pod left.
        fs::write(jail.join("etc/enroot/hooks.d/10-a.sh"), "").unwrap();
        fs::write(jail.join("etc/enroot/hooks.d/20-b.sh"), "of an admin").unwrap();
        let found = missing(&image, &Root::open(&jail).unwrap(), Path::new("/etc/enroot"));
        assert_eq!(found, [image.join("hooks.d/10-a.sh"), image.join("mounts.d/10-c.fstab")]);
        assert!(missing(&image.join("none"), &Root::open(&jail).unwrap(), Path::new("/x")).is_empty());
    }
}
