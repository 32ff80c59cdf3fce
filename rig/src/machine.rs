//! A machine of the rig: one process tree in its own mount, network, pid, uts and ipc namespaces.
//!
//! The tree is `rig machine` (outside, waits) and its child `rig machine-init` (process 1 inside). Process 1 mounts,
//! starts programs when it is told to, starts them again when they end, and reaps orphans. When it ends, the kernel ends
//! everything inside and takes every mount, link, rule and namespace away: nothing has to be cleaned up by hand.

use std::collections::HashMap;
use std::ffi::CString;
use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl::{set_name, set_pdeathsig};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use crate::components::Program;
use crate::machine_root::Root;

/// Argument of the process outside the namespaces.
pub const OUTSIDE_COMMAND: &str = "machine";
/// Argument of process 1 inside.
pub const INIT_COMMAND: &str = "machine-init";

/// What processes of this program are called.
const NAME: &str = "rig";
const RESTART_DELAY: Duration = Duration::from_secs(1);

/// What a machine looks like from inside.
#[derive(Debug, Serialize, Deserialize)]
pub struct Spec {
    /// Its host name.
    pub hostname: String,
    /// A root file system of its own; without one the machine sees the files of the machine it runs on.
    #[serde(default)]
    pub root: Option<Root>,
    /// Bind mounts, in order. Sources are as outside, or below an earlier target.
    pub binds: Vec<Bind>,
    /// Whether mounts inside spread to containers and back, as kubelet's Bidirectional mounts need.
    pub shared_mounts: bool,
    /// Whether a program that ended is started again. If not, its end is told on the output instead: `ended NAME HOW`.
    pub restart: bool,
    /// Programs that can be started.
    pub programs: Vec<Program>,
    /// Where their output goes, as seen inside.
    pub log_dir: PathBuf,
}

/// One bind mount, with everything mounted below its source.
#[derive(Debug, Serialize, Deserialize)]
pub struct Bind {
    /// What to show.
    pub source: PathBuf,
    /// Where.
    pub target: PathBuf,
}

/// A running machine, seen from the supervisor. Dropping it ends the machine.
pub struct Machine {
    outside: tokio::process::Child,
    commands: Option<tokio::process::ChildStdin>,
    init_pid: u32,
}

impl Machine {
    /// Starts the machine that `spec_file` describes; it runs no program yet.
    pub async fn start(spec_file: &Path) -> Result<Self> {
        use tokio::io::{AsyncBufReadExt as _, BufReader};
        let mut outside = tokio::process::Command::from(this_program())
            .arg(OUTSIDE_COMMAND)
            .arg(spec_file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("cannot start a machine")?;
        let commands = outside.stdin.take();
        let stdout = outside.stdout.take().context("a machine has no output")?;
        let mut lines = BufReader::new(stdout).lines();
        let mut next = async || {
            lines
                .next_line()
                .await?
                .context("a machine ended while it started; its reason is in the supervisor's log")
        };
        let init_pid = next().await?.parse().context("a machine did not tell its process id")?;
        let ready = next().await?;
        if ready != "ready" {
            bail!("a machine said {ready:?} instead of \"ready\"");
        }
        Ok(Self { outside, commands, init_pid })
    }

    /// Process id of the machine's process 1, by which its namespaces are found.
    pub fn pid(&self) -> u32 {
        self.init_pid
    }

    /// Starts one of the programs of the spec.
    pub async fn run(&mut self, program: &str) -> Result<()> {
        use tokio::io::AsyncWriteExt as _;
        let commands = self.commands.as_mut().context("the machine has been stopped")?;
        commands
            .write_all(format!("start {program}\n").as_bytes())
            .await
            .with_context(|| format!("cannot start {program}"))?;
        commands.flush().await?;
        Ok(())
    }

    /// Waits until the machine ends by itself, which it should not.
    pub async fn ended(&mut self) {
        // An error means that it is not our child any more: ended too.
        let _ = self.outside.wait().await;
    }

    /// Ends the machine and everything in it, and waits for the end.
    pub async fn stop(mut self) -> Result<()> {
        self.commands = None;
        // Process 1 first: as soon as it is gone, so is everything inside.
        let pid = Pid::from_raw(self.init_pid as i32);
        if let Err(error) = nix::sys::signal::kill(pid, Signal::SIGKILL)
            && error != nix::errno::Errno::ESRCH
        {
            return Err(error).context("cannot end a machine");
        }
        self.outside.wait().await.context("cannot wait for a machine's end")?;
        Ok(())
    }
}

/// The very program that runs, although a build may have replaced or removed its file: a supervisor lives long. Whoever starts
/// it in a new pid namespace still sees the `/proc` of the old one, in which every process finds itself, too.
fn this_program() -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg0(NAME);
    command
}

/// The kernel names a process after the file that it was started from, which says nothing here.
fn take_name() -> Result<()> {
    Ok(set_name(&CString::new(NAME)?)?)
}

/// `rig machine SPEC`: makes the namespaces, starts process 1 in them and waits for its end.
pub fn run_outside(spec_file: &Path) -> Result<()> {
    set_pdeathsig(Signal::SIGKILL)?;
    take_name()?;
    unshare(
        CloneFlags::CLONE_NEWNS
            | CloneFlags::CLONE_NEWNET
            | CloneFlags::CLONE_NEWPID
            | CloneFlags::CLONE_NEWUTS
            | CloneFlags::CLONE_NEWIPC,
    )
    .context(
        "cannot make namespaces: root (CAP_SYS_ADMIN) and a kernel with all kinds of namespaces are needed",
    )?;
    let mut init = this_program()
        .arg(INIT_COMMAND)
        .arg(spec_file)
        .stdin(Stdio::inherit())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start process 1")?;
    println!("{}", init.id());
    // Passed on by hand, so that our line comes first.
    if let Some(stdout) = init.stdout.take() {
        for line in BufReader::new(stdout).lines() {
            println!("{}", line?);
        }
    }
    init.wait()?;
    Ok(())
}

/// `rig machine-init SPEC`: process 1.
pub fn run_init(spec_file: &Path) -> Result<()> {
    set_pdeathsig(Signal::SIGKILL)?;
    take_name()?;
    if std::process::id() != 1 {
        bail!("this command is process 1 of a machine; `rig up` starts it");
    }
    let spec: Spec =
        serde_json::from_slice(&fs::read(spec_file)?).context("cannot read the machine's description")?;
    let none: Option<&str> = None;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).context("cannot make / private")?;
    mount(Some("proc"), "/proc", Some("proc"), MsFlags::empty(), none).context("cannot mount /proc")?;
    if let Some(root) = &spec.root {
        root.enter()?;
    }
    for Bind { source, target } in &spec.binds {
        mount(Some(source), target, none, MsFlags::MS_BIND | MsFlags::MS_REC, none)
            .with_context(|| format!("cannot bind {} to {}", source.display(), target.display()))?;
    }
    if spec.shared_mounts {
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_SHARED, none).context("cannot make / shared")?;
    }
    nix::unistd::sethostname(&spec.hostname).context("cannot set the host name")?;
    fs::write("/proc/sys/net/ipv4/ip_forward", "1").context("cannot turn on ip_forward")?;
    println!("ready");
    std::io::stdout().flush()?;

    let programs = Arc::new(Programs::new(spec)?);
    let reaper = Arc::clone(&programs);
    std::thread::spawn(move || reaper.reap());
    for line in std::io::stdin().lines() {
        let line = line?;
        match line.split_once(' ') {
            Some(("start", name)) => programs.start(name),
            Some(("run", program)) => programs.run(program),
            Some(("stop", name)) => programs.signal(name, Signal::SIGTERM),
            Some(("kill", name)) => programs.signal(name, Signal::SIGKILL),
            _ => programs.log(&format!("unknown command {line:?}")),
        }
    }
    // The supervisor is gone: this end takes everything inside along.
    Ok(())
}

/// The programs of a machine and the process ids they have now.
struct Programs {
    known: Mutex<HashMap<String, Program>>,
    running: Mutex<HashMap<i32, String>>,
    restart: bool,
    log_dir: PathBuf,
}

impl Programs {
    fn new(spec: Spec) -> Result<Self> {
        fs::create_dir_all(&spec.log_dir)?;
        let known: HashMap<_, _> =
            spec.programs.into_iter().map(|program| (program.name.clone(), program)).collect();
        Ok(Self {
            known: Mutex::new(known),
            running: Mutex::default(),
            restart: spec.restart,
            log_dir: spec.log_dir,
        })
    }

    /// Starts a program that comes with the command, as JSON, and remembers it.
    fn run(&self, program: &str) {
        match serde_json::from_str::<Program>(program) {
            Ok(program) => {
                let name = program.name.clone();
                lock(&self.known).insert(name.clone(), program);
                self.start(&name);
            }
            Err(error) => self.log(&format!("{program:?} is not a program: {error}")),
        }
    }

    fn signal(&self, name: &str, signal: Signal) {
        // Held meanwhile: the reaper forgets a process before its id can mean another.
        let running = lock(&self.running);
        for (pid, _) in running.iter().filter(|(_, running)| *running == name) {
            if let Err(error) = nix::sys::signal::kill(Pid::from_raw(*pid), signal) {
                self.log(&format!("cannot send {signal} to {name}: {error}"));
            }
        }
    }

    fn start(&self, name: &str) {
        let Some(program) = lock(&self.known).get(name).cloned() else {
            return self.log(&format!("no program is called {name:?}"));
        };
        // Held until the process id is noted: the reaper may see the end of the program before we do.
        let mut running = lock(&self.running);
        match self.spawn(&program) {
            Ok(pid) => {
                running.insert(pid, name.to_string());
            }
            Err(error) => {
                self.log(&format!("cannot start {name}: {error:#}"));
                self.tell_end(name, &format!("it could not be started: {error:#}"));
            }
        }
    }

    fn spawn(&self, program: &Program) -> Result<i32> {
        let (file, arguments) = program.command.split_first().context("it has no command")?;
        if !Path::new(file).exists() {
            bail!("{file} does not exist");
        }
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.log_dir.join(format!("{}.log", program.name)))?;
        let child = Command::new(file)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        Ok(i32::try_from(child.id())?)
    }

    /// Takes the ends of our programs, which are started again, and of orphans, which nobody else waits for.
    fn reap(self: Arc<Self>) {
        loop {
            match waitpid(None, None) {
                Ok(WaitStatus::Exited(pid, code)) => self.ended(pid, &format!("exit code {code}")),
                Ok(WaitStatus::Signaled(pid, signal, _)) => self.ended(pid, &format!("killed by {signal}")),
                Ok(_) => {}
                // No child at the moment.
                Err(_) => std::thread::sleep(Duration::from_millis(100)),
            }
        }
    }

    fn ended(self: &Arc<Self>, pid: Pid, how: &str) {
        // Nothing for orphans, which are of no program of ours.
        let Some(name) = lock(&self.running).remove(&pid.as_raw()) else { return };
        if !self.restart {
            self.log(&format!("{name} ended ({how})"));
            return self.tell_end(&name, how);
        }
        self.log(&format!("{name} ended; starting it again"));
        let programs = Arc::clone(self);
        std::thread::spawn(move || {
            std::thread::sleep(RESTART_DELAY);
            programs.start(&name);
        });
    }

    fn tell_end(&self, name: &str, how: &str) {
        if !self.restart {
            // Whoever cannot be told is gone, and we end soon.
            let _ = writeln!(std::io::stdout(), "ended {name} {}", how.replace('\n', " "));
        }
    }

    fn log(&self, text: &str) {
        let line = format!("{} {text}\n", jiff::Timestamp::now());
        let file = OpenOptions::new().create(true).append(true).open(self.log_dir.join("init.log"));
        // There is nobody to tell when the log itself cannot be written.
        let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
