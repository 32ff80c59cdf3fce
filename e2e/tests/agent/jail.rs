//! Login and worker pods with a jail: they wait for it, complete it with what is theirs, and know its users; daemons know its
//! users too, and none of them becomes one of theirs.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use rig::slurm::Version;
use slurm::agent::{command, env};

use crate::for_both_versions;
use crate::lab::{CONTROLLER, Container, JAIL_IMAGE, LOGIN, Lab};

for_both_versions!(
    users_of_a_login_pod_live_in_the_jail,
    a_worker_completes_the_jail_again_after_each_start,
    daemons_know_the_users_of_the_jail_and_nobody_gains_power,
);

const SSHD_CONFIG: &str = "\
Port 22
PermitRootLogin yes
PasswordAuthentication no
UsePAM yes
Subsystem sftp internal-sftp
HostKey /etc/ssh/sshd_keys/ssh_host_ed25519_key
ChrootDirectory /mnt/jail
AuthorizedKeysFile /mnt/jail%h/.ssh/authorized_keys
Match User root
    AuthorizedKeysFile /root/.ssh/authorized_keys
";
const ROOT: [(&str, &str); 1] = [(env::JAIL, "root")];
const MARKER: &str = "jail/.soperator-jail.json";
const JOURNAL: &str = "jail/.soperator-jail.partial";
/// Who would like to be somebody else.
const MALLORY: &str = "\
root:x:0:0::/root:/bin/bash
toor:x:0:0::/root:/bin/bash
slurm:x:5001:5001::/:/bin/bash
mallory:x:64030:5002::/:/bin/bash
";

/// A jail as an image would have filled it, but for the very last steps.
fn jail(lab: &Lab) -> Result<()> {
    lab.jail_image()?;
    lab.machine().exec(&["cp", "--archive", JAIL_IMAGE, "/pods/jail"])?;
    fs::write(lab.path(JOURNAL), "")?;
    fs::create_dir_all(lab.path("jail/home/alice/.ssh"))?;
    add_users(
        lab,
        "alice:x:5000:5000:Alice:/home/alice:/bin/bash\n",
        "alice:x:5000:\nlab:x:5100:alice,root\n",
    )
}

fn add_users(lab: &Lab, passwd: &str, group: &str) -> Result<()> {
    for (name, lines) in [("passwd", passwd), ("group", group)] {
        let file = lab.path(&format!("jail/etc/{name}"));
        let text = fs::read_to_string(&file)? + lines;
        fs::write(&file, text)?;
    }
    Ok(())
}

fn complete(lab: &Lab) -> Result<()> {
    fs::write(lab.path(MARKER), "{\"version\":1}\n")?;
    Ok(fs::remove_file(lab.path(JOURNAL))?)
}

/// Makes a key pair on the machine and gives its private and public part.
fn key_pair(lab: &Lab, name: &str) -> Result<(Vec<u8>, Vec<u8>)> {
    let file = format!("/tmp/{name}");
    lab.machine().exec(&["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", &file])?;
    let read = |file: &str| fs::read(lab.machine().path(file)).context("no key");
    Ok((read(&file)?, read(&format!("{file}.pub"))?))
}

fn login(lab: &Lab) -> Result<Container<'_>> {
    let (private, public) = key_pair(lab, "host")?;
    lab.mount("sshd-keys", &[("ssh_host_ed25519_key", &private), ("ssh_host_ed25519_key.pub", &public)])?;
    let (_, user) = key_pair(lab, "user")?;
    lab.mount("ssh-root-keys", &[("authorized_keys", &user)])?;
    lab.mount("ssh-configs", &[("sshd_config", SSHD_CONFIG.as_bytes())])?;
    fs::write(lab.path("jail/home/alice/.ssh/authorized_keys"), &user)?;
    lab.machine().exec(&["chown", "-R", "5000:5000", "/pods/jail/home/alice"])?;
    lab.pod(&LOGIN)?;
    fs::write(lab.volume("data")?.join("file"), "of the volume")?;
    lab.container(
        &LOGIN,
        command::LOGIN,
        &ROOT,
        &[
            ("ssh-configs", "/mnt/ssh-configs"),
            ("sshd-keys", "/mnt/sshd-keys"),
            ("ssh-root-keys", "/mnt/ssh-root-keys"),
            ("jail", "/mnt/jail"),
            ("data", "/mnt/jail.upper/shared data/set"),
        ],
    )
}

/// ssh of this machine in the network of the pods.
fn ssh(lab: &Lab, user: &str, script: &str) -> Result<String> {
    let mut command = Command::new("nsenter");
    command.args(["--target", &lab.machine().pid().to_string(), "--net", "ssh", "-F", "none", "-i"]);
    command.arg(lab.machine().path("/tmp/user"));
    command.args(["-oStrictHostKeyChecking=no", "-oUserKnownHostsFile=/dev/null", "-oBatchMode=yes"]);
    command.args(["-oIdentitiesOnly=yes", &format!("{user}@10.9.0.61"), script]);
    e2e::output_of(&mut command, None)
}

/// Keeps the mounts of a container to be seen after its end.
struct Witness {
    child: Child,
}

impl Witness {
    fn of(container: &Container<'_>, lab: &Lab) -> Result<Self> {
        let words = ["nsenter", "--target", &container.pid()?, "--mount", "--", "sleep", "1000"];
        let witness = Self { child: lab.machine().command(&words).stdout(Stdio::null()).spawn()? };
        // It is there when it sees what the container does, which has mounts in its jail by now.
        container.wait_until("the witness is in the container", || Ok(!witness.mounts()?.is_empty()))?;
        Ok(witness)
    }

    /// Mounts inside the jail.
    fn mounts(&self) -> Result<Vec<String>> {
        let table = fs::read_to_string(format!("/proc/{}/mountinfo", self.process()?))?;
        let points = table.lines().filter_map(|line| line.split(' ').nth(4));
        let inside = points.filter_map(|point| Some(point.split_once("/mnt/jail/")?.1.to_owned()));
        Ok(inside.collect())
    }

    /// nsenter executes the command in its place, unless it had to fork.
    fn process(&self) -> Result<String> {
        let pid = self.child.id();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
        let child = children.split_whitespace().next().map(str::to_owned);
        Ok(child.unwrap_or_else(|| pid.to_string()))
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        if let Ok(process) = self.process() {
            let _ = Command::new("kill").arg(process).status();
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn users_of_a_login_pod_live_in_the_jail(version: Version) -> Result<()> {
    let lab = Lab::start(version)?;
    jail(&lab)?;
    add_users(&lab, MALLORY, "root:x:5003:alice\n")?;
    // Somebody with power in the jail planted a link where the pod mounts something.
    fs::remove_dir_all(lab.path("jail/tmp"))?;
    symlink("/etc/planted", lab.path("jail/tmp"))?;
    let login = login(&lab)?;
    login.wait_for_state("it waits for the jail", |state| {
        state.waiting_for.as_deref().is_some_and(|reason| reason.contains("the jail is not complete yet"))
    })?;
    assert!(ssh(&lab, "alice", "true").is_err(), "sshd does not run yet");
    complete(&lab)?;
    login.wait_until_ready()?;

    let said = ssh(
        &lab,
        "alice",
        "id; cat '/shared data/set/file'; pwd; ls /mnt; ls /proc/self/fd > /dev/null && echo proc",
    )?;
    for wanted in ["uid=5000(alice)", "5100(lab)", "of the volume", "/home/alice", "proc"] {
        assert!(said.contains(wanted), "{wanted} is not in {said}");
    }
    assert!(
        !said.contains("jail.upper") && !said.contains("slurm-configs"),
        "the pod's own files are not seen: {said}"
    );
    // The link leads to a place inside the jail, and nothing of the pod was mounted over.
    assert_eq!(login.exec(&["ls", "-d", "/mnt/jail/etc/planted"])?.trim(), "/mnt/jail/etc/planted");
    assert!(login.exec(&["test", "-e", "/etc/planted"]).is_err());
    assert!(login.exec(&["cat", "/etc/passwd"])?.starts_with("root:x:0:0:"));

    let said = ssh(&lab, "root", "id -u; ls -A /.soperator-jail.json; getent passwd toor | wc -l")?;
    assert_eq!(said, "0\n/.soperator-jail.json\n1\n", "the jail's own lookups are its own");
    let passwd = login.exec(&["cat", "/etc/passwd"])?;
    assert!(!passwd.contains("toor") && !passwd.contains("mallory"), "{passwd}");
    assert!(!login.exec(&["cat", "/etc/group"])?.contains("5003"));

    // Files go to the jail and back.
    assert_eq!(ssh(&lab, "alice", "echo written > note && cat note")?, "written\n");
    assert_eq!(fs::read_to_string(lab.path("jail/home/alice/note"))?, "written\n");

    let witness = Witness::of(&login, &lab)?;
    assert!(witness.mounts()?.iter().any(|mount| mount == "proc"), "{:?}", witness.mounts());
    login.stop()?;
    assert_eq!(witness.mounts()?, Vec::<String>::new(), "all mounts are undone");
    drop(witness);
    login.start()?;
    login.wait_until_ready()?;
    assert!(ssh(&lab, "alice", "cat '/shared data/set/file'")?.contains("of the volume"));
    Ok(())
}

fn a_worker_completes_the_jail_again_after_each_start(version: Version) -> Result<()> {
    let lab = Lab::start(version)?;
    jail(&lab)?;
    complete(&lab)?;
    // A jail without Slurm gets the image's.
    lab.machine().exec(&[
        "bash",
        "-c",
        "cd /pods/jail/usr && rm -r bin/srun lib/*/slurm-wlm; rm bin/s{control,queue,batch,info}",
    ])?;
    // A file where a directory should be is told, and waited for.
    fs::create_dir_all(lab.path("jail/var/spool"))?;
    fs::write(lab.path("jail/var/spool/slurmd"), "")?;
    let controller = lab.controller()?;
    let worker = lab.worker(&ROOT, &[("jail", "/mnt/jail")])?;
    worker.wait_for_state("it says what is in its way", |state| {
        let reason = state.waiting_for.as_deref().unwrap_or_default();
        reason.contains("cannot mount /var/spool/slurmd at /mnt/jail/var/spool/slurmd")
            && reason.contains("a file is where a directory should be")
    })?;
    assert!(!worker.state()?.running, "no job may come");
    fs::remove_file(lab.path("jail/var/spool/slurmd"))?;
    worker.wait_until_ready()?;
    controller.wait_for_node("worker-0", "IDLE+DYNAMIC_NORM")?;
    for start in 0..2 {
        let inside = |name: &str| worker.exec(&["stat", "--format=%d:%i", &format!("/mnt/jail{name}")]);
        for name in ["/dev", "/run", "/tmp", "/var/log", "/etc/hosts", "/var/spool/slurmd", "/run/munge"] {
            assert_eq!(
                inside(name)?,
                worker.exec(&["stat", "--format=%d:%i", name])?,
                "{name} in start {start}"
            );
        }
        let said = worker.exec(&[
            "chroot",
            "/mnt/jail",
            "stat",
            "--format=%a %n",
            "/var/cache/enroot-container-images",
        ])?;
        assert!(said.starts_with("1777 "), "{said}");
        // Each once, although the first start tried until it could.
        let mounts = worker.exec(&["cat", "/proc/self/mountinfo"])?;
        let count = mounts.lines().filter(|line| line.split(' ').nth(4) == Some("/mnt/jail/tmp")).count();
        assert_eq!(count, 1, "{mounts}");
        let said =
            worker.exec(&["chroot", "/mnt/jail", "sh", "-c", "id -un 5000 && munge -n | head -c 6"])?;
        assert_eq!(said, "alice\nMUNGE:");
        let conf = "SLURM_CONF=/var/spool/slurmd/conf-cache/slurm.conf";
        let said = worker.exec(&["chroot", "/mnt/jail", "env", conf, "scontrol", "ping"])?;
        assert!(said.contains(" is UP"), "{said}");
        let witness = Witness::of(&worker, &lab)?;
        worker.stop()?;
        assert_eq!(witness.mounts()?, Vec::<String>::new(), "all mounts are undone");
        worker.start()?;
        worker.wait_until_ready()?;
    }
    assert!(!lab.path("jail/run/munge").exists(), "what a pod mounts is not left in the jail");
    Ok(())
}

fn daemons_know_the_users_of_the_jail_and_nobody_gains_power(version: Version) -> Result<()> {
    let lab = Lab::start(version)?;
    jail(&lab)?;
    lab.pod(&CONTROLLER)?;
    let users = [(env::JAIL, "users")];
    let controller = lab.container(&CONTROLLER, command::SLURMCTLD, &users, &[("jail", "/mnt/jail")])?;
    // Without a marker: daemons do not wait for the jail.
    controller.wait_until_ready()?;
    let knows = |name: &str| controller.exec(&["getent", "passwd", name]).unwrap_or_default();
    assert_eq!(knows("alice"), "alice:*:5000:5000:Alice:/home/alice:/bin/bash\n");
    assert_eq!(controller.exec(&["getent", "group", "lab"])?, "lab:*:5100:alice\n");
    let (root, slurm) = (knows("root"), knows("slurm"));
    add_users(&lab, &format!("{MALLORY}bob:x:5005:5000::/home/bob:/bin/sh\n"), "slurm:x:5009:bob\n")?;
    controller.wait_until("bob is known", || Ok(!knows("bob").is_empty()))?;
    assert_eq!((knows("root"), knows("slurm")), (root, slurm));
    assert!(knows("mallory").is_empty() && knows("toor").is_empty() && knows("0").starts_with("root:"));
    for name in ["toor", "slurm", "mallory"] {
        let wanted = format!("the jail's user {name} is not taken");
        assert!(controller.logs().contains(&wanted), "{wanted}: {}", controller.logs());
    }
    // A user who is gone is gone.
    let passwd = lab.path("jail/etc/passwd");
    let without: String = fs::read_to_string(&passwd)?
        .lines()
        .filter(|line| !line.starts_with("bob:"))
        .fold(String::new(), |text, line| text + line + "\n");
    fs::write(&passwd, without)?;
    controller.wait_until("bob is not known", || Ok(knows("bob").is_empty()))?;
    controller.stop()
}
