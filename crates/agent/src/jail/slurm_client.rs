//! Slurm's commands and plugins in the jail: its own if it has them, else those of the image.

use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, OFlags};

use super::complement::Pod;
use super::mounts::{Depth, Mounts};
use super::root::{Kind, Root};
use crate::agent::Agent;
use crate::programs;

/// Where the jail may have its own commands.
const COMMAND_PLACES: [&str; 5] = ["usr/bin", "usr/local/bin", "opt/slurm/bin", "usr/local/slurm/bin", "bin"];
const COMMANDS: [&str; 19] = [
    "sacct", "sacctmgr", "salloc", "sattach", "sbatch", "sbcast", "scancel", "scontrol", "scrontab", "sdiag",
    "sinfo", "sprio", "squeue", "sreport", "srun", "sshare", "sstat", "strigger", "sview",
];
/// Beside the commands of a worker.
const DAEMONS: [&str; 2] = ["slurmd", "slurmstepd"];
/// By these the directory of plugins is known.
const KNOWN_PLUGINS: [&str; 3] = ["auth_munge.so", "auth_slurm.so", "select_cons_tres.so"];
/// Plugins that commands in the jail load too, because plugstack.conf names them.
const SPANK: [&str; 3] = ["chroot.so", "spanknccldebug.so", "spank_pyxis.so"];
const LIBRARY: &str = "libslurmfull.so";
const LONGEST_LIBRARY: u64 = 64 << 20;
const LINKER_LOCK: &str = "etc/complement_jail_ldconfig.lock";
const PATIENCE: Duration = Duration::from_secs(120);

/// Shows Slurm in the jail; says whether libraries came with it.
///
/// # Errors
///
/// Which mount failed, and why.
pub fn show(agent: &Agent, mounts: &Mounts, pod: Pod) -> Result<bool, String> {
    let image = Root::open(Path::new("/")).map_err(|error| format!("cannot open /: {error}"))?;
    let (own, jail) = (plugin_directory(&image), plugin_directory(mounts.root()));
    if has_own_commands(mounts.root()) {
        if let (Some(own), Some(jail)) = (own, jail) {
            show_plugins(agent, mounts, &image, &own, &jail)?;
        }
        return Ok(false);
    }
    let Some(own) = own else {
        agent.say("neither the jail nor the image has Slurm's commands and plugins: users have no srun");
        return Ok(false);
    };
    show_all(mounts, &image, &own, pod)?;
    Ok(true)
}

/// Whether the jail has an srun that is not the image's, which an earlier try has shown there.
fn has_own_commands(jail: &Root) -> bool {
    let of_image = programs::find("srun").and_then(|file| rustix::fs::stat(file).ok());
    COMMAND_PLACES.iter().map(|place| Path::new(place).join("srun")).any(|file| {
        let is_of_image = || {
            let there = jail.stat(&file).ok();
            there
                .zip(of_image.as_ref())
                .is_some_and(|(there, own)| (there.st_dev, there.st_ino) == (own.st_dev, own.st_ino))
        };
        jail.has_file(&file) && !is_of_image()
    })
}

/// The plugins of the image that the jail's own commands can load.
fn show_plugins(agent: &Agent, mounts: &Mounts, image: &Root, own: &Path, jail: &Path) -> Result<(), String> {
    let plugins: Vec<&str> = SPANK.into_iter().filter(|name| image.has_file(own.join(name))).collect();
    if plugins.is_empty() {
        return Ok(());
    }
    let (ours, theirs) = (version(image, own), version(mounts.root(), jail));
    if ours.is_none() || release(ours.as_deref()) != release(theirs.as_deref()) {
        let name = |version: Option<String>| version.unwrap_or_else(|| "unknown".into());
        agent.say(&format!(
            "Slurm of the jail is {} and of the image {}: the jail keeps its own {}",
            name(theirs),
            name(ours),
            plugins.join(", ")
        ));
        return Ok(());
    }
    for name in plugins {
        mounts.bind(&image.shown(own.join(name)), jail.join(name), Depth::Itself)?;
    }
    Ok(())
}

/// All commands, plugins and libraries of the image.
fn show_all(mounts: &Mounts, image: &Root, own: &Path, pod: Pod) -> Result<(), String> {
    let daemons: &[&str] = if pod == Pod::Worker { &DAEMONS } else { &[] };
    for file in COMMANDS.iter().chain(daemons).filter_map(|name| programs::find(name)) {
        mounts.bind(&file, &file, Depth::Itself)?;
    }
    mounts.bind(&image.shown(own), own, Depth::Itself)?;
    for library in libraries(image) {
        let is_slurm = library.to_string_lossy().contains("/libslurm");
        // Any munge that the jail has will do.
        if is_slurm || !mounts.root().has_file(&library) {
            mounts.bind(&image.shown(&library), &library, Depth::Itself)?;
        }
    }
    Ok(())
}

/// The libraries that Slurm's commands load from outside their directory of plugins.
fn libraries(image: &Root) -> Vec<PathBuf> {
    let wanted = |name: &str| {
        name.starts_with("libslurm.so.")
            || name.starts_with("libslurmdb.so.")
            || name.starts_with("libmunge.so.")
    };
    let mut found = Vec::new();
    for directory in library_directories(image) {
        for name in image.names(&directory) {
            if name.to_str().is_some_and(wanted) {
                found.push(directory.join(name));
            }
        }
    }
    found
}

fn library_directories(root: &Root) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for base in
        ["usr/lib", "usr/lib64", "usr/local/lib", "usr/local/lib64", "opt/slurm/lib", "usr/local/slurm/lib"]
    {
        all.push(PathBuf::from(base));
        let is_machine =
            |name: &std::ffi::OsString| name.to_str().is_some_and(|name| name.ends_with("-linux-gnu"));
        all.extend(
            root.names(base).iter().filter(|name| is_machine(name)).map(|name| Path::new(base).join(name)),
        );
    }
    all
}

/// Where Slurm's plugins are, if they are there.
fn plugin_directory(root: &Root) -> Option<PathBuf> {
    let places = library_directories(root)
        .into_iter()
        .flat_map(|place| [place.join("slurm-wlm"), place.join("slurm")]);
    places.into_iter().find(|place| KNOWN_PLUGINS.iter().any(|name| root.has_file(place.join(name))))
}

/// The version of the Slurm that a directory of plugins belongs to. Nothing of the jail is executed for it.
fn version(root: &Root, plugins: &Path) -> Option<String> {
    let library = root.read(plugins.join(LIBRARY), LONGEST_LIBRARY).ok()?;
    version_in(&library)
}

/// The version is a text of its own among the library's.
fn version_in(library: &[u8]) -> Option<String> {
    let is_version = |text: &&str| {
        let mut parts = text.splitn(3, '.');
        let two_digits = |part: Option<&str>| {
            part.is_some_and(|part| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit()))
        };
        let starts_with_digit =
            |part: Option<&str>| part.is_some_and(|part| part.starts_with(|c: char| c.is_ascii_digit()));
        two_digits(parts.next()) && two_digits(parts.next()) && starts_with_digit(parts.next())
    };
    library
        .split(|byte| *byte == 0)
        .filter(|text| (7..20).contains(&text.len()))
        .filter_map(|text| std::str::from_utf8(text).ok())
        .find(is_version)
        .map(str::to_owned)
}

/// `24.11` of `24.11.5`: plugins of the same release can be loaded.
fn release(version: Option<&str>) -> Option<&str> {
    let version = version?;
    let end = version.match_indices('.').nth(1)?.0;
    Some(&version[..end])
}

/// Lets programs of the jail find libraries that came into it. By the image's own program, and by one pod at a time.
pub fn update_linker_cache(agent: &Agent, mounts: &Mounts) {
    let Ok(mut ldconfig) = programs::command("ldconfig") else { return };
    let Ok(lock) = mounts.root().make(LINKER_LOCK, Kind::File, 0o644) else { return };
    // Not blocking: a pipe in its place has no one at its other end.
    let mut options = std::fs::OpenOptions::new();
    options.write(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    let Ok(lock) = options.open(super::root::name_of(&lock)) else { return };
    if rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
        // Another pod does it.
        return;
    }
    let failure = match agent.run(ldconfig.arg("-r").arg(mounts.root().path()), PATIENCE) {
        Ok(printed) if printed.ended.well() => return,
        Ok(printed) => printed.stderr.trim().to_owned(),
        Err(error) => error,
    };
    agent.say(&format!("the jail's linker cache is not up to date: ldconfig: {failure}"));
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_version_is_found_among_other_texts() {
        assert_eq!(version_in(b"\x00error: %s 1.2.3\x0024.11.5\x00x").as_deref(), Some("24.11.5"));
        assert_eq!(version_in(b"26.05.0-0rc1\x00").as_deref(), Some("26.05.0-0rc1"));
        assert_eq!(version_in(b"v24.11.5\x00127.0.0.1\x002.24.11\x0024.11\x00"), None);
        assert_eq!(release(Some("24.11.5")), Some("24.11"));
        assert_eq!(release(Some("24.11")), None);
    }

    #[test]
    fn commands_of_the_jail_are_its_own_unless_they_are_empty_places() {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::open(directory.path()).unwrap();
        assert!(!has_own_commands(&root));
        fs::create_dir_all(directory.path().join("usr/bin")).unwrap();
        fs::write(directory.path().join("usr/bin/srun"), "").unwrap();
        assert!(!has_own_commands(&root), "another pod mounts over it");
        fs::write(directory.path().join("usr/bin/srun"), "program").unwrap();
        assert!(has_own_commands(&root));
    }

    #[test]
    fn plugins_are_found_where_distributions_have_them() {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::open(directory.path()).unwrap();
        assert_eq!(plugin_directory(&root), None);
        for place in ["usr/lib64/slurm", "usr/lib/x86_64-linux-gnu/slurm-wlm"] {
            fs::create_dir_all(directory.path().join(place)).unwrap();
        }
        fs::write(directory.path().join("usr/lib64/slurm/auth_munge.so"), "x").unwrap();
        assert_eq!(plugin_directory(&root).as_deref(), Some(Path::new("usr/lib64/slurm")));
        fs::write(directory.path().join("usr/lib/x86_64-linux-gnu/slurm-wlm/auth_slurm.so"), "x").unwrap();
        let found = plugin_directory(&root);
        assert_eq!(found.as_deref(), Some(Path::new("usr/lib/x86_64-linux-gnu/slurm-wlm")));
    }
}
