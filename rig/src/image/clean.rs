//! What is taken out of every root file system: documentation, and what an installation leaves that differs from
//! one run to the next or from one machine to the next. Without it the same packages would not give the same digest.

use anyhow::{Result, bail};

use super::recipe::Variant;
use super::tree::{Kind, Tree};

/// What goes, from every image.
const REMOVED: &[&str] = &[
    // Documentation and translations: half of a small system, and no use in a pod.
    "/usr/share/doc/*/*",
    "/usr/share/info/*",
    "/usr/share/lintian",
    "/usr/share/locale/*",
    "/usr/share/man/*",
    // Caches and logs hold times and orders; their directories stay, for their owners matter.
    "/var/cache/**",
    "/var/log/**",
    "/var/lib/apt/**",
    "/run/**",
    // The mirror and the options that the image was made with.
    "/etc/apt/sources.list",
    "/etc/apt/apt.conf.d/99mmdebstrap",
    "/etc/dpkg/dpkg.cfg.d/99mmdebstrap",
    // Copies of the building machine's own files.
    "/etc/hostname",
    "/etc/resolv.conf",
    "/etc/fstab",
    // Secrets that packages make at installation: the same for everybody who has the image.
    "/etc/munge/munge.key",
    "/etc/slurm/slurm.key",
    "/etc/ssh/ssh_host_*",
    "/etc/ssl/private/*",
    // Ids that each machine shall have for itself.
    "/etc/machine-id",
    "/var/lib/dbus/machine-id",
    "/var/lib/systemd/random-seed",
    // Backups that the user and package tools make of their last but one state, and locks.
    "/etc/group-",
    "/etc/gshadow-",
    "/etc/passwd-",
    "/etc/shadow-",
    "/etc/subgid-",
    "/etc/subuid-",
    "/etc/.pwd.lock",
    "/var/backups/**",
    "/var/lib/dpkg/*-old",
    "/var/lib/dpkg/lock*",
    "/var/lib/dpkg/triggers/Lock",
    "/var/lib/systemd/catalog/database",
    "/tmp/*",
    "/var/tmp/*",
];

/// What goes from images that have no package manager: the traces of the one that unpacked them, and the devices, which
/// whoever runs the image gives it.
const REMOVED_WITHOUT_DPKG: &[&str] = &["/dev/*", "/etc/apt", "/etc/dpkg", "/var/lib/apt", "/var/lib/dpkg"];

/// What stays although it matches: licences ask for it.
const KEPT: &[&str] = &["/usr/share/doc/*/copyright"];

/// Which day accounts were made; tools write the current one into `/etc/shadow`.
const SHADOW_DAY: &str = "20454";

/// A path to remove. `*` stands for any characters of one name, a last `**` for everything below that is no directory;
/// any other match goes with all that is below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    names: Vec<String>,
    below: bool,
}

impl Pattern {
    pub(super) fn parse(text: &str) -> Result<Self> {
        let Some(path) = text.strip_prefix('/') else { bail!("`{text}` does not start with `/`") };
        let (path, below) = match path.strip_suffix("/**") {
            Some(path) => (path, true),
            None => (path, false),
        };
        let names: Vec<String> = path.split('/').map(str::to_owned).collect();
        if names.iter().any(|name| matches!(name.as_str(), "" | "." | "..") || name.contains("**")) {
            bail!("`{text}` has an empty name, a dot name, or `**` before its end");
        }
        Ok(Self { names, below })
    }

    fn matches(&self, path: &[u8], kind: &Kind) -> bool {
        let names: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
        let deep_enough =
            if self.below { names.len() > self.names.len() } else { names.len() >= self.names.len() };
        deep_enough
            && !(self.below && matches!(kind, Kind::Directory))
            && self.names.iter().zip(&names).all(|(pattern, name)| name_matches(pattern.as_bytes(), name))
    }

    fn matches_exactly(&self, path: &[u8], kind: &Kind) -> bool {
        path.iter().filter(|byte| **byte == b'/').count() + 1 == self.names.len() && self.matches(path, kind)
    }
}

fn name_matches(pattern: &[u8], name: &[u8]) -> bool {
    match pattern.split_first() {
        None => name.is_empty(),
        Some((b'*', rest)) => (0..=name.len()).any(|skipped| name_matches(rest, &name[skipped..])),
        Some((byte, rest)) => {
            name.split_first().is_some_and(|(first, name)| first == byte && name_matches(rest, name))
        }
    }
}

/// Takes out what no image has, and what this recipe's `remove` names.
pub(super) fn clean(tree: &mut Tree, variant: Variant, remove: &[Pattern]) -> Result<()> {
    let also = if variant == Variant::Extract { REMOVED_WITHOUT_DPKG } else { &[] };
    let common = REMOVED.iter().chain(also).map(|text| Pattern::parse(text)).collect::<Result<Vec<_>>>()?;
    let kept = KEPT.iter().map(|text| Pattern::parse(text)).collect::<Result<Vec<_>>>()?;
    tree.retain(|path, kind| {
        let goes = |patterns: &[Pattern]| patterns.iter().any(|pattern| pattern.matches(path, kind));
        !goes(remove) && (!goes(&common) || kept.iter().any(|pattern| pattern.matches_exactly(path, kind)))
    });
    if let Some(shadow) = tree.read("/etc/shadow")? {
        tree.replace_content("/etc/shadow", fix_shadow_days(&shadow));
    }
    Ok(())
}

/// Sets the third field, the day of the last password change, of each line.
fn fix_shadow_days(text: &str) -> String {
    let fixed = text.lines().map(|line| {
        let mut fields: Vec<&str> = line.split(':').collect();
        if let Some(day) = fields.get_mut(2).filter(|day| !day.is_empty()) {
            *day = SHADOW_DAY;
        }
        fields.join(":") + "\n"
    });
    fixed.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, path: &str) -> bool {
        Pattern::parse(pattern).unwrap().matches(path.as_bytes(), &Kind::Fifo)
    }

    #[test]
    fn a_star_stays_within_a_name() {
        assert!(matches("/etc/ssh/ssh_host_*", "etc/ssh/ssh_host_rsa_key.pub"));
        assert!(!matches("/etc/ssh_*", "etc/ssh/ssh_config"));
        assert!(matches("/a/*-old", "a/status-old"));
        assert!(!matches("/a/*-old", "a/status-older"));
    }

    #[test]
    fn a_match_takes_what_is_below_with_it() {
        assert!(matches("/usr/share/lintian", "usr/share/lintian/overrides/libc6"));
        assert!(!matches("/usr/share/lintian", "usr/share/lintian2"));
        assert!(!matches("/usr/share/man/*", "usr/share/man"));
    }

    #[test]
    fn two_stars_spare_directories() {
        let pattern = Pattern::parse("/var/log/**").unwrap();
        assert!(pattern.matches(b"var/log/apt/history.log", &Kind::Fifo));
        assert!(!pattern.matches(b"var/log/munge", &Kind::Directory));
        assert!(!pattern.matches(b"var/log", &Kind::Fifo));
    }

    #[test]
    fn shadow_days_no_longer_tell_when_the_image_was_built() {
        assert_eq!(
            fix_shadow_days("root:*:20773:0:99999:7:::\nx:!*:::::1:\n"),
            format!("root:*:{SHADOW_DAY}:0:99999:7:::\nx:!*:::::1:\n")
        );
    }

    #[test]
    fn licences_stay() {
        let mut tree = Tree::default();
        tree.add_file("/usr/share/doc/bash/README", 0o644, b"read me".to_vec()).unwrap();
        tree.add_file("/usr/share/doc/bash/copyright", 0o644, b"GPL".to_vec()).unwrap();
        tree.add_file("/etc/keep", 0o644, b"".to_vec()).unwrap();
        tree.add_file("/etc/secret.key", 0o644, b"".to_vec()).unwrap();
        clean(&mut tree, Variant::Essential, &[Pattern::parse("/etc/*.key").unwrap()]).unwrap();
        assert!(tree.read("/usr/share/doc/bash/README").unwrap().is_none());
        assert!(tree.read("/etc/secret.key").unwrap().is_none());
        assert_eq!(tree.read("/usr/share/doc/bash/copyright").unwrap().as_deref(), Some("GPL"));
        assert!(tree.read("/etc/keep").unwrap().is_some());
    }
}
