//! What has to be in a Slurm machine's files before its daemons start: users, keys, directories, configuration.

use std::fs::{self, OpenOptions, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::daemons::{self, REST_USER};
use super::{SlurmMachine, conf};

/// Who runs jobs.
pub(super) const JOB_USER: &str = "tester";
const JOB_USER_ID: u32 = 1000;
/// An address that leads nowhere.
const ADDRESS: &str = "10.9.0.1/24";
const REST_USER_ID: u32 = 64031;

/// Puts everything in place. The image's own files tell the ids of its users, which differ between images.
pub(super) fn prepare(machine: &SlurmMachine) -> Result<()> {
    machine.exec(&["ip", "link", "set", "lo", "up"])?;
    // Slurm asks the resolver for kinds of addresses that an interface beside loopback has, and does not start without one.
    machine.exec(&["ip", "link", "add", "eth0", "type", "bridge"])?;
    machine.exec(&["ip", "address", "add", ADDRESS, "dev", "eth0"])?;
    machine.exec(&["ip", "link", "set", "eth0", "up"])?;
    let mut hosts = format!("127.0.0.1 localhost {}\n", conf::HOST_NAME);
    for node in machine.nodes() {
        hosts.push_str(&format!("127.0.0.1 {node}\n"));
    }
    fs::write(machine.path("/etc/hosts"), hosts)?;
    add_user(machine, JOB_USER, JOB_USER_ID)?;
    add_user(machine, REST_USER, REST_USER_ID)?;

    directory(machine, "/run/slurm", "slurm")?;
    directory(machine, conf::STATE, "slurm")?;
    directory(machine, daemons::REST_DIRECTORY, REST_USER)?;
    for node in machine.nodes() {
        directory(machine, &format!("/var/spool/slurmd-{node}"), "root")?;
    }
    key(machine, "/etc/munge/munge.key", "munge")?;
    key(machine, conf::JWT_KEY, "slurm")?;
    for (name, text) in conf::files(machine.options()) {
        machine.write_conf(&name, &text)?;
    }
    if machine.options().accounting {
        let file = machine.path(&format!("{}{}", daemons::DATABASE_ROOT, daemons::DATABASE_INIT_FILE));
        fs::write(file, daemons::database_init_sql())?;
    }
    Ok(())
}

/// Gives a file to one of the machine's own users.
pub(super) fn give_to(machine: &SlurmMachine, path: &Path, user: &str, mode: u32) -> Result<()> {
    let (uid, gid) = ids(machine, user)?;
    std::os::unix::fs::chown(path, Some(uid), Some(gid))?;
    Ok(fs::set_permissions(path, Permissions::from_mode(mode))?)
}

fn directory(machine: &SlurmMachine, inside: &str, owner: &str) -> Result<()> {
    let path = machine.path(inside);
    fs::create_dir_all(&path).with_context(|| format!("cannot make {inside}"))?;
    give_to(machine, &path, owner, 0o755)
}

fn key(machine: &SlurmMachine, inside: &str, owner: &str) -> Result<()> {
    let path = machine.path(inside);
    let mut random = [0_u8; 64];
    std::io::Read::read_exact(&mut fs::File::open("/dev/urandom")?, &mut random)?;
    fs::write(&path, random).with_context(|| format!("cannot write {inside}"))?;
    give_to(machine, &path, owner, 0o600)
}

fn add_user(machine: &SlurmMachine, name: &str, id: u32) -> Result<()> {
    append(&machine.path("/etc/passwd"), &format!("{name}:x:{id}:{id}::/home/{name}:/bin/bash\n"))?;
    append(&machine.path("/etc/group"), &format!("{name}:x:{id}:\n"))?;
    directory(machine, &format!("/home/{name}"), name)
}

fn append(path: &Path, text: &str) -> Result<()> {
    Ok(OpenOptions::new().append(true).open(path)?.write_all(text.as_bytes())?)
}

/// User and group id of a user, from the machine's passwd.
fn ids(machine: &SlurmMachine, user: &str) -> Result<(u32, u32)> {
    let passwd = fs::read_to_string(machine.path("/etc/passwd"))?;
    for line in passwd.lines() {
        let fields: Vec<&str> = line.split(':').collect();
        if let [name, _, uid, gid, ..] = fields[..]
            && name == user
        {
            return Ok((uid.parse()?, gid.parse()?));
        }
    }
    bail!("the image of Slurm {} has no user {user}", machine.version())
}
