//! What `/proc` tells: live job steps, sessions of users, ports that somebody listens on.

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
    let title = fs::read(directory.join("cmdline")).unwrap_or_default();
    let title = String::from_utf8_lossy(&title).replace('\0', " ").trim_end().to_owned();
    Some(Process { pid, parent, name: name.to_owned(), title })
}

/// The name, which may hold anything, and what follows it.
fn name_and_rest(stat: &str) -> Option<(&str, &str)> {
    let (_, rest) = stat.split_once('(')?;
    rest.rsplit_once(')')
}

/// Job steps that live on this node, e.g. `17.0` or `17.batch`.
pub fn job_steps() -> Vec<String> {
    steps_in(&processes())
}

fn steps_in(processes: &[Process]) -> Vec<String> {
    let step = |process: &Process| {
        let unnamed = || is_stepd(process).then(|| UNNAMED.to_owned());
        step_of(&process.title).or_else(unnamed)
    };
    let mut steps: Vec<String> = processes.iter().filter_map(step).collect();
    steps.sort();
    steps.dedup();
    steps
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
        Process { pid, parent, name: String::new(), title: title.into() }
    }

    #[test]
    fn a_slurmstepd_that_has_no_name_yet_counts_too() {
        let stepd = |title: &str| Process { name: "slurmstepd".into(), ..process(1, 1, title) };
        let all = [
            stepd("slurmstepd: [2.0]"),
            stepd("/usr/sbin/slurmstepd"),
            stepd("/usr/sbin/slurmstepd infinity"),
        ];
        assert_eq!(steps_in(&all), ["2.0", "unknown"]);
        assert_eq!(steps_in(&all[2..]), Vec::<String>::new());
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
        assert!(processes().iter().any(|process| process.pid == Pid::this().as_raw()));
        assert_eq!(execution(Pid::this()), execution(Pid::this()));
    }
}
