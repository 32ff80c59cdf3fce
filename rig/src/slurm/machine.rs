//! A running Slurm machine and what tests do with it.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tokio::sync::oneshot;

use super::options::{Options, Version};
use super::tree::{LOG_DIR, PATH, Running, Tree};
use super::{conf, daemons, root, setup};
use crate::cache::Cache;
use crate::components::Program;
use crate::machine::Bind;
use crate::processes::tail;
use crate::{forward, preflight};

/// How long anything in a Slurm machine may take before a test fails.
const PATIENCE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(50);
const LOG_LINES_SHOWN: usize = 15;

/// Real Slurm daemons; they end with this value.
pub struct SlurmMachine {
    // Dropped before the tree: its thread lives in the machine's network.
    forward: Option<Forward>,
    tree: Tree,
    options: Options,
}

/// The way from this machine's loopback to slurmrestd.
struct Forward {
    address: SocketAddr,
    end: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<Result<()>>>,
}

impl SlurmMachine {
    /// The machine of this version that all tests of a process share: two nodes, slurmrestd and accounting. A test that
    /// breaks things starts its own.
    pub fn shared(version: Version) -> Result<&'static Self> {
        static STARTING: [Mutex<()>; Version::ALL.len()] = [const { Mutex::new(()) }; Version::ALL.len()];
        static MACHINES: [OnceLock<SlurmMachine>; Version::ALL.len()] =
            [const { OnceLock::new() }; Version::ALL.len()];
        let (starting, machine) = (&STARTING[version as usize], &MACHINES[version as usize]);
        let _only_once = starting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(machine) = machine.get() {
            return Ok(machine);
        }
        let started = Self::start(Options::new(version).accounting())?;
        Ok(machine.get_or_init(|| started))
    }

    /// Starts the daemons and waits until they answer and all nodes are idle.
    pub fn start(options: Options) -> Result<Self> {
        preflight::root()?;
        let cache = Cache::open()?;
        let mut trees = Vec::new();
        if options.accounting || options.database_files {
            trees.push(Bind { source: root::mariadb(&cache)?, target: daemons::DATABASE_ROOT.into() });
        }
        let tree = Tree::start(conf::HOST_NAME, root::slurm(&cache, options.version)?, trees)?;
        let mut machine = Self { forward: None, tree, options };
        setup::prepare(&machine)?;
        machine.start_daemons()?;
        Ok(machine)
    }

    /// The Slurm release that runs.
    pub fn version(&self) -> Version {
        self.options.version
    }

    pub(super) fn options(&self) -> &Options {
        &self.options
    }

    /// Names of the nodes that have a slurmd.
    pub fn nodes(&self) -> Vec<String> {
        (1..=self.options.nodes).map(conf::node_name).collect()
    }

    /// Where slurmrestd is reached by TCP from outside, without a slash at the end.
    pub fn rest_url(&self) -> Result<String> {
        let forward = self.forward.as_ref().context("this Slurm machine runs no slurmrestd")?;
        Ok(format!("http://{}", forward.address))
    }

    /// slurmrestd's Unix socket, reachable from outside.
    pub fn rest_socket(&self) -> PathBuf {
        self.path(daemons::REST_SOCKET)
    }

    /// The key by which slurmctld proves tokens.
    pub fn jwt_key(&self) -> Result<Vec<u8>> {
        Ok(fs::read(self.path(conf::JWT_KEY))?)
    }

    /// A token of `user` as `scontrol token` makes it, for so many seconds.
    pub fn token(&self, user: &str, lifetime: u32) -> Result<String> {
        let said =
            self.exec(&["scontrol", "token", &format!("username={user}"), &format!("lifespan={lifetime}")])?;
        let token =
            said.trim().strip_prefix("SLURM_JWT=").with_context(|| format!("no token in {said:?}"))?;
        Ok(token.to_string())
    }

    /// Runs a command inside as root and returns what it printed.
    pub fn exec(&self, command: &[&str]) -> Result<String> {
        self.output(command, self.command(command))
    }

    /// Runs a command inside as `user` (`tester` is there for jobs) and returns what it printed.
    pub fn exec_as(&self, user: &str, command: &[&str]) -> Result<String> {
        self.output(command, self.command_as(user, command))
    }

    /// A command inside as root, for tests that run it in their own way.
    pub fn command(&self, command: &[&str]) -> Command {
        let mut nsenter = Command::new("nsenter");
        nsenter
            .args(["--target", &self.tree.pid().to_string()])
            .args(["--mount", "--net", "--pid", "--uts", "--ipc", "--root", "--wd", "--"])
            .args(command)
            .env_clear()
            .env("PATH", PATH)
            .stdin(std::process::Stdio::null());
        nsenter
    }

    /// A command inside as `user`.
    pub fn command_as(&self, user: &str, command: &[&str]) -> Command {
        self.command(&daemons::as_user(user, command))
    }

    /// A path inside, as the test sees it. Links in it that start with a slash lead outside.
    pub fn path(&self, inside: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root", self.tree.pid())).join(inside.trim_start_matches('/'))
    }

    /// Writes a file of `/etc/slurm`. Daemons read it when they are restarted or told to reconfigure.
    pub fn write_conf(&self, name: &str, text: &str) -> Result<()> {
        let path = Path::new(conf::ETC).join(name);
        let path = self.path(&path.display().to_string());
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        if name == conf::DATABASE_FILE { setup::give_to(self, &path, "slurm", 0o600) } else { Ok(()) }
    }

    /// Starts a daemon that is not one of ours, such as a dynamic node: any name, and a command with its full path.
    pub fn start_daemon(&self, name: &str, command: &[&str]) -> Result<()> {
        let command = command.iter().map(ToString::to_string).collect();
        self.tree.run(&Program { name: name.into(), command })
    }

    /// Starts slurmctld and waits until it answers; an error has its log. For machines with nothing started.
    pub fn start_slurmctld(&self) -> Result<()> {
        self.tree.run(&daemons::slurmctld())?;
        self.wait_until_answering()
    }

    /// Starts a daemon again that was stopped or killed: `slurmctld`, `slurmd-node-1`, ...
    pub fn start_again(&self, daemon: &str) -> Result<()> {
        self.tree.start_again(daemon)?;
        if daemon == daemons::SLURMCTLD { self.wait_until_answering() } else { Ok(()) }
    }

    /// Stops a daemon by SIGTERM and waits for its end; returns how it ended.
    pub fn stop(&self, daemon: &str) -> Result<String> {
        self.tree.end(daemon, false, PATIENCE).with_context(|| self.failure(daemon))
    }

    /// Kills a daemon by SIGKILL; returns how it ended.
    pub fn kill(&self, daemon: &str) -> Result<String> {
        self.tree.end(daemon, true, PATIENCE)
    }

    /// Stops a daemon and starts it again; for slurmctld, waits until it answers.
    pub fn restart(&self, daemon: &str) -> Result<()> {
        self.stop(daemon)?;
        self.start_again(daemon)
    }

    /// Forgets what slurmctld saved, so that its next start knows only the configuration. It must be stopped.
    pub fn forget_state(&self) -> Result<()> {
        if self.running(daemons::SLURMCTLD) == Some(Running::Yes) {
            bail!("slurmctld writes its state while it runs: stop it first");
        }
        for item in fs::read_dir(self.path(conf::STATE))? {
            let path = item?.path();
            if path.is_dir() { fs::remove_dir_all(&path)? } else { fs::remove_file(&path)? }
        }
        Ok(())
    }

    /// Whether a daemon runs, or how it ended; nothing if it was never started.
    pub fn running(&self, daemon: &str) -> Option<Running> {
        self.tree.state(daemon)
    }

    /// What a daemon has printed so far.
    pub fn logs(&self, daemon: &str) -> String {
        let text = fs::read(self.log_path(daemon)).unwrap_or_default();
        String::from_utf8_lossy(&text).into_owned()
    }

    /// Waits until `condition` holds; its errors count as "not yet". What fails in the end shows the logs of all daemons.
    pub fn wait_until(&self, what: &str, condition: impl Fn() -> Result<bool>) -> Result<()> {
        self.wait(what, condition, || Ok(()))
    }

    /// Waits until a node's state, in the words of `sinfo`, is one of `states`.
    pub fn wait_for_node(&self, node: &str, states: &[&str]) -> Result<()> {
        self.wait_until(&format!("{node} is {}", states.join(" or ")), || {
            let state = self.exec(&["sinfo", "--noheader", "--Node", "--nodes", node, "--format", "%T"])?;
            Ok(states.contains(&state.trim()))
        })
    }

    /// Waits until a job's state, in the words of `squeue`, is one of `states`.
    pub fn wait_for_job(&self, job: &str, states: &[&str]) -> Result<()> {
        self.wait_until(&format!("job {job} is {}", states.join(" or ")), || {
            let state =
                self.exec(&["squeue", "--noheader", "--states", "all", "--jobs", job, "--format", "%T"])?;
            Ok(states.contains(&state.trim()))
        })
    }

    /// Process id of the machine's process 1, by which its namespaces are found.
    pub fn pid(&self) -> u32 {
        self.tree.pid()
    }

    fn start_daemons(&mut self) -> Result<()> {
        self.tree.run(&daemons::munged())?;
        self.wait_for_start("munged listens", &[daemons::MUNGED], || {
            Ok(self.path("/run/munge/munge.socket.2").exists())
        })?;
        if self.options.accounting {
            self.start_accounting()?;
        }
        if self.options.controller {
            self.tree.run(&daemons::slurmctld())?;
        }
        let nodes = self.nodes();
        for node in &nodes {
            self.tree.run(&daemons::slurmd(node))?;
        }
        if self.options.rest {
            self.tree.run(&daemons::slurmrestd(self.options.accounting))?;
        }
        if self.options.controller {
            self.wait_until_answering()?;
        }
        if self.options.emulated > 0 {
            self.call_emulated_nodes_idle()?;
        }
        if !nodes.is_empty() {
            self.wait_for_start("all nodes are idle", &[daemons::SLURMCTLD], || {
                let states = self.exec(&["sinfo", "--noheader", "--Node", "--format", "%N %T"])?;
                Ok(nodes.iter().all(|node| states.lines().any(|line| line == format!("{node} idle"))))
            })?;
        }
        if self.options.rest {
            self.wait_for_start("slurmrestd listens", &[daemons::SLURMRESTD], || {
                Ok(self.rest_socket().exists())
            })?;
            self.forward = Some(Forward::start(self.tree.pid())?);
        }
        Ok(())
    }

    fn start_accounting(&self) -> Result<()> {
        self.exec(&daemons::install_database())?;
        self.tree.run(&daemons::mariadbd())?;
        let socket = format!("{}/run/mysqld/mysqld.sock", daemons::DATABASE_ROOT);
        self.wait_for_start("MariaDB listens", &[daemons::MARIADBD], || Ok(self.path(&socket).exists()))?;
        self.tree.run(&daemons::slurmdbd())?;
        let add = ["sacctmgr", "--immediate", "add"];
        self.wait_for_start("slurmdbd answers", &[daemons::SLURMDBD, daemons::MARIADBD], || {
            self.exec(&["sacctmgr", "--noheader", "show", "cluster"]).map(|_| true)
        })?;
        self.exec(&[&add[..], &["cluster", conf::CLUSTER]].concat())?;
        self.exec(&[&add[..], &["account", "testing"]].concat())?;
        self.exec(&[&add[..], &["user", setup::JOB_USER, "account=testing"]].concat())?;
        Ok(())
    }

    fn call_emulated_nodes_idle(&self) -> Result<()> {
        let nodes = format!("NodeName={}", conf::emulated_nodes(self.options.emulated));
        // There is no way from UNKNOWN to IDLE but over DOWN.
        self.exec(&["scontrol", "update", &nodes, "State=DOWN", "Reason=emulated"])?;
        self.exec(&["scontrol", "update", &nodes, "State=IDLE"]).map(drop)
    }

    fn wait_until_answering(&self) -> Result<()> {
        self.wait_for_start("slurmctld answers", &[daemons::SLURMCTLD], || {
            Ok(self.exec(&["scontrol", "ping"])?.contains(" is UP"))
        })
    }

    /// Waits while `needed` run; fails at once when one of them ends.
    fn wait_for_start(
        &self,
        what: &str,
        needed: &[&str],
        condition: impl Fn() -> Result<bool>,
    ) -> Result<()> {
        self.wait(what, condition, || {
            for daemon in needed {
                if let Some(Running::Ended(how)) = self.running(daemon) {
                    bail!("{daemon} ended while it started ({how}):\n{}", self.last_lines(daemon));
                }
            }
            Ok(())
        })
    }

    fn wait(
        &self,
        what: &str,
        condition: impl Fn() -> Result<bool>,
        check: impl Fn() -> Result<()>,
    ) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let outcome = condition();
            if matches!(outcome, Ok(true)) {
                return Ok(());
            }
            check()?;
            if Instant::now() > deadline {
                let reason = outcome.err().map(|error| format!("{error:#}\n")).unwrap_or_default();
                bail!(
                    "waited {} s until {what}, in vain\n{reason}{}",
                    PATIENCE.as_secs(),
                    self.all_last_lines()
                );
            }
            std::thread::sleep(POLL);
        }
    }

    fn output(&self, words: &[&str], mut command: Command) -> Result<String> {
        let output = command.output().context("cannot run nsenter")?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if !output.status.success() {
            bail!(
                "`{}` failed in Slurm {}: {}{}",
                words.join(" "),
                self.version(),
                text(&output.stdout),
                text(&output.stderr).trim()
            );
        }
        Ok(text(&output.stdout))
    }

    fn failure(&self, daemon: &str) -> String {
        format!("the last lines of {daemon}:\n{}", self.last_lines(daemon))
    }

    fn log_path(&self, daemon: &str) -> PathBuf {
        self.path(&format!("{LOG_DIR}/{daemon}.log"))
    }

    fn last_lines(&self, daemon: &str) -> String {
        tail(&self.log_path(daemon), LOG_LINES_SHOWN)
    }

    fn all_last_lines(&self) -> String {
        let shown = |name: &String| format!("--- {name}\n{}\n", self.last_lines(name));
        self.tree.names().iter().map(shown).collect()
    }
}

impl Forward {
    fn start(pid: u32) -> Result<Self> {
        let listener = forward::listen(0)?;
        let address = listener.local_addr()?;
        let (end, ended) = oneshot::channel::<()>();
        let target = SocketAddr::from((Ipv4Addr::LOCALHOST, daemons::REST_PORT));
        let thread = forward::forward_until(listener, pid, target, async {
            // Resolves when the sender is dropped.
            let _ = ended.await;
        })?;
        Ok(Self { address, end: Some(end), thread: Some(thread) })
    }
}

impl Drop for Forward {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // It has nothing to tell at its end.
            let _ = thread.join();
        }
    }
}
