//! What `/proc` tells: live job steps, sessions of users, ports that somebody listens on.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use nix::unistd::Pid;

/// The step of a slurmstepd that has not called itself by it yet.
const UNNAMED: &str = "unknown";

/// A process, as far as we look at it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Process {
    pid: i32,
    parent: i32,
    /// The name of its program, at most 15 characters.
    name: String,
    /// What it calls itself, or its arguments.
    title: String,
    /// Whether a child of it has ended.
    had_child: bool,
}

fn processes() -> Vec<Process> {
    let ids = fs::read_dir("/proc").into_iter().flatten().flatten();
    ids.filter_map(|item| process(&item.path())).collect()
}

fn process(directory: &Path) -> Option<Process> {
    let pid = directory.file_name()?.to_str()?.parse().ok()?;
    let stat = fs::read_to_string(directory.join("stat")).ok()?;
    let (name, rest) = name_and_rest(&stat)?;
    let mut rest = rest.split_whitespace();
    let (state, parent) = (rest.next()?, rest.next()?.parse().ok()?);
    if state == "Z" {
        return None;
    }
    // Page faults of children that were waited for: no process runs without one.
    let had_child = rest.nth(6)? != "0";
    let title = fs::read(directory.join("cmdline")).unwrap_or_default();
    let title = String::from_utf8_lossy(&title).replace('\0', " ").trim_end().to_owned();
    Some(Process { pid, parent, name: name.to_owned(), title, had_child })
}

/// The name, which may hold anything, and what follows it.
fn name_and_rest(stat: &str) -> Option<(&str, &str)> {
    let (_, rest) = stat.split_once('(')?;
    rest.rsplit_once(')')
}

/// Job steps of this node, e.g. `17.0` or `17.batch`, sorted.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct JobSteps {
    /// Those that have a slurmstepd.
    pub all: Vec<String>,
    /// Those of them that have nothing left to do but to tell slurmctld that they have ended. slurmstepd lives until it has, also
    /// if slurmctld never comes back.
    pub ended: Vec<String>,
}

/// Job steps that live on this node.
pub fn job_steps() -> JobSteps {
    steps_in(&processes())
}

fn steps_in(processes: &[Process]) -> JobSteps {
    let step = |process: &Process| {
        let unnamed = || is_stepd(process).then(|| UNNAMED.to_owned());
        step_of(&process.title).or_else(unnamed)
    };
    let (mut all, mut living) = (BTreeSet::new(), BTreeSet::new());
    for stepd in processes {
        let Some(step) = step(stepd) else { continue };
        if !has_ended(stepd, &step, processes) {
            living.insert(step.clone());
        }
        all.insert(step);
    }
    let ended = all.difference(&living).cloned().collect();
    JobSteps { all: all.into_iter().collect(), ended }
}

/// Whether nothing of a step runs any more. One that has not started its tasks yet has not ended. The step that only holds the
/// place of a job, and would be ended by slurmctld, runs a sleep.
fn has_ended(stepd: &Process, step: &str, processes: &[Process]) -> bool {
    let mut children = processes.iter().filter(|process| process.parent == stepd.pid);
    if step.ends_with(".extern") {
        return children.all(|child| child.title.starts_with("sleep "));
    }
    stepd.had_child && children.next().is_none()
}

/// slurmstepd calls itself `slurmstepd: [17.batch]`, and `slurmstepd: [17.0] sleeping` or the like at times.
fn step_of(title: &str) -> Option<String> {
    let (step, _) = title.strip_prefix("slurmstepd: [")?.split_once(']')?;
    Some(step.to_owned())
}

/// Whether a process holds a job step. The slurmstepd that slurmd keeps for itself (`slurmstepd infinity`) does not.
fn is_stepd(process: &Process) -> bool {
    process.name == "slurmstepd" && !process.title.ends_with("infinity")
}

/// Sessions of users that are open.
pub fn sessions() -> u32 {
    count_sessions(&processes())
}

/// Every connection that has logged in is a process of its own, called `sshd: USER [priv]` or, since OpenSSH 9.8,
/// `sshd-session: USER [priv]`; root's has no child of less power and is `sshd: root@pts/0` or `sshd: root@notty` itself.
fn count_sessions(processes: &[Process]) -> u32 {
    let user = |process: &&Process| {
        let title =
            ["sshd: ", "sshd-session: "].iter().find_map(|prefix| process.title.strip_prefix(prefix))?;
        // The listener, and connections that have not logged in yet.
        let waits = title.contains("[listener]")
            || title.contains("startups")
            || title.contains("[accepted]")
            || title.contains("[preauth]")
            || title.contains("[net]")
            || title.starts_with("unknown ")
            || title.starts_with('/');
        (!waits).then_some(())
    };
    let open: Vec<&Process> = processes.iter().filter(|process| user(process).is_some()).collect();
    // The process of less power is a child of its monitor: together they are one session.
    let is_child = |process: &&&Process| open.iter().any(|other| other.pid == process.parent);
    let sessions = open.iter().filter(|process| !is_child(process)).filter(|process| {
        let child_waits = |child: &&Process| child.parent == process.pid && child.title.contains("[net]");
        !processes.iter().any(|child| child_waits(&child))
    });
    u32::try_from(sessions.count()).unwrap_or(u32::MAX)
}

/// Whether somebody of this pod listens on a TCP port.
pub fn listens(port: u16) -> bool {
    ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .any(|table| listens_in(&fs::read_to_string(table).unwrap_or_default(), port))
}

fn listens_in(table: &str, port: u16) -> bool {
    const LISTEN: &str = "0A";
    table.lines().skip(1).any(|line| {
        let mut words = line.split_whitespace().skip(1);
        let local = words.next().and_then(|local| local.rsplit_once(':')).map(|(_, port)| port);
        local.is_some_and(|hex| u16::from_str_radix(hex, 16) == Ok(port)) && words.nth(1) == Some(LISTEN)
    })
}

/// Something that changes when a process executes a program anew, also the same one: where the kernel put its stack.
pub fn execution(pid: Pid) -> Option<Vec<u8>> {
    fs::read(format!("/proc/{pid}/auxv")).ok().filter(|auxv| !auxv.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: i32, parent: i32, title: &str) -> Process {
        Process { pid, parent, name: String::new(), title: title.into(), had_child: false }
    }

    #[test]
    fn a_slurmstepd_that_has_no_name_yet_counts_too() {
        let stepd = |title: &str| Process { name: "slurmstepd".into(), ..process(1, 1, title) };
        let all = [
            stepd("slurmstepd: [2.0]"),
            stepd("/usr/sbin/slurmstepd"),
            stepd("/usr/sbin/slurmstepd infinity"),
        ];
        assert_eq!(steps_in(&all).all, ["2.0", "unknown"]);
        assert_eq!(steps_in(&all[2..]), JobSteps::default());
    }

    #[test]
    fn a_step_has_ended_when_its_processes_have_not_when_it_has_none_yet() {
        let stepd = |pid, title: &str, had_child| Process { had_child, ..process(pid, 1, title) };
        let all = [
            stepd(10, "slurmstepd: [1.batch]", true),
            stepd(20, "slurmstepd: [2.batch]", false),
            stepd(30, "slurmstepd: [3.0]", true),
            process(31, 30, "python train.py"),
            stepd(40, "slurmstepd: [4.extern]", false),
            process(41, 40, "sleep 100000000"),
            stepd(50, "slurmstepd: [5.extern]", true),
            process(51, 50, "sleep infinity"),
            process(52, 50, "sshd: alice@pts/0"),
            // Two processes of one step: it lives as long as one of them works.
            stepd(60, "slurmstepd: [6.0]", true),
            stepd(61, "slurmstepd: [6.0]", false),
        ];
        let steps = steps_in(&all);
        assert_eq!(steps.ended, ["1.batch", "4.extern"]);
        assert_eq!(steps.all, ["1.batch", "2.batch", "3.0", "4.extern", "5.extern", "6.0"]);
    }

    #[test]
    fn sessions_are_logins_not_processes() {
        let of_9_2 = [
            process(10, 1, "sshd: /usr/sbin/sshd -D -e [listener] 1 of 10-100 startups"),
            process(20, 10, "sshd: alice [priv]"),
            process(21, 20, "sshd: alice@pts/0"),
            process(22, 21, "-bash"),
            process(30, 10, "sshd: root@notty"),
            process(40, 10, "sshd: bob [priv]"),
            process(41, 40, "sshd: bob@notty"),
            process(50, 10, "sshd: [accepted]"),
            process(60, 10, "sshd: unknown [priv]"),
            process(61, 60, "sshd: unknown [net]"),
            process(70, 10, "sshd: carol [priv]"),
            process(71, 70, "sshd: carol [net]"),
        ];
        assert_eq!(count_sessions(&of_9_2), 3, "alice, root and bob; carol gives her key only now");
        let of_9_9 = [
            process(10, 1, "sshd: /usr/sbin/sshd -D -e [listener] 0 of 10-100 startups"),
            process(20, 10, "sshd-session: alice [priv]"),
            process(21, 20, "sshd-session: alice@pts/0"),
            process(30, 10, "sshd-session: [accepted]"),
        ];
        assert_eq!(count_sessions(&of_9_9), 1);
        assert_eq!(count_sessions(&[process(5, 1, "/usr/bin/sshd: fake")]), 0);
    }

    #[test]
    fn steps_are_read_from_what_slurmstepd_calls_itself() {
        assert_eq!(step_of("slurmstepd: [17.batch]").as_deref(), Some("17.batch"));
        assert_eq!(step_of("slurmstepd: [17.0] sleeping").as_deref(), Some("17.0"));
        assert_eq!(step_of("/usr/sbin/slurmstepd infinity"), None);
        assert_eq!(step_of("bash slurmstepd: [17.0]"), None);
    }

    #[test]
    fn a_name_with_brackets_does_not_shift_what_follows() {
        assert_eq!(name_and_rest("12 (a) b) S 1 2"), Some(("a) b", " S 1 2")));
    }

    #[test]
    fn a_port_that_is_only_connected_to_does_not_listen() {
        let table = "  sl  local_address rem_address   st\n   0: 00000000:1AA1 00000000:0000 0A 0\n   1: 0100007F:1AA2 0100007F:1AA1 01 0\n";
        assert!(listens_in(table, 0x1AA1));
        assert!(!listens_in(table, 0x1AA2));
    }

    #[test]
    fn this_very_process_is_seen() {
        let had_child = || {
            let of_all = processes();
            of_all.iter().find(|process| process.pid == Pid::this().as_raw()).map(|this| this.had_child)
        };
        assert!(std::process::Command::new("true").status().unwrap().success());
        assert_eq!(had_child(), Some(true));
        assert!(processes().iter().any(|process| process.pid == Pid::this().as_raw()));
        assert_eq!(execution(Pid::this()), execution(Pid::this()));
    }
}
