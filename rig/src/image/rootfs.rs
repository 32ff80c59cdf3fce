//! Root file systems from Debian packages, by mmdebstrap.
//!
//! mmdebstrap is given a suite and no mirror: it knows Debian's own, and checks signatures with the machine's Debian keyring.

use std::collections::VecDeque;
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::clean::clean;
use super::lock::Packages;
use super::recipe::{Recipe, Spec, Variant};
use super::tree::{SOURCE_DATE_EPOCH, Tree};

/// Where a hook leaves what apt chose, for images that have no package database; it is not part of the image.
const CHOSEN: &str = "/.packages";
const STATUS: &str = "/var/lib/dpkg/status";
/// mmdebstrap's own pid and mount namespace. Both end with its first process, and that one with this program: told to end,
/// mmdebstrap alone waits for its children, and killed it leaves `/proc`, `/sys` and `/dev` mounted in the cache, where the
/// next clean-up would walk into them.
const WRAPPER: &[&str] = &[
    "setpriv",
    "--pdeathsig=KILL",
    "unshare",
    "--mount",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
    "--",
];
/// How much of mmdebstrap's messages goes into an error.
const LINES_TOLD: usize = 12;

/// Writes the root file system of `recipe` as a tar to `layer`; `scratch` is a directory for what lies in between.
/// Returns what was installed.
pub(super) fn make(
    recipe: &Recipe,
    scratch: &Path,
    layer: &mut dyn io::Write,
    say: &dyn Fn(&str),
) -> Result<Packages> {
    let spec = &recipe.spec;
    let raw = scratch.join("rootfs.tar");
    // mmdebstrap unpacks below this directory: on the cache's disk, and gone with it if the build is killed.
    let unpacked = scratch.join("mmdebstrap");
    fs::create_dir(&unpacked).with_context(|| format!("cannot make {}", unpacked.display()))?;
    match recipe.locked.len() {
        0 => say(&format!("installing packages from {}", spec.suite)),
        count => say(&format!("installing {count} packages from {}", spec.suite)),
    }
    run(Command::new(WRAPPER[0])
        .args(&WRAPPER[1..])
        .arg("mmdebstrap")
        .args(arguments(spec))
        .arg(&raw)
        .env("TMPDIR", &unpacked)
        .env("LC_ALL", "C.UTF-8")
        // Tools that write times into files (python's compiler, useradd, ...) take this one.
        .env("SOURCE_DATE_EPOCH", SOURCE_DATE_EPOCH.to_string()))
    .with_context(|| format!("cannot install the packages of image {} from {}", recipe.name(), spec.suite))?;

    say("packing the image");
    let mut tree = Tree::index(&raw)?;
    let packages = match spec.variant {
        Variant::Essential => tree.read(STATUS)?.map(|text| Packages::from_dpkg_status(&text)),
        Variant::Extract => tree.read(CHOSEN)?.map(|text| Packages::from_apt_simulation(&text)),
    };
    let packages =
        packages.filter(|packages| !packages.is_empty()).context("mmdebstrap left no list of packages")?;
    tree.remove(CHOSEN);
    clean(&mut tree, spec.variant, &recipe.remove)?;
    for link in &spec.links {
        tree.add_link(&link.path, &link.target)?;
    }
    for file in &spec.files {
        tree.add_file(&file.path, 0o644, file.content.clone().into_bytes())?;
    }
    tree.write(layer).context("cannot write the layer")?;
    drop(tree);
    fs::remove_file(&raw)?;
    fs::remove_dir_all(&unpacked)?;
    Ok(packages)
}

fn arguments(spec: &Spec) -> Vec<String> {
    // mmdebstrap runs no later hook when it only extracts.
    let (variant, hook) = match spec.variant {
        Variant::Essential => ("essential", "--customize-hook"),
        Variant::Extract => ("extract", "--extract-hook"),
    };
    let mut arguments = vec![
        "--format=tar".to_owned(),
        format!("--variant={variant}"),
        format!("--include={}", spec.packages.join(",")),
        // What `commands` make below /run is for the image.
        "--skip=cleanup/run".to_owned(),
        "--aptopt=Acquire::Retries \"3\"".to_owned(),
    ];
    if let Some(days) = spec.index_valid_days {
        arguments.push(format!("--aptopt=Acquire::Min-ValidTime \"{}\"", u64::from(days) * 24 * 60 * 60));
    }
    if spec.variant == Variant::Extract {
        let packages = spec.packages.join(" ");
        arguments.push(format!(
            "{hook}=APT_CONFIG=\"$MMDEBSTRAP_APT_CONFIG\" apt-get --simulate install {packages} > \"$1{CHOSEN}\""
        ));
    }
    for command in &spec.commands {
        let quoted: Vec<String> = command.iter().map(|word| quote(word)).collect();
        arguments.push(format!("{hook}=chroot \"$1\" {}", quoted.join(" ")));
    }
    arguments.push(spec.suite.clone());
    arguments
}

/// One word for the shell that runs mmdebstrap's hooks.
fn quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Runs mmdebstrap; an error has its last messages and what to do.
fn run(command: &mut Command) -> Result<()> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start setpriv, of the package util-linux")?;
    let mut last: VecDeque<String> = VecDeque::new();
    if let Some(messages) = child.stderr.take() {
        for line in BufReader::new(messages).split(b'\n') {
            // Lines with carriage returns are progress bars.
            let line = String::from_utf8_lossy(&line?).trim_end().to_owned();
            if !line.is_empty() && !line.contains('\r') {
                last.push_back(line);
            }
            if last.len() > LINES_TOLD {
                last.pop_front();
            }
        }
    }
    let status = child.wait().context("cannot wait for mmdebstrap")?;
    if status.success() {
        return Ok(());
    }
    let last = Vec::from(last).join("\n  ");
    bail!("mmdebstrap failed ({status}): {}\n  {last}", advice(&last))
}

/// What to do about a failure, by what mmdebstrap and apt say of it.
fn advice(messages: &str) -> &'static str {
    let says = |parts: &[&str]| parts.iter().any(|part| messages.contains(part));
    if says(&["failed to execute mmdebstrap"]) {
        "it is not installed; run `apt-get install mmdebstrap debian-archive-keyring`"
    } else if says(&["No space left on device"]) {
        "the disk is full; make room (an image needs about 1 GB while it is built) and run it again"
    } else if says(&["is expired", "is not valid yet"]) {
        "the mirror's index is too old for this machine's clock; check the clock, or wait for the mirror, \
         or raise `index_valid_days` in the image's recipe"
    } else if says(&["NO_PUBKEY", "is not signed", "signature", "EXPKEYSIG"]) {
        "the packages' signatures cannot be verified; upgrade the package debian-archive-keyring and run it again"
    } else if says(&["resolving", "resolve", "onnection", "connect to", "Failed to fetch", "unreachable"]) {
        "the Debian mirror cannot be reached; check the network (http_proxy is honoured) and run it again"
    } else if says(&["Unable to locate package", "has no installation candidate"]) {
        "the suite has no such package; correct `packages` in the image's recipe"
    } else if says(&["newuidmap", "subuid", "unshare", "Operation not permitted"]) {
        "it may not make a root file system; run it as root"
    } else {
        "its last messages say why"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(script: &str) -> String {
        run(Command::new("sh").args(["-c", script])).unwrap_err().to_string()
    }

    #[test]
    fn a_failure_tells_the_last_messages_and_what_to_do() {
        let error = failure("seq 100 >&2; echo 'E: Temporary failure resolving the mirror' >&2; exit 25");
        assert!(
            error.starts_with("mmdebstrap failed (exit status: 25): the Debian mirror cannot be reached"),
            "{error}"
        );
        assert!(error.ends_with("\n  100\n  E: Temporary failure resolving the mirror"), "{error}");
        assert!(!error.contains("\n  50\n"), "{error}");
    }

    #[test]
    fn advice_follows_the_messages() {
        for (message, part) in [
            ("tar: x: Cannot write: No space left on device", "disk is full"),
            ("E: Release file for ... is expired (invalid since 9d)", "index_valid_days"),
            ("W: GPG error: ... NO_PUBKEY 6ED0E7B82643E131", "debian-archive-keyring"),
            ("E: Unable to locate package slurmx", "correct `packages`"),
            ("E: something new", "say why"),
        ] {
            assert!(advice(message).contains(part), "{message}: {}", advice(message));
        }
    }

    #[test]
    fn a_missing_mmdebstrap_is_told_with_the_packages_to_install() {
        let path = tempfile::tempdir().unwrap();
        for program in ["setpriv", "unshare"] {
            let there = Path::new("/usr/bin").join(program);
            std::os::unix::fs::symlink(there, path.path().join(program)).unwrap();
        }
        let mut command = Command::new(WRAPPER[0]);
        command.args(&WRAPPER[1..]).arg("mmdebstrap").env("PATH", path.path());
        let error = run(&mut command).unwrap_err().to_string();
        assert!(error.contains("apt-get install mmdebstrap"), "{error}");
    }

    #[test]
    fn nothing_goes_on_when_the_builder_is_killed() {
        let dir = tempfile::tempdir().unwrap();
        let beat = dir.path().join("beat");
        let script = format!("trap '' TERM; (while sleep 0.1; do echo >> {}; done) & wait", beat.display());
        let mut command = Command::new(WRAPPER[0]);
        command.args(&WRAPPER[1..]).args(["sh", "-c", &script]);
        crate::processes::tests::assert_ends_with_its_parent(&command, &beat, || {
            let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
            assert!(!mounts.contains(&dir.path().display().to_string()), "its mounts reach the machine");
        });
    }

    #[test]
    fn words_reach_the_hook_whole() {
        let word = "it's $HOME `x`";
        let output = Command::new("sh").args(["-c", &format!("printf %s {}", quote(word))]).output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), word);
    }
}
