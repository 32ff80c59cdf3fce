//! The command line of `rig`.

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};

use rig::cache::Cache;
use rig::cluster;
use rig::paths::RigPaths;
use rig::protocol::{Options, Request};
use rig::rig::{NAME_VARIABLE, PROGRAM_VARIABLE};
use rig::{Rig, build, image_store, machine, rig as handle, supervisor};

/// A real Kubernetes on this machine: a control plane and nodes in namespaces of their own, from which nothing can leave.
#[derive(Parser)]
#[command(name = "rig", version, max_term_width = 110)]
pub(crate) struct Arguments {
    /// Which rig is meant; several can run side by side
    #[arg(long, global = true, env = NAME_VARIABLE, default_value = "default")]
    name: String,
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Fetch and build what is missing: programs, images
    Build {
        /// Parts to build: host-packages, kube, coredns, helm, helm-unittest, kwok, cert-manager, an image's name, `images` for
        /// all images, soperator, image-store. Without any: everything but kwok and cert-manager, which little needs
        parts: Vec<String>,
        /// Hash what the cache holds, and build again what is damaged
        #[arg(long)]
        verify: bool,
        /// Build images from today's packages and write their versions to the lock files
        #[arg(long)]
        update_locks: bool,
        /// Put our own programs into their image as they are shipped, and not as they compile fastest
        #[arg(long)]
        release: bool,
    },
    /// Start a rig and wait until its nodes are Ready and its DNS answers
    Up {
        #[command(flatten)]
        options: UpOptions,
    },
    /// End a rig, and leave no process, mount, cgroup, namespace or interface behind
    Down {
        /// End every rig
        #[arg(long)]
        all: bool,
    },
    /// Show the rigs that run
    Status,
    /// Run kubectl on a rig
    #[command(trailing_var_arg = true, disable_help_flag = true)]
    Kubectl {
        #[arg(allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Run Helm, on a rig if it runs
    #[command(trailing_var_arg = true, disable_help_flag = true)]
    Helm {
        #[arg(allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Print the path of a rig's kubeconfig
    Kubeconfig,
    /// Load an image archive (OCI or docker-save) into every node
    Load {
        /// The archive; without one, the soperator image as it was built last
        archive: Option<PathBuf>,
    },
    /// Stop or start a node
    Node {
        #[command(subcommand)]
        action: NodeAction,
    },
    /// Run a command in all namespaces of a node
    Exec {
        /// The node
        node: String,
        /// The command
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
    /// Run a command while the tests' shared rig is up, and end the rig after it unless others use it
    With {
        /// The command
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
    /// The process that owns a rig
    #[command(hide = true, name = supervisor::COMMAND)]
    Supervise,
    /// A machine, outside its namespaces
    #[command(hide = true, name = machine::OUTSIDE_COMMAND)]
    Machine { spec: PathBuf },
    /// Process 1 of a machine
    #[command(hide = true, name = machine::INIT_COMMAND)]
    MachineInit { spec: PathBuf },
}

#[derive(clap::Args)]
struct UpOptions {
    /// How many nodes
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=i64::from(rig::addresses::MAX_NODES)))]
    nodes: u8,
    /// Let the first node take only pods that tolerate the control plane's taint
    #[arg(long)]
    control_plane_taint: bool,
    /// Write every API call to the audit log
    #[arg(long)]
    audit: bool,
    /// Port of the API server on this machine's loopback; 0: any free one
    #[arg(long, default_value_t = 0)]
    api_port: u16,
}

#[derive(Subcommand)]
enum NodeAction {
    /// End a node as if its power failed
    Stop {
        /// The node
        node: String,
    },
    /// Start a node that was stopped; its pods come back as after a reboot
    Start {
        /// The node
        node: String,
    },
}

impl Arguments {
    /// Does what the command line says.
    pub(crate) fn run(self) -> Result<ExitCode> {
        let name = &self.name;
        match self.action {
            Action::Build { parts, verify, update_locks, release } => {
                build_parts(&parts, build::Options { verify, update_locks, release })?
            }
            Action::Up { options } => up(name, options)?,
            Action::Down { all } => down(name, all)?,
            Action::Status => status()?,
            Action::Kubectl { arguments } => {
                replace_by(handle::kubectl(&Cache::open()?, &paths(name)?)?.args(arguments))?
            }
            Action::Helm { arguments } => helm(name, &arguments)?,
            Action::Kubeconfig => println!("{}", paths(name)?.kubeconfig().display()),
            Action::Load { archive } => load(name, archive)?,
            Action::Node { action: NodeAction::Stop { node } } => {
                handle::order(&paths(name)?, &Request::StopNode(node))?
            }
            Action::Node { action: NodeAction::Start { node } } => {
                handle::order(&paths(name)?, &Request::StartNode(node))?
            }
            Action::Exec { node, command } => {
                let (program, arguments) = command.split_first().context("no command is given")?;
                replace_by(handle::exec(&paths(name)?, &node, program)?.args(arguments))?;
            }
            Action::With { command } => return with(&command),
            Action::Supervise => supervise(name)?,
            Action::Machine { spec } => machine::run_outside(&spec)?,
            Action::MachineInit { spec } => machine::run_init(&spec)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn paths(name: &str) -> Result<RigPaths> {
    RigPaths::new(&Cache::open()?, name)
}

fn build_parts(names: &[String], options: build::Options) -> Result<()> {
    let started = Instant::now();
    let summary = build::build(&Cache::open()?, build::parts_named(names)?, options)?;
    if summary.is_empty() {
        println!("everything is built already ({:.1} s)", started.elapsed().as_secs_f64());
    } else {
        println!("built:\n{summary}");
    }
    Ok(())
}

fn up(name: &str, options: UpOptions) -> Result<()> {
    let UpOptions { nodes, control_plane_taint, audit, api_port } = options;
    let options = Options { nodes, control_plane_taint, audit, api_port };
    let started = Instant::now();
    let stage = |text: &str| eprintln!("rig up: {:5.1} s: {text}", started.elapsed().as_secs_f64());
    let rig = Rig::start_blocking(name, options, Request::Keep, &stage)?;
    let figures = rig.figures();
    println!(
        "rig {name} is up: {nodes} nodes Ready and DNS answering {:.1} s after the start, {} MiB of memory\n\
         kubeconfig: {}",
        figures.seconds,
        figures.memory >> 20,
        rig.kubeconfig().display()
    );
    Ok(())
}

fn down(name: &str, all: bool) -> Result<()> {
    let cache = Cache::open()?;
    let rigs = if all { RigPaths::all(&cache)? } else { vec![RigPaths::new(&cache, name)?] };
    for paths in rigs {
        let was_there = handle::down(&paths)?;
        println!("rig {} {}", paths.name(), if was_there { "is down" } else { "was not up" });
    }
    Ok(())
}

fn status() -> Result<()> {
    let rigs = RigPaths::all(&Cache::open()?)?;
    if rigs.is_empty() {
        println!("no rig runs");
    }
    for paths in rigs {
        match handle::status(&paths) {
            Ok(Some(status)) => {
                let nodes: Vec<String> = status
                    .nodes
                    .iter()
                    .map(|(node, runs)| format!("{node} ({})", if *runs { "runs" } else { "stopped" }))
                    .collect();
                println!(
                    "{}: {}; {} MiB; API server {}; {} holders{}; supervisor {}",
                    paths.name(),
                    nodes.join(", "),
                    status.memory >> 20,
                    status.api_server,
                    status.holders,
                    if status.kept { ", kept until `rig down`" } else { "" },
                    status.supervisor
                );
            }
            Ok(None) => {
                println!("{}: left by a killed supervisor; `rig down --name {0}` cleans up", paths.name())
            }
            Err(error) => println!("{}: starting or ending ({error:#})", paths.name()),
        }
    }
    Ok(())
}

fn helm(name: &str, arguments: &[String]) -> Result<()> {
    let cache = Cache::open()?;
    if arguments.first().is_some_and(|first| first == "unittest") {
        build::go_program(&cache, &build::go::HELM_UNITTEST)?;
    }
    // Most of Helm needs no cluster; what does says so.
    let paths = RigPaths::new(&cache, name)?;
    let running = handle::status(&paths).ok().flatten().is_some();
    replace_by(handle::helm(&cache, running.then_some(&paths))?.args(arguments))
}

fn load(name: &str, archive: Option<PathBuf>) -> Result<()> {
    let paths = paths(name)?;
    let archive = match archive {
        Some(archive) => archive,
        None => image_store::soperator_archive(&Cache::open()?)
            .context("the soperator image has not been built: `rig build soperator`")?,
    };
    let status = handle::status(&paths)?
        .with_context(|| format!("no rig called {name} runs: `rig up --name {name}`"))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    for (node, _) in status.nodes.iter().filter(|(_, runs)| **runs) {
        let pid = std::fs::read_to_string(cluster::pid_file(&paths, node))?.parse()?;
        runtime
            .block_on(cluster::load_image(pid, &archive))
            .with_context(|| format!("cannot load into {node}"))?;
        println!("loaded {} into {node}", archive.display());
    }
    Ok(())
}

fn with(command: &[String]) -> Result<ExitCode> {
    let (program, arguments) = command.split_first().context("no command is given")?;
    // Asked before the start, which can take long: a build meanwhile replaces the file, and then it has no name.
    let this_program = std::env::current_exe()?;
    let started = Instant::now();
    let stage = |text: &str| eprintln!("rig with: {:5.1} s: {text}", started.elapsed().as_secs_f64());
    let rig = Rig::start_blocking(&handle::shared_name(), Options::default(), Request::Hold, &stage)?;
    eprintln!("rig with: {} is up ({} MiB)", rig.name(), rig.figures().memory >> 20);
    // Ctrl-C reaches the command too; we outlive it to pass its status on.
    ignore_interrupts()?;
    let status = Command::new(program)
        .args(arguments)
        .env(PROGRAM_VARIABLE, this_program)
        .env(NAME_VARIABLE, rig.name())
        .env("KUBECONFIG", rig.kubeconfig())
        .status()
        .with_context(|| format!("cannot run {program}"))?;
    let name = rig.name().to_string();
    drop(rig);
    // The caller finds nothing left when we return, unless somebody else holds the rig.
    handle::wait_for_end_unless_held(&paths(&name)?)?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}

fn ignore_interrupts() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::spawn(move || {
        runtime.block_on(async {
            // Registering the handler is what keeps the signal from ending us.
            while tokio::signal::ctrl_c().await.is_ok() {}
        });
    });
    Ok(())
}

fn supervise(name: &str) -> Result<()> {
    let cache = Cache::open()?;
    let paths = RigPaths::new(&cache, name)?;
    let options = handle::recorded_options(&paths)?;
    // One thread: the kernel ties machines to the thread that started them.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(supervisor::supervise(&cache, &paths, options))
}

/// Becomes `command`.
fn replace_by(command: &mut Command) -> Result<()> {
    let error = command.exec();
    bail!("cannot run {}: {error}", command.get_program().display())
}
