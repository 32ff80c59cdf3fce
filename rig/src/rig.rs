//! A handle on a running rig, for the command line and for tests.

use std::fs::{self, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use kube::Client;
use tokio::sync::OnceCell;

use crate::audit::AuditLog;
use crate::build::{self, Part};
use crate::cache::{self, Cache};
use crate::client::{self, Namespace};
use crate::cluster;
use crate::paths::RigPaths;
use crate::preflight;
use crate::processes::{is_alive, tail};
use crate::protocol::{Figures, Options, Reply, Request, Status, short_socket_path};
use crate::supervisor;

/// Names the program `rig` for tests, which are other programs.
pub const PROGRAM_VARIABLE: &str = "RIG_BIN";
/// Names the rig that is meant.
pub const NAME_VARIABLE: &str = "RIG_NAME";

const SUPERVISOR_PATIENCE: Duration = Duration::from_secs(10);
const END_PATIENCE: Duration = Duration::from_secs(60);

/// A rig that is ready. It lives at least as long as this value.
pub struct Rig {
    cache: Cache,
    paths: RigPaths,
    figures: Figures,
    // Closed by the kernel if this process is killed, which ends the rig when it was the last one.
    _hold: UnixStream,
}

impl Rig {
    /// The rig that all tests of a run share: two nodes, started by the first that asks, ended with the last that holds it.
    pub async fn shared() -> Result<&'static Self> {
        static SHARED: OnceCell<Rig> = OnceCell::const_new();
        SHARED.get_or_try_init(async || Self::start(&shared_name(), Options::default()).await).await
    }

    /// A rig of its own, for a test that breaks things. Joins the rig of that name if it runs.
    pub async fn start(name: &str, options: Options) -> Result<Self> {
        let name = name.to_string();
        tokio::task::spawn_blocking(move || Self::start_blocking(&name, options, Request::Hold, &|_| ()))
            .await?
    }

    /// Starts or joins a rig; `stage` is told what happens.
    pub fn start_blocking(
        name: &str,
        options: Options,
        request: Request,
        stage: &dyn Fn(&str),
    ) -> Result<Self> {
        let cache = Cache::open()?;
        let paths = RigPaths::new(&cache, name)?;
        if options.nodes == 0 || options.nodes > crate::addresses::MAX_NODES {
            bail!("a rig has 1 to {} nodes, not {}", crate::addresses::MAX_NODES, options.nodes);
        }
        preflight::root()?;
        let hold = connect_or_start(&cache, &paths, &options)?;
        let figures = match wait_until_ready(&hold, &request, stage) {
            Ok(figures) => figures,
            Err(error) => {
                // Its supervisor cleans up; whoever reads the error finds nothing left but the logs.
                drop(hold);
                let _ = wait_for_supervisors_end(&paths);
                let logs = paths.failed_logs();
                return Err(error)
                    .context(format!("the rig {name} did not start (logs: {})", logs.display()));
            }
        };
        Ok(Self { cache, paths, figures, _hold: hold })
    }

    /// The rig's name.
    pub fn name(&self) -> &str {
        self.paths.name()
    }

    /// What its start cost.
    pub fn figures(&self) -> Figures {
        self.figures
    }

    /// Path of the kubeconfig of someone who may do everything.
    pub fn kubeconfig(&self) -> PathBuf {
        self.paths.kubeconfig()
    }

    /// A client that may do everything.
    pub async fn client(&self) -> Result<Client> {
        client::client(&self.kubeconfig()).await
    }

    /// A namespace of its own for one test; deleted when the value is dropped.
    pub async fn namespace(&self, prefix: &str) -> Result<Namespace> {
        let kubectl = build::go_program(&self.cache, &build::go::KUBE)?.join("kubectl");
        Ok(Namespace::create(self.client().await?, prefix).await?.deleted_by(kubectl, self.kubeconfig()))
    }

    /// `kubectl` for this rig.
    pub fn kubectl(&self) -> Result<Command> {
        kubectl(&self.cache, &self.paths)
    }

    /// Helm for this rig.
    pub fn helm(&self) -> Result<Command> {
        helm(&self.cache, Some(&self.paths))
    }

    /// A command that runs `program` inside a node.
    pub fn exec(&self, node: &str, program: &str) -> Result<Command> {
        exec(&self.paths, node, program)
    }

    /// The audit log; empty unless the rig was started with one.
    pub fn audit_log(&self) -> AuditLog {
        AuditLog::at(self.paths.audit_log())
    }

    /// Ends a node as if its power failed.
    pub async fn stop_node(&self, node: &str) -> Result<()> {
        self.order(Request::StopNode(node.to_string())).await
    }

    /// Starts a node that was stopped.
    pub async fn start_node(&self, node: &str) -> Result<()> {
        self.order(Request::StartNode(node.to_string())).await
    }

    async fn order(&self, request: Request) -> Result<()> {
        let paths = self.paths.clone();
        tokio::task::spawn_blocking(move || order(&paths, &request)).await?
    }
}

/// The name of the rig that tests of this checkout share.
pub fn shared_name() -> String {
    std::env::var(NAME_VARIABLE)
        .unwrap_or_else(|_| format!("test-{}", &cache::key_of([env!("CARGO_MANIFEST_DIR")])[..6]))
}

/// Asks the supervisor of a rig one thing and returns its answer.
pub fn ask(paths: &RigPaths, request: &Request) -> Result<Reply> {
    let stream = connect(paths).with_context(|| not_running(paths.name()))?;
    send(&stream, request)?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    if line.is_empty() {
        // It ended, which is the answer to a request to end.
        return Ok(Reply::Done);
    }
    serde_json::from_str(&line).context("the supervisor's answer is not understood")
}

/// Asks for something that is done or fails.
pub fn order(paths: &RigPaths, request: &Request) -> Result<()> {
    match ask(paths, request)? {
        Reply::Failed(reason) => bail!(reason),
        _ => Ok(()),
    }
}

/// How a rig is, or nothing if it does not run.
pub fn status(paths: &RigPaths) -> Result<Option<Status>> {
    if connect(paths).is_err() {
        return Ok(None);
    }
    match ask(paths, &Request::Status)? {
        Reply::Status(status) => Ok(Some(status)),
        Reply::Failed(reason) => bail!(reason),
        _ => Ok(None),
    }
}

/// Ends a rig, or cleans up what a killed one left; returns whether there was anything.
pub fn down(paths: &RigPaths) -> Result<bool> {
    paths.make_parent()?;
    let _start_lock = cache::lock(&paths.start_lock(), || ())?;
    let running = connect(paths).is_ok();
    let supervisor = status(paths).ok().flatten().map(|status| status.supervisor);
    // One that was killed may take a call while its end is not complete, and no order.
    if running
        && let Err(error) = order(paths, &Request::Down)
        && connect(paths).is_ok()
    {
        return Err(error);
    }
    wait_for_supervisors_end(paths)?;
    // Its lock is free a moment before the process is gone.
    let deadline = Instant::now() + SUPERVISOR_PATIENCE;
    while supervisor.is_some_and(is_alive) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
    let left = paths.root().exists();
    supervisor::clean_up(paths, false)?;
    Ok(running || left)
}

/// Waits until a rig that was let go has ended; returns at once if somebody else holds it.
pub fn wait_for_end_unless_held(paths: &RigPaths) -> Result<()> {
    match status(paths) {
        Ok(Some(status)) if status.holders > 0 || status.kept => Ok(()),
        _ => wait_for_supervisors_end(paths),
    }
}

/// `kubectl` for a rig.
pub fn kubectl(cache: &Cache, paths: &RigPaths) -> Result<Command> {
    let mut command = Command::new(build::go_program(cache, &build::go::KUBE)?.join("kubectl"));
    command.env("KUBECONFIG", running_kubeconfig(paths)?);
    Ok(command)
}

/// Helm, with its plugin for unit tests if that has been built, for a rig if one is given.
pub fn helm(cache: &Cache, paths: Option<&RigPaths>) -> Result<Command> {
    let mut command = Command::new(build::go_program(cache, &build::go::HELM)?.join("helm"));
    if let Some(plugin) = build::go::HELM_UNITTEST.find(cache) {
        command.env("HELM_PLUGINS", plugin);
    }
    if let Some(paths) = paths {
        command.env("KUBECONFIG", running_kubeconfig(paths)?);
    }
    Ok(command)
}

/// A command that runs `program` in all namespaces of a node.
pub fn exec(paths: &RigPaths, node: &str, program: &str) -> Result<Command> {
    running_kubeconfig(paths)?;
    let Ok(pid) = fs::read_to_string(cluster::pid_file(paths, node)) else {
        let known = paths.known_nodes();
        if known.iter().any(|name| name == node) {
            bail!("{node} is stopped: `rig node start {node}`");
        }
        bail!("no node is called {node:?}; the nodes are {}", known.join(", "));
    };
    let mut command = Command::new("nsenter");
    command.args(["--target", &pid, "--mount", "--net", "--pid", "--uts", "--ipc", "--wd=/", "--", program]);
    Ok(command)
}

fn running_kubeconfig(paths: &RigPaths) -> Result<PathBuf> {
    connect(paths).with_context(|| not_running(paths.name()))?;
    Ok(paths.kubeconfig())
}

fn not_running(name: &str) -> String {
    format!("no rig called {name} runs: start it with `rig up --name {name}`")
}

fn connect(paths: &RigPaths) -> Result<UnixStream> {
    let (_dir, path) = short_socket_path(&paths.socket())?;
    Ok(UnixStream::connect(path)?)
}

fn send(mut stream: &UnixStream, request: &Request) -> Result<()> {
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    stream.write_all(&line)?;
    Ok(())
}

/// Tells the supervisor what we want, and passes on what it says until the rig is ready.
fn wait_until_ready(stream: &UnixStream, request: &Request, stage: &dyn Fn(&str)) -> Result<Figures> {
    send(stream, request)?;
    for line in BufReader::new(stream).lines() {
        match serde_json::from_str(&line?).context("the supervisor's answer is not understood")? {
            Reply::Starting(text) => stage(&text),
            Reply::Ready(figures) => return Ok(figures),
            Reply::Failed(reason) => bail!(reason),
            Reply::Status(_) | Reply::Done => {}
        }
    }
    bail!("its supervisor ended while it started")
}

fn options_file(paths: &RigPaths) -> PathBuf {
    paths.root().join("options.json")
}

/// How the rig of these paths was made.
pub fn recorded_options(paths: &RigPaths) -> Result<Options> {
    let file = options_file(paths);
    let text = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("{} is damaged", file.display()))
}

fn connect_or_start(cache: &Cache, paths: &RigPaths, options: &Options) -> Result<UnixStream> {
    paths.make_parent()?;
    // Building takes long and has locks of its own.
    if connect(paths).is_err() {
        let build = |parts| build::build(cache, parts, build::Options::default()).map(drop);
        prepare(&build, &preflight::kernel_can_run)?;
    }
    let _start_lock = cache::lock(&paths.start_lock(), || ())?;
    if let Ok(stream) = connect(paths) {
        check_options(paths, options)?;
        return Ok(stream);
    }
    wait_for_supervisors_end(paths)?;
    remove_stale(cache, paths)?;
    preflight::disk_space(cache.root(), preflight::RUN_BYTES)?;
    fs::create_dir_all(paths.root()).with_context(|| format!("cannot make {}", paths.root().display()))?;
    fs::write(options_file(paths), serde_json::to_vec(options)?)?;
    start_supervisor(paths)
}

/// Builds what a rig needs. The kernel is asked first, as soon as the programs are there that it takes to ask: a kernel that
/// cannot do it is not worth minutes of building.
fn prepare(build: &dyn Fn(Vec<Part>) -> Result<()>, check_kernel: &dyn Fn() -> Result<()>) -> Result<()> {
    build(vec![Part::HostPackages])?;
    check_kernel()?;
    build(build::rig_parts()?)
}

fn check_options(paths: &RigPaths, wanted: &Options) -> Result<()> {
    let has = recorded_options(paths)?;
    let same_port = wanted.api_port == 0 || wanted.api_port == has.api_port;
    if (Options { api_port: 0, ..has.clone() }) != (Options { api_port: 0, ..wanted.clone() }) || !same_port {
        bail!(
            "a rig called {0} runs with other settings ({has:?}): end it with `rig down --name {0}`, or use another name",
            paths.name()
        );
    }
    Ok(())
}

fn start_supervisor(paths: &RigPaths) -> Result<UnixStream> {
    let log = OpenOptions::new().create(true).append(true).open(paths.supervisor_log())?;
    let mut child = Command::new(program()?)
        .args(["--name", paths.name(), supervisor::COMMAND])
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
        .context("cannot start the rig's supervisor")?;
    let deadline = Instant::now() + SUPERVISOR_PATIENCE;
    loop {
        if let Ok(stream) = connect(paths) {
            return Ok(stream);
        }
        if let Some(status) = child.try_wait()? {
            bail!("the rig's supervisor ended ({status}):\n{}", tail(&paths.supervisor_log(), 10));
        }
        if Instant::now() > deadline {
            bail!("the rig's supervisor does not answer:\n{}", tail(&paths.supervisor_log(), 10));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A supervisor that does not listen any more is ending; its lock is free when it has.
fn wait_for_supervisors_end(paths: &RigPaths) -> Result<()> {
    let deadline = Instant::now() + END_PATIENCE;
    while cache::try_lock(&paths.supervisor_lock())?.is_none() {
        if Instant::now() > deadline {
            bail!(
                "the supervisor of the rig {} neither answers nor ends; see {}",
                paths.name(),
                paths.supervisor_log().display()
            );
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Cleans up after every rig whose supervisor was killed. The caller holds the start lock of `own`.
fn remove_stale(cache: &Cache, own: &RigPaths) -> Result<()> {
    for paths in RigPaths::all(cache)? {
        let start_lock =
            if paths.name() == own.name() { None } else { Some(cache::try_lock(&paths.start_lock())?) };
        let being_started = matches!(start_lock, Some(None));
        if !being_started && cache::try_lock(&paths.supervisor_lock())?.is_some() {
            supervisor::clean_up(&paths, false)?;
        }
    }
    Ok(())
}

/// The program `rig`: this one, the one that the environment names, or one that Cargo makes now.
pub fn program() -> Result<PathBuf> {
    let this = std::env::current_exe()?;
    if this.file_name().is_some_and(|name| name == "rig") {
        return Ok(this);
    }
    if let Some(named) = std::env::var_os(PROGRAM_VARIABLE) {
        return Ok(named.into());
    }
    build::cargo_program(&["--package", "rig", "--bin", "rig"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_supervisor_that_ends_between_a_call_and_the_order_is_down() {
        let dir = tempfile::tempdir().unwrap();
        let paths = RigPaths::new(&Cache::at(dir.path().into()).unwrap(), "killed").unwrap();
        std::fs::create_dir_all(paths.socket().parent().unwrap()).unwrap();
        let (_short, socket) = short_socket_path(&paths.socket()).unwrap();
        let supervisor = std::os::unix::net::UnixListener::bind(socket).unwrap();
        // It takes one call, and is gone.
        let end = std::thread::spawn(move || supervisor.accept().map(drop));
        assert!(down(&paths).unwrap());
        end.join().unwrap().unwrap();
        assert!(!paths.root().exists(), "what it left is cleaned up");
    }

    #[test]
    fn a_kernel_that_cannot_run_a_rig_is_told_before_anything_long_is_built() {
        let built = std::cell::RefCell::new(Vec::new());
        let build = |parts: Vec<Part>| {
            built.borrow_mut().extend(parts.iter().map(Part::name));
            Ok(())
        };
        let error = prepare(&build, &|| bail!("no bridges")).unwrap_err().to_string();
        assert_eq!((error.as_str(), built.take()), ("no bridges", vec!["host-packages".to_string()]));
        prepare(&build, &|| Ok(())).unwrap();
        assert!(built.take().contains(&"kube".to_string()));
    }
}
