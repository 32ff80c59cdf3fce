//! All images unpacked once, as a containerd directory that each node gets by hard links.
//!
//! Importing the images takes each node many seconds. What import leaves is immutable: content by its digest, and layers
//! that are only ever the lower side of an overlay. So the nodes can share the files; only two small databases are copied.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::cache::{self, Cache, key_of};
use crate::image::{self, Built};
use crate::processes::{bound, tail};

const PART: &str = "image-store";
/// Where the store lies inside its entry: containerd's root directory.
const ROOT: &str = "containerd";
/// containerd's own databases, which each node writes to.
const DATABASES: &[&str] =
    &["io.containerd.metadata.v1.bolt/meta.db", "io.containerd.snapshotter.v1.overlayfs/metadata.db"];

/// The namespace in which the kubelet's images live.
pub const CONTAINERD_NAMESPACE: &str = "k8s.io";

/// The store if it is there; none if an image is missing, too.
pub fn find(cache: &Cache) -> Result<Option<PathBuf>> {
    Ok(match built_images(cache)? {
        Some(images) => cache.find(PART, &key(&images)).map(|dir| dir.join(ROOT)),
        None => None,
    })
}

/// The store, made from the images that have been built before.
pub fn find_or_build(cache: &Cache, verify: bool, say: &dyn Fn(&str)) -> Result<PathBuf> {
    let Some(images) = built_images(cache)? else {
        bail!("the images must be built first: `rig build images`");
    };
    let dir = cache.find_or_build(PART, &key(&images), verify, say, |dir| unpack(dir, &images, say))?;
    Ok(dir.join(ROOT))
}

fn built_images(cache: &Cache) -> Result<Option<Vec<Built>>> {
    Ok(image::recipes()?.iter().map(|recipe| image::find(cache, recipe)).collect())
}

fn key(images: &[Built]) -> String {
    key_of(images.iter().flat_map(|image| [&image.reference, &image.digest]))
}

/// Lets a private containerd import all images. It runs in a mount namespace of its own, because unpacking mounts.
fn unpack(dir: &Path, images: &[Built], say: &dyn Fn(&str)) -> Result<()> {
    let work = tempfile::tempdir().context("cannot make a temporary directory")?;
    let (config, socket, log) =
        (work.path().join("config.toml"), work.path().join("containerd.sock"), work.path().join("log"));
    fs::write(
        &config,
        format!(
            "version = 2\nroot = {:?}\nstate = {:?}\ndisabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n[grpc]\naddress = {socket:?}\n",
            dir.join(ROOT),
            work.path().join("state"),
        ),
    )?;
    let log_file = fs::File::create(&log)?;
    say("starting a private containerd");
    let mut containerd = private_containerd(&config)
        .stdin(Stdio::null())
        .stdout(log_file.try_clone()?)
        .stderr(log_file)
        .spawn()
        .context("cannot run containerd")?;
    let imported = wait_for_socket(&socket, &log).and_then(|()| {
        for image in images {
            say(&format!("unpacking {}", image.reference));
            import(&socket, &image.archive)?;
        }
        Ok(())
    });
    containerd.kill()?;
    containerd.wait()?;
    imported
}

/// Ends with its first process, and that one with this program.
fn private_containerd(config: &Path) -> Command {
    let mut command = bound();
    command
        .args(["unshare", "--mount", "--pid", "--fork", "--kill-child", "containerd", "--config"])
        .arg(config);
    command
}

fn wait_for_socket(socket: &Path, log: &Path) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(20);
    while std::os::unix::net::UnixStream::connect(socket).is_err() {
        if Instant::now() > deadline {
            bail!("containerd did not start:\n{}", tail(log, 10));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

fn import(socket: &Path, archive: &Path) -> Result<()> {
    let output = Command::new("ctr")
        .arg("--address")
        .arg(socket)
        .args(["--namespace", CONTAINERD_NAMESPACE, "images", "import"])
        .arg(archive)
        .output()
        .context("cannot run ctr")?;
    if !output.status.success() {
        bail!("cannot unpack {}: {}", archive.display(), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

/// Gives a node its own containerd directory with all images.
pub fn copy_to(store: &Path, target: &Path) -> Result<()> {
    let status = Command::new("cp")
        .args(["--archive", "--link"])
        .arg(store)
        .arg(target)
        .status()
        .context("cannot run cp")?;
    if !status.success() {
        bail!("cannot link {} to {}: both must lie on one file system", store.display(), target.display());
    }
    for database in DATABASES {
        let (from, to) = (store.join(database), target.join(database));
        fs::remove_file(&to)?;
        fs::copy(&from, &to).with_context(|| format!("cannot copy {}", from.display()))?;
    }
    Ok(())
}

/// The checkout that this program was compiled in. Each has an image of its own, though all share a cache.
const CHECKOUT: &str = env!("CARGO_MANIFEST_DIR");

/// Notes which build of our own image nodes load.
pub fn remember_soperator(cache: &Cache, built: &Built) -> Result<()> {
    remember_archive(&archive_note(cache, CHECKOUT), &built.archive)
}

/// The archive of our own image, if one has been built.
pub fn soperator_archive(cache: &Cache) -> Option<PathBuf> {
    remembered_archive(&archive_note(cache, CHECKOUT))
}

fn archive_note(cache: &Cache, checkout: &str) -> PathBuf {
    cache.root().join(format!("soperator-archive-{}", &key_of([checkout])[..6]))
}

fn remember_archive(note: &Path, archive: &Path) -> Result<()> {
    let temporary = note.with_extension(format!("tmp{}", std::process::id()));
    fs::write(&temporary, archive.display().to_string())?;
    fs::rename(&temporary, note).with_context(|| format!("cannot write {}", note.display()))
}

fn remembered_archive(note: &Path) -> Option<PathBuf> {
    let archive = PathBuf::from(fs::read_to_string(note).ok()?);
    cache::mark_used(&archive);
    archive.exists().then_some(archive)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::processes::tests::{assert_ends_with_its_parent, beating_program};

    #[test]
    fn each_checkout_loads_the_image_that_it_built() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path().into()).unwrap();
        let notes = ["/a/rig", "/b/rig"].map(|checkout| archive_note(&cache, checkout));
        let archives = ["a.tar", "b.tar"].map(|name| dir.path().join(name));
        for (note, archive) in notes.iter().zip(&archives) {
            assert_eq!(remembered_archive(note), None);
            fs::write(archive, "").unwrap();
            remember_archive(note, archive).unwrap();
        }
        assert_eq!(notes.map(|note| remembered_archive(&note)), archives.map(Some));
    }

    #[test]
    fn no_containerd_is_left_when_the_builder_is_killed() {
        let (_dir, path, beat) = beating_program("containerd");
        let mut command = private_containerd(Path::new("/none"));
        assert_ends_with_its_parent(command.env("PATH", path), &beat, || ());
    }
}
