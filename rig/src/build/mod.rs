//! `rig build`: fetches and builds what is missing, two lanes side by side, and shows what it does.

pub mod debian;
pub mod go;
pub mod progress;

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};

use crate::cache::Cache;
use crate::image::{self, Recipe};
use crate::image_store;
use crate::preflight;
use go::GoProgram;
use progress::{Line, Progress};

/// Something that can be built by itself.
pub enum Part {
    /// Programs of the machine, from Debian packages.
    HostPackages,
    /// A Go program.
    Go(&'static GoProgram),
    /// An image.
    Image(Box<Recipe>),
    /// The image of our own programs.
    Soperator,
    /// All images but our own, unpacked, so that nodes need not do it.
    ImageStore,
}

/// How to build.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Whether cached content is hashed, not only measured.
    pub verify: bool,
    /// Whether the lock files of images are rewritten.
    pub update_locks: bool,
    /// Whether the image of our own programs gets them as they are shipped, and not as they compile fastest.
    pub release: bool,
}

/// Names that stand for several parts.
const ALL_IMAGES: &str = "images";
const SOPERATOR: &str = "soperator";

impl Part {
    /// What the part is called on the command line.
    pub fn name(&self) -> String {
        match self {
            Part::HostPackages => "host-packages".into(),
            Part::Go(program) => program.name.into(),
            Part::Image(recipe) => recipe.name().into(),
            Part::Soperator => SOPERATOR.into(),
            Part::ImageStore => "image-store".into(),
        }
    }

    /// Go programs use both cores by themselves; the rest mostly waits for the network and the disk. So they share.
    fn is_go(&self) -> bool {
        matches!(self, Part::Go(_))
    }

    /// Free space that building it from nothing takes, compilers' caches included.
    fn bytes(&self) -> u64 {
        const MIB: u64 = 1 << 20;
        match self {
            Part::Go(program) if program.name == go::KUBE.name => 4096 * MIB,
            Part::Go(program) if program.name == go::CERT_MANAGER.name => 1536 * MIB,
            Part::Go(_) | Part::Image(_) | Part::ImageStore => 768 * MIB,
            Part::HostPackages | Part::Soperator => 256 * MIB,
        }
    }

    fn is_there(&self, cache: &Cache) -> Result<bool> {
        Ok(match self {
            Part::HostPackages => debian::installed(),
            Part::Go(program) => program.find(cache).is_some(),
            Part::Image(recipe) => image::find(cache, recipe).is_some(),
            // Only Cargo knows whether the program is fresh.
            Part::Soperator => false,
            Part::ImageStore => image_store::find(cache)?.is_some(),
        })
    }

    /// Whether building it takes the rights of root, by what the cache holds.
    fn needs_root(&self, cache: &Cache, options: Options) -> Result<bool> {
        Ok(match self {
            Part::Go(_) => false,
            Part::HostPackages | Part::ImageStore => !self.is_there(cache)?,
            Part::Image(_) => options.update_locks || !self.is_there(cache)?,
            Part::Soperator => options.update_locks || !image::soperator_base_is_there(cache)?,
        })
    }

    fn build(&self, cache: &Cache, options: Options, line: &Line, stop: &AtomicBool) -> Result<()> {
        let say = |text: &str| {
            if text.contains('\n') { line.tell(text) } else { line.say(text) }
        };
        let image_options = image::Options { verify: options.verify, update_locks: options.update_locks };
        match self {
            Part::HostPackages => debian::install(cache, &say),
            Part::Go(program) => program.find_or_build(cache, options.verify, &say, stop).map(drop),
            Part::Image(recipe) => image::build(cache, recipe, image_options, &say).map(drop),
            Part::Soperator => {
                say("compiling our own programs");
                let programs = [soperator_program(options.release)?, agent_program()?];
                let built = image::build_soperator(cache, &programs, image_options, &say)?;
                image_store::remember_soperator(cache, &built)
            }
            Part::ImageStore => image_store::find_or_build(cache, options.verify, &say).map(drop),
        }
    }
}

/// Every part that `rig build` makes without being told names, in the order in which one lane builds them.
pub fn all_parts() -> Result<Vec<Part>> {
    let mut parts = vec![Part::HostPackages];
    parts.extend([&go::KUBE, &go::COREDNS, &go::HELM, &go::HELM_UNITTEST].map(Part::Go));
    parts.extend(image::recipes()?.into_iter().map(Box::new).map(Part::Image));
    parts.extend([Part::Soperator, Part::ImageStore]);
    Ok(parts)
}

/// Parts that are built when they are named, or when something first needs them: little does, and they take minutes.
fn parts_on_demand() -> Vec<Part> {
    [&go::KWOK, &go::CERT_MANAGER].map(Part::Go).into()
}

/// What a running rig needs.
pub fn rig_parts() -> Result<Vec<Part>> {
    let mut parts = vec![Part::HostPackages, Part::Go(&go::KUBE), Part::Go(&go::COREDNS)];
    parts.extend(image::recipes()?.into_iter().map(Box::new).map(Part::Image));
    parts.push(Part::ImageStore);
    Ok(parts)
}

/// The parts of these names; without names, all but those on demand.
pub fn parts_named(names: &[String]) -> Result<Vec<Part>> {
    let mut all = all_parts()?;
    if names.is_empty() {
        return Ok(all);
    }
    all.extend(parts_on_demand());
    let known = |name: &str| name == ALL_IMAGES || all.iter().any(|part| part.name() == name);
    if let Some(unknown) = names.iter().find(|name| !known(name)) {
        let list: Vec<String> = all.iter().map(Part::name).chain([ALL_IMAGES.to_string()]).collect();
        bail!("no part is called {unknown:?}; the parts are {}", list.join(", "));
    }
    let chosen = |part: &Part| {
        names.contains(&part.name())
            || names.iter().any(|name| name == ALL_IMAGES) && matches!(part, Part::Image(_) | Part::Soperator)
    };
    Ok(all.into_iter().filter(chosen).collect())
}

/// Builds `parts`, those that are there already being only checked, and returns how long each took.
pub fn build(cache: &Cache, parts: Vec<Part>, options: Options) -> Result<String> {
    let mut to_do = Vec::new();
    for part in parts {
        if options.verify || options.update_locks || !part.is_there(cache)? {
            to_do.push(part);
        }
    }
    if to_do.is_empty() {
        return Ok(String::new());
    }
    if to_do.iter().any(|part| matches!(part, Part::HostPackages)) {
        debian::check_machine()?;
    }
    if !nix::unistd::geteuid().is_root() {
        check_rights(&to_do, cache, options)?;
    }
    preflight::disk_space(cache.root(), to_do.iter().map(Part::bytes).sum())?;

    let progress = Progress::new(to_do.len());
    let left = Mutex::new(to_do.iter().map(Part::name).collect::<Vec<_>>());
    progress.left(&left.lock().unwrap_or_else(PoisonError::into_inner));
    let (go_lane, other_lane): (Vec<Part>, Vec<Part>) = to_do.into_iter().partition(Part::is_go);
    let result = side_by_side(go_lane, other_lane, |part, stop| {
        let line = progress.begin(&part.name());
        let there = options.verify && part.is_there(cache)?;
        let result = part.build(cache, options, &line, stop);
        let outcome = match (&result, there) {
            (Err(_), _) => "failed after",
            (Ok(()), true) => "checked in",
            (Ok(()), false) => "built in",
        };
        progress.end(line, outcome);
        result.with_context(|| format!("cannot build {}", part.name()))?;
        let mut left = left.lock().unwrap_or_else(PoisonError::into_inner);
        left.retain(|name| *name != part.name());
        progress.left(&left);
        Ok(())
    });
    let summary = progress.summary();
    result.map(|()| summary)
}

/// Tells somebody who is not root, before minutes of work, what only root can build.
fn check_rights(parts: &[Part], cache: &Cache, options: Options) -> Result<()> {
    let (mut for_root, mut for_all) = (Vec::new(), Vec::new());
    for part in parts {
        match (part.needs_root(cache, options)?, part) {
            (true, Part::HostPackages) => {
                for_root.push(format!("{} ({})", part.name(), debian::missing().join(", ")));
            }
            (true, _) => for_root.push(part.name()),
            (false, _) => for_all.push(part.name()),
        }
    }
    if for_root.is_empty() {
        return Ok(());
    }
    let rest = match for_all.as_slice() {
        [] => String::new(),
        names => format!(", or build what needs no root: `rig build {}`", names.join(" ")),
    };
    bail!(
        "only root can install packages and make namespaces, which these parts need: {}. Run the same command with sudo{rest}",
        for_root.join(", ")
    )
}

/// Works through two lanes at once. When one fails, the other begins nothing more, and is told to stop what it is at.
fn side_by_side<T: Send>(
    one: Vec<T>,
    two: Vec<T>,
    work: impl Fn(T, &AtomicBool) -> Result<()> + Sync,
) -> Result<()> {
    let stop = AtomicBool::new(false);
    let run = |lane: Vec<T>| {
        let mut lane = lane.into_iter().take_while(|_| !stop.load(Ordering::SeqCst));
        let result = lane.try_for_each(|item| work(item, &stop));
        if result.is_err() {
            stop.store(true, Ordering::SeqCst);
        }
        result
    };
    let (one, two) = std::thread::scope(|scope| {
        let one = scope.spawn(|| run(one));
        let two = run(two);
        (one.join().unwrap_or_else(|_| bail!("building panicked")), two)
    });
    match (one, two) {
        (Err(one), Err(two)) => bail!("{one:#}\n\n{two:#}"),
        (one, two) => one.and(two),
    }
}

/// Directory of a Go program, built with a progress display if it is not there.
pub fn go_program(cache: &Cache, program: &'static GoProgram) -> Result<PathBuf> {
    if program.find(cache).is_none() {
        build(cache, vec![Part::Go(program)], Options::default())?;
    }
    program.find(cache).with_context(|| format!("{} vanished from the cache", program.name))
}

/// Our own program: as it is shipped, or as it compiles fastest (the profile says how), which is what the rig needs.
fn soperator_program(release: bool) -> Result<PathBuf> {
    cargo_program(&["--profile", if release { "release" } else { "rig" }, "--package", "soperator"])
}

/// `slurm-agent`, small and static: it runs in images that we know nothing of.
pub fn agent_program() -> Result<PathBuf> {
    // With a target given, the flags are for the program alone and not for what runs while it is built.
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let selection = ["--profile", "agent", "--package", "agent", "--bin", "slurm-agent", "--target", &target];
    cargo_program_with(&selection, &[("RUSTFLAGS", "-C target-feature=+crt-static")])
}

/// Our SPANK plugins for a Slurm, such as `24.11.5`: the name of each, and where it lies.
pub(crate) fn spank_plugins(slurm_version: &str) -> Result<Vec<(&'static str, PathBuf)>> {
    let selection = ["--profile", "agent", "--package", "spank", "--examples"];
    let messages = run_cargo(&selection, &[("SPANK_SLURM_VERSION", slurm_version)])?;
    ["chroot", "spanknccldebug"].map(|name| Ok((name, library_of(&messages, name)?))).into_iter().collect()
}

/// Builds a program of this workspace with Cargo and returns where it lies.
pub fn cargo_program(selection: &[&str]) -> Result<PathBuf> {
    cargo_program_with(selection, &[])
}

fn cargo_program_with(selection: &[&str], variables: &[(&str, &str)]) -> Result<PathBuf> {
    executable_of(&run_cargo(selection, variables)?)
}

/// Lets Cargo build something of this workspace, and returns its messages.
fn run_cargo(selection: &[&str], variables: &[(&str, &str)]) -> Result<Vec<u8>> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .args(["build", "--message-format", "json"])
        .args(selection)
        .envs(variables.iter().copied())
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stdin(Stdio::null());
    // What Cargo tells a test about its package; build scripts that look at it would run again, and all that depends on them.
    for (name, _) in std::env::vars_os() {
        if ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
            cargo.env_remove(name);
        }
    }
    let output = cargo.output().context("cannot run cargo")?;
    if !output.status.success() {
        bail!("`cargo build {}` failed:\n{}", selection.join(" "), String::from_utf8_lossy(&output.stderr));
    }
    Ok(output.stdout)
}

/// The shared library of an example among the messages that `cargo build --message-format json` prints.
fn library_of(messages: &[u8], name: &str) -> Result<PathBuf> {
    String::from_utf8_lossy(messages)
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|message| message["target"]["name"] == name)
        .flat_map(|message| message["filenames"].as_array().cloned().unwrap_or_default())
        .find_map(|file| file.as_str().filter(|file| file.ends_with(".so")).map(PathBuf::from))
        .with_context(|| format!("cargo did not say where it put {name}"))
}

/// The last program among the messages that `cargo build --message-format json` prints.
fn executable_of(messages: &[u8]) -> Result<PathBuf> {
    String::from_utf8_lossy(messages)
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter_map(|message| message["executable"].as_str().map(PathBuf::from))
        .next_back()
        .context("cargo did not say where it put the program")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    fn names(asked: &[&str]) -> Vec<String> {
        let asked: Vec<String> = asked.iter().map(ToString::to_string).collect();
        parts_named(&asked).unwrap().iter().map(Part::name).collect()
    }

    #[test]
    fn a_part_on_demand_is_built_only_when_it_is_named() {
        let all = names(&[]);
        assert!(all.contains(&"kube".into()) && !all.contains(&"cert-manager".into()), "{all:?}");
        assert_eq!(names(&["cert-manager", "kube"]), ["kube", "cert-manager"]);
    }

    #[test]
    fn who_is_not_root_is_told_at_once_which_parts_need_it() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path().into()).unwrap();
        let check = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(ToString::to_string).collect();
            check_rights(&parts_named(&names).unwrap(), &cache, Options::default())
        };
        check(&["kube", "cert-manager"]).unwrap();
        let error = check(&["kube", "pause", "soperator", "image-store"]).unwrap_err().to_string();
        assert!(error.contains("pause, soperator, image-store. Run the same command with sudo"), "{error}");
        assert!(error.ends_with("`rig build kube`"), "{error}");
    }

    #[test]
    fn a_lane_that_fails_stops_the_other() {
        let begun = Mutex::new(Vec::new());
        let error = side_by_side(vec!["slow", "never"], vec!["broken"], |item, stop| {
            begun.lock().unwrap().push(item);
            let deadline = Instant::now() + Duration::from_secs(20);
            while item == "slow" && !stop.load(Ordering::SeqCst) && Instant::now() < deadline {
                std::thread::yield_now();
            }
            if item == "broken" { bail!("it is broken") } else { Ok(()) }
        });
        assert_eq!(error.unwrap_err().to_string(), "it is broken");
        assert!(!begun.into_inner().unwrap().contains(&"never"));
    }

    #[test]
    fn an_unknown_part_is_told_with_all_that_there_are() {
        let error = parts_named(&["certmanager".into()]).err().unwrap().to_string();
        assert!(error.contains("\"certmanager\"") && error.contains("cert-manager, images"), "{error}");
    }
}
