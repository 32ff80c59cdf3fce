//! Programs of the machine itself, from Debian packages.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

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

fn missing() -> Vec<&'static str> {
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

/// Installs what is missing.
pub fn install(say: &dyn Fn(&str)) -> Result<()> {
    let missing = missing();
    if missing.is_empty() {
        return Ok(());
    }
    if !Path::new("/usr/bin/apt-get").exists() {
        bail!(
            "these are missing and this is no Debian machine: {}. Install them by hand",
            missing.join(", ")
        );
    }
    if !nix::unistd::geteuid().is_root() {
        bail!(
            "these packages are missing: {}. Run `rig build` as root, or install them by hand",
            missing.join(", ")
        );
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

fn apt_get(arguments: &[String]) -> Result<()> {
    let output = Command::new("apt-get")
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .output()
        .context("cannot run apt-get")?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        let tail: Vec<&str> = text.lines().rev().take(8).collect();
        let tail: Vec<&str> = tail.into_iter().rev().collect();
        bail!(
            "`apt-get {}` failed. Check that Debian's package mirrors are reachable.\n{}",
            arguments.join(" "),
            tail.join("\n")
        );
    }
    Ok(())
}
