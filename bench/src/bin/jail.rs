//! Filling a jail from the `jail` image, against two `tar`s and a pipe into the same volume: promised at least 70 % of
//! their rate. Both leave everything safe on the disk. Needs root.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bench::mb;
use clap::Parser;
use rig::cache::Cache;
use rig::{build, image};

const PROMISE: f64 = 0.70;

/// What is measured, and where.
#[derive(Parser)]
struct Options {
    /// A directory on the volume; by default a temporary one on this machine's disk
    #[arg(long)]
    volume: Option<PathBuf>,
    /// How often each is run
    #[arg(long, default_value_t = 5)]
    rounds: usize,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let directory = match &options.volume {
        Some(volume) => tempfile::tempdir_in(volume)?,
        None => tempfile::tempdir_in("/var/tmp")?,
    };
    let (source, program) = (directory.path().join("image"), build::agent_program()?);
    unpack(&source)?;
    let bytes = size(&source)?;
    let (mut tar, mut plain, mut ours) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..options.rounds {
        let volume = |name: &str| -> Result<PathBuf> {
            let volume = directory.path().join(format!("{name}-{round}"));
            fs::create_dir(&volume)?;
            sync(directory.path())?;
            Ok(volume)
        };
        let (first, second) = (volume("tar")?, volume("populate")?);
        let begun = Instant::now();
        run_tar(&source, &first)?;
        plain.push(begun.elapsed());
        sync(&first)?;
        tar.push(begun.elapsed());
        let begun = Instant::now();
        populate(&source, &second, &program)?;
        ours.push(begun.elapsed());
        // Neither is to pay for the other's files.
        for volume in [first, second] {
            fs::remove_dir_all(volume)?;
        }
    }
    let (tar, plain, ours) = (median(tar), median(plain), median(ours));
    let rate = |time: Duration| mb(bytes) / time.as_secs_f64();
    let ratio = tar.as_secs_f64() / ours.as_secs_f64();
    println!(
        "{:.0} MB: populate-jail {:.2?} ({:.0} MB/s); tar {:.2?} ({:.0} MB/s), {:.2?} before all of it is on the disk; {:.2} times \
         tar's rate (wanted: at least {PROMISE})",
        mb(bytes),
        ours,
        rate(ours),
        tar,
        rate(tar),
        plain,
        ratio,
    );
    ensure!(ratio >= PROMISE, "populate-jail is slower than promised");
    Ok(())
}

/// The image, as a container would have it as its root.
fn unpack(source: &Path) -> Result<()> {
    let cache = Cache::open()?;
    let recipes = image::recipes()?;
    let recipe =
        recipes.into_iter().find(|recipe| recipe.name() == "jail").context("no image is called jail")?;
    let built = match image::find(&cache, &recipe) {
        Some(built) => built,
        None => image::build(&cache, &recipe, image::Options::default(), &|_| ())?,
    };
    fs::create_dir(source)?;
    image::unpack(&built.archive, source)
}

fn run_tar(source: &Path, volume: &Path) -> Result<()> {
    let script = "tar --create --one-file-system --xattrs --xattrs-include='*' --file - . \
                  | tar --extract --same-permissions --numeric-owner --xattrs --xattrs-include='*' --directory \"$1\" --file -";
    done(Command::new("bash").args(["-o", "pipefail", "-c", script, "tar"]).arg(volume).current_dir(source))
}

/// As in a container: the image is the root, the volume and the program are mounted in it.
fn populate(source: &Path, volume: &Path, program: &Path) -> Result<()> {
    let script = "set -eu; mkdir -p \"$1/mnt/jail\" \"$1/opt/soperator/bin\"; mount -t proc proc \"$1/proc\"; \
                  mount --bind \"$2\" \"$1/mnt/jail\"; mount --bind \"$3\" \"$1/opt/soperator/bin\"; \
                  exec chroot \"$1\" /opt/soperator/bin/slurm-agent populate-jail";
    let programs = program.parent().context("the program is nowhere")?;
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "bash", "-c", script, "populate"]);
    done(command.args([source, volume, programs]).stdout(std::process::Stdio::null()))
}

fn sync(directory: &Path) -> Result<()> {
    done(Command::new("sync").arg("--file-system").arg(directory))
}

fn done(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot run {command:?}"))?;
    ensure!(status.success(), "{command:?}: {status}");
    Ok(())
}

fn size(directory: &Path) -> Result<u64> {
    let said = Command::new("du").args(["--bytes", "--summarize"]).arg(directory).output()?.stdout;
    let said = String::from_utf8_lossy(&said).into_owned();
    Ok(said.split_whitespace().next().context("du says nothing")?.parse()?)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
