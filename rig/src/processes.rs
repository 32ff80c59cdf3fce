//! Child processes that end with this process, whatever ends it.

use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, OnceLock, PoisonError};

use anyhow::{Context, Result, anyhow};

use crate::components::Program;

type Reply = Sender<io::Result<Child>>;

/// Starts `program` with its output in `log`. The kernel kills it when this process ends, also by SIGKILL.
pub fn spawn_bound(program: &Program, log: &Path) -> Result<Child> {
    let log = OpenOptions::new().create(true).append(true).open(log)?;
    let mut command = bound();
    command.args(&program.command).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    spawn_from_lasting_thread(command).with_context(|| format!("cannot start {}", program.name))
}

/// The beginning of a command that the kernel kills when the thread that starts it ends, and so with this process, also by
/// SIGKILL. The program and its arguments follow.
pub fn bound() -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]);
    command
}

/// Starts `command` from a thread that lives as long as this process, for children that end with their parent.
pub fn spawn_from_lasting_thread(command: Command) -> Result<Child> {
    let (reply, answer) = channel();
    spawner()
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .send((command, reply))
        .map_err(|_| anyhow!("the thread that starts processes is gone"))?;
    Ok(answer.recv().context("the thread that starts processes is gone")??)
}

/// The kernel watches the *thread* that started a child, and a test's thread ends long before the process does.
/// So one thread that never ends starts them all.
fn spawner() -> &'static Mutex<Sender<(Command, Reply)>> {
    static SPAWNER: OnceLock<Mutex<Sender<(Command, Reply)>>> = OnceLock::new();
    SPAWNER.get_or_init(|| {
        let (jobs, queue): (_, Receiver<(Command, Reply)>) = channel();
        std::thread::spawn(move || {
            for (mut command, reply) in queue {
                // A caller that went away does not want the child; dropping the handle leaves it to the kernel.
                let _ = reply.send(command.spawn());
            }
        });
        Mutex::new(jobs)
    })
}

/// Whether a process runs. One that has ended and waits for its parent to notice does not: some machines' process 1 takes
/// its time.
pub fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The state stands behind the name, which may hold brackets.
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

/// The last lines of a log, for an error message.
pub fn tail(log: &Path, lines: usize) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::time::Duration;

    /// Runs `command`, which writes to `beat` as long as it goes on, below a process that is killed after `meanwhile`.
    pub(crate) fn assert_ends_with_its_parent(command: &Command, beat: &Path, meanwhile: impl FnOnce()) {
        // Who is not root may be it in a user namespace.
        let as_root: &[&str] =
            if nix::unistd::geteuid().is_root() { &[] } else { &["unshare", "--user", "--map-root-user"] };
        // A shell stands for this program.
        let mut parent = Command::new("sh");
        parent.args(["-c", "\"$@\"; true", "sh"]).args(as_root);
        parent.arg(command.get_program()).args(command.get_args()).stdin(Stdio::null());
        for (name, value) in command.get_envs() {
            value.map(|value| parent.env(name, value));
        }
        let mut parent = parent.spawn().unwrap();
        let size = || std::fs::metadata(beat).map_or(0, |facts| facts.len());
        let started = (0..100).any(|_| {
            std::thread::sleep(Duration::from_millis(100));
            size() > 0
        });
        meanwhile();
        parent.kill().unwrap();
        parent.wait().unwrap();
        assert!(started, "it never started");
        std::thread::sleep(Duration::from_millis(500));
        let after = size();
        std::thread::sleep(Duration::from_millis(500));
        assert_eq!(size(), after, "it goes on");
    }

    /// A folder with a program of this name that writes to `beat` for ten seconds and cares for no signal, and a PATH with it.
    pub(crate) fn beating_program(name: &str) -> (tempfile::TempDir, String, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let script = "trap '' TERM; for _ in $(seq 100); do echo >> \"${0%/*}/beat\"; sleep 0.1; done";
        write_program(&dir.path().join(name), script);
        let path = format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", dir.path().display());
        let beat = dir.path().join("beat");
        (dir, path, beat)
    }

    /// Makes a program of a shell script. Another process writes it: what a test beside us starts at this moment would
    /// inherit our open file, and what is open for writing cannot be run.
    pub(crate) fn write_program(file: &Path, script: &str) {
        let mut writer = Command::new("sh");
        writer.args(["-c", "printf '#!/bin/sh\\n%s\\n' \"$1\" > \"$2\" && chmod 755 \"$2\"", "sh", script]);
        assert!(writer.arg(file).status().unwrap().success());
    }

    #[test]
    fn a_process_that_nobody_waited_for_is_not_alive() {
        let mut child = Command::new("sleep").arg("100").spawn().unwrap();
        assert!(is_alive(child.id()));
        child.kill().unwrap();
        let ended = (0..500).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            !is_alive(child.id())
        });
        assert!(ended && std::path::Path::new(&format!("/proc/{}", child.id())).exists(), "a zombie");
        child.wait().unwrap();
        assert!(!is_alive(child.id()));
    }
}
