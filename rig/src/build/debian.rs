//! Programs of the machine itself, from Debian packages.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::cache::{self, Cache};

/// How long another user of the package system may need: a fresh machine upgrades itself first.
const LOCK_PATIENCE: Duration = Duration::from_secs(600);
const LOCK_RETRY: Duration = Duration::from_secs(1);

/// A package and the file that shows that it (or an equal of it) is there.
struct Package {
    name: &'static str,
    proof: &'static str,
}

/// What nodes run on.
const NODE_PACKAGES: &[Package] = &[
    Package { name: "containerd", proof: "/usr/bin/containerd" },
    Package { name: "runc", proof: "/usr/sbin/runc" },
    Package { name: "containernetworking-plugins", proof: "/usr/lib/cni/bridge" },
    Package { name: "nftables", proof: "/usr/sbin/nft" },
    Package { name: "iptables", proof: "/usr/sbin/iptables" },
    Package { name: "iproute2", proof: "/sbin/ip" },
    Package { name: "util-linux", proof: "/usr/bin/nsenter" },
    Package { name: "mount", proof: "/bin/mount" },
];

/// What images are made with.
const IMAGE_PACKAGES: &[Package] = &[
    Package { name: "mmdebstrap", proof: "/usr/bin/mmdebstrap" },
    Package { name: "debian-archive-keyring", proof: "/usr/share/keyrings/debian-archive-keyring.gpg" },
];

/// What people and tests reach login pods with.
const CLIENT_PACKAGES: &[Package] = &[Package { name: "openssh-client", proof: "/usr/bin/ssh" }];

/// Names of the packages that are not there.
pub fn missing() -> Vec<&'static str> {
    NODE_PACKAGES
        .iter()
        .chain(IMAGE_PACKAGES)
        .chain(CLIENT_PACKAGES)
        .filter(|package| !Path::new(package.proof).exists())
        .map(|package| package.name)
        .collect()
}

/// Whether every package is there.
pub fn installed() -> bool {
    missing().is_empty()
}

/// Whether missing packages can be installed on this machine.
pub fn check_machine() -> Result<()> {
    let missing = missing();
    if !missing.is_empty() && !Path::new("/usr/bin/apt-get").exists() {
        bail!(
            "these are missing and this is no Debian machine: {}. Install them by hand",
            missing.join(", ")
        );
    }
    Ok(())
}

/// Installs what is missing.
pub fn install(cache: &Cache, say: &dyn Fn(&str)) -> Result<()> {
    let deadline = Instant::now() + LOCK_PATIENCE;
    let apt_get = |arguments: &[String]| apt_get(Path::new("apt-get"), arguments, deadline, say);
    install_missing(&cache.root().join("host-packages.lock"), &missing, &apt_get, say)
}

/// Two builds wait for each other; the second finds everything there.
fn install_missing(
    lock: &Path,
    missing: &dyn Fn() -> Vec<&'static str>,
    apt_get: &dyn Fn(&[String]) -> Result<()>,
    say: &dyn Fn(&str),
) -> Result<()> {
    let _lock = cache::lock(lock, || say("another build installs packages; waiting for it"))?;
    let missing = missing();
    if missing.is_empty() {
        return Ok(());
    }
    say(&format!("installing {}", missing.join(", ")));
    // The package lists of a fresh machine are empty or old; with good ones the second attempt is not needed.
    if apt_get(&install_arguments(&missing)).is_err() {
        say("updating package lists");
        apt_get(&["update".to_string()])?;
        say(&format!("installing {}", missing.join(", ")));
        apt_get(&install_arguments(&missing))?;
    }
    Ok(())
}

fn install_arguments(packages: &[&str]) -> Vec<String> {
    ["install", "--yes", "--no-install-recommends"]
        .into_iter()
        .chain(packages.iter().copied())
        .map(String::from)
        .collect()
}

/// Runs apt-get, and waits until `deadline` for others that use the package system.
fn apt_get(program: &Path, arguments: &[String], deadline: Instant, say: &dyn Fn(&str)) -> Result<()> {
    loop {
        let patience = deadline.saturating_duration_since(Instant::now());
        let output = Command::new(program)
            .args(["-o", &format!("DPkg::Lock::Timeout={}", patience.as_secs())])
            .args(arguments)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .env("LC_ALL", "C.UTF-8")
            .output()
            .context("cannot run apt-get")?;
        if output.status.success() {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&output.stderr);
        // The timeout is for dpkg's lock; for those of the lists and of the archives apt 2.6 does not wait.
        if is_locked(&text) && !patience.is_zero() {
            say("another program uses the package system; waiting for it");
            std::thread::sleep(LOCK_RETRY);
            continue;
        }
        let tail: Vec<&str> = text.lines().rev().take(8).collect();
        let tail: Vec<&str> = tail.into_iter().rev().collect();
        bail!("`apt-get {}` failed. {}\n{}", arguments.join(" "), advice(&text), tail.join("\n"));
    }
}

fn is_locked(messages: &str) -> bool {
    ["Could not get lock", "Unable to acquire the dpkg frontend lock", "Unable to lock"]
        .iter()
        .any(|part| messages.contains(part))
}

fn advice(messages: &str) -> &'static str {
    if is_locked(messages) {
        "Another program uses the package system: wait for its end, or end it, and run the same command again."
    } else {
        "Check that Debian's package mirrors are reachable."
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::processes::tests::write_program;
    use std::sync::atomic::{AtomicUsize, Ordering};

    const LOCKED: &str = "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 7 (apt-get)";

    fn quiet(_: &str) {}

    #[test]
    fn two_builds_wait_for_each_other_and_one_installs() {
        let dir = tempfile::tempdir().unwrap();
        let installations = AtomicUsize::new(0);
        let missing =
            || if installations.load(Ordering::SeqCst) == 0 { vec!["containerd"] } else { Vec::new() };
        let apt_get = |_: &[String]| {
            std::thread::sleep(Duration::from_millis(100));
            installations.fetch_add(1, Ordering::SeqCst);
            Ok(())
        };
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope
                    .spawn(|| install_missing(&dir.path().join("lock"), &missing, &apt_get, &quiet).unwrap());
            }
        });
        assert_eq!(installations.into_inner(), 1);
    }

    /// An apt-get that finds a lock held, the first time or always.
    fn locked_apt_get(dir: &Path, always: bool) -> std::path::PathBuf {
        let program = dir.join("apt-get");
        let condition = if always { "true" } else { "mkdir \"$0.ran\" 2>/dev/null" };
        write_program(&program, &format!("if {condition}; then echo '{LOCKED}' >&2; exit 100; fi"));
        program
    }

    #[test]
    fn a_lock_that_others_hold_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let program = locked_apt_get(dir.path(), false);
        apt_get(&program, &["update".into()], Instant::now() + Duration::from_secs(60), &quiet).unwrap();
    }

    #[test]
    fn a_lock_that_stays_is_told_and_no_mirror_is_blamed() {
        let dir = tempfile::tempdir().unwrap();
        let program = locked_apt_get(dir.path(), true);
        let error = apt_get(&program, &["update".into()], Instant::now(), &quiet).unwrap_err().to_string();
        assert!(error.contains("Another program uses") && error.contains("process 7"), "{error}");
        assert!(!error.contains("mirrors"), "{error}");
    }
}
