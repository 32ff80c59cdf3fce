//! The process tree of a Slurm machine, seen from the test: process 1 is told what to start and tells what ended.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use crate::components::Program;
use crate::machine::{self, Spec};
use crate::machine_root::Root;
use crate::processes::spawn_from_lasting_thread;

/// Where the output of programs goes, as seen inside.
pub(super) const LOG_DIR: &str = "/var/log/machine";
pub(super) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// How a program is, by what process 1 said last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Running {
    /// It was started and has not ended.
    Yes,
    /// It ended, in this way.
    Ended(String),
}

#[derive(Default)]
struct Programs {
    states: Mutex<BTreeMap<String, Running>>,
    changed: Condvar,
}

/// A process tree; it ends with this value.
pub(super) struct Tree {
    outside: Child,
    // Closed by the kernel if this process is killed, which ends process 1 and with it all.
    commands: Mutex<ChildStdin>,
    programs: Arc<Programs>,
    init_pid: u32,
}

impl Tree {
    /// Starts process 1 with the root file system that `lower` gives; it runs no program yet.
    pub(super) fn start(
        hostname: &str,
        lower: std::path::PathBuf,
        trees: Vec<machine::Bind>,
    ) -> Result<Self> {
        // On the disk for a moment only: what is mounted on it shows in the machine's own namespace.
        let directory = tempfile::tempdir().context("cannot make a temporary directory")?;
        let mount_point = directory.path().join("root");
        std::fs::create_dir(&mount_point)?;
        let spec = Spec {
            hostname: hostname.into(),
            root: Some(Root { mount_point, lower, trees }),
            binds: Vec::new(),
            shared_mounts: false,
            restart: false,
            programs: Vec::new(),
            log_dir: LOG_DIR.into(),
        };
        let spec_file = directory.path().join("spec.json");
        std::fs::write(&spec_file, serde_json::to_vec(&spec)?)?;
        let mut command = Command::new(crate::rig::program()?);
        command
            .arg(machine::OUTSIDE_COMMAND)
            .arg(&spec_file)
            .env_clear()
            .env("PATH", PATH)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut outside = spawn_from_lasting_thread(command).context("cannot start a Slurm machine")?;
        let commands = outside.stdin.take().context("a machine has no input")?;
        let mut output = BufReader::new(outside.stdout.take().context("a machine has no output")?);
        let mut next = || -> Result<String> {
            let mut line = String::new();
            if output.read_line(&mut line)? == 0 {
                bail!("the Slurm machine ended while it started; its reason stands above");
            }
            Ok(line.trim_end().to_string())
        };
        let started = (|| -> Result<u32> {
            let init_pid = next()?.parse().context("a machine did not tell its process id")?;
            let ready = next()?;
            if ready != "ready" {
                bail!("a machine said {ready:?} instead of \"ready\"");
            }
            Ok(init_pid)
        })();
        let init_pid = match started {
            Ok(pid) => pid,
            Err(error) => {
                drop(commands);
                outside.wait()?;
                return Err(error);
            }
        };
        let programs = Arc::new(Programs::default());
        let listener = Arc::clone(&programs);
        std::thread::spawn(move || listener.listen(output));
        Ok(Self { outside, commands: Mutex::new(commands), programs, init_pid })
    }

    /// Process id of process 1, as seen outside.
    pub(super) fn pid(&self) -> u32 {
        self.init_pid
    }

    /// Starts a program.
    pub(super) fn run(&self, program: &Program) -> Result<()> {
        if self.state(&program.name) == Some(Running::Yes) {
            bail!("{} runs already", program.name);
        }
        self.programs.lock().insert(program.name.clone(), Running::Yes);
        self.say(&format!("run {}", serde_json::to_string(program)?))
    }

    /// Starts a program again that ended.
    pub(super) fn start_again(&self, name: &str) -> Result<()> {
        match self.state(name) {
            None => bail!("no daemon is called {name:?}; they are {}", self.names().join(", ")),
            Some(Running::Yes) => bail!("{name} runs already"),
            Some(Running::Ended(_)) => {}
        }
        self.programs.lock().insert(name.to_string(), Running::Yes);
        self.say(&format!("start {name}"))
    }

    /// Sends SIGTERM, or SIGKILL if `kill`, and waits for the end, which is told. Nothing happens if it has ended.
    pub(super) fn end(&self, name: &str, kill: bool, patience: Duration) -> Result<String> {
        if self.state(name).is_none() {
            bail!("no daemon is called {name:?}; they are {}", self.names().join(", "));
        }
        self.say(&format!("{} {name}", if kill { "kill" } else { "stop" }))?;
        let deadline = Instant::now() + patience;
        let mut states = self.programs.lock();
        loop {
            if let Some(Running::Ended(how)) = states.get(name) {
                return Ok(how.clone());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                bail!("{name} did not end within {} s", patience.as_secs());
            }
            states =
                self.programs.changed.wait_timeout(states, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// How a program is; nothing if it was never started.
    pub(super) fn state(&self, name: &str) -> Option<Running> {
        self.programs.lock().get(name).cloned()
    }

    /// All programs that were started.
    pub(super) fn names(&self) -> Vec<String> {
        self.programs.lock().keys().cloned().collect()
    }

    fn say(&self, line: &str) -> Result<()> {
        let mut commands = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        writeln!(commands, "{line}").context("the Slurm machine has ended")
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        // Process 1 first: as soon as it is gone, so is everything inside. It may have ended already.
        let _ = nix::sys::signal::kill(Pid::from_raw(self.init_pid as i32), Signal::SIGKILL);
        let _ = self.outside.wait();
    }
}

impl Programs {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Running>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the ends that process 1 tells, until it ends itself.
    fn listen(&self, output: BufReader<ChildStdout>) {
        for line in output.lines().map_while(Result::ok) {
            if let Some((name, how)) = line.strip_prefix("ended ").and_then(|rest| rest.split_once(' ')) {
                self.lock().insert(name.to_string(), Running::Ended(how.to_string()));
                self.changed.notify_all();
            }
        }
    }
}
