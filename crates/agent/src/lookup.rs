//! Users and hosts, by the image's own `getent`: a static program has no name services of its own.

use std::net::{IpAddr, SocketAddr, TcpStream};
use std::process::Command;
use std::time::Duration;

use crate::children::Children;
use crate::programs;

const PATIENCE: Duration = Duration::from_secs(20);
const CONNECT: Duration = Duration::from_secs(2);

/// Ids of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User {
    /// The user's id.
    pub uid: u32,
    /// Its group's id.
    pub gid: u32,
}

/// Root.
pub const ROOT: User = User { uid: 0, gid: 0 };

fn getent(children: &Children, database: &str, key: &str) -> Option<String> {
    let mut command = programs::find("getent").map(Command::new)?;
    let printed = children.run(command.args([database, key]), PATIENCE).ok()?;
    printed.ended.well().then_some(printed.stdout)
}

/// A user by name or number.
///
/// # Errors
///
/// There is no such user.
pub fn user(children: &Children, name: &str) -> Result<User, String> {
    let lines = getent(children, "passwd", name)
        .or_else(|| std::fs::read_to_string("/etc/passwd").ok())
        .unwrap_or_default();
    user_in(&lines, name).ok_or_else(|| format!("the image has no user {name}"))
}

fn user_in(passwd: &str, name: &str) -> Option<User> {
    passwd.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let [known, _, uid, gid, ..] = fields[..] else { return None };
        if known != name && uid != name {
            return None;
        }
        Some(User { uid: uid.parse().ok()?, gid: gid.parse().ok()? })
    })
}

/// Addresses of a host.
pub fn addresses(children: &Children, host: &str) -> Vec<IpAddr> {
    if let Ok(address) = host.parse() {
        return vec![address];
    }
    addresses_in(&getent(children, "ahosts", host).unwrap_or_default())
}

fn addresses_in(ahosts: &str) -> Vec<IpAddr> {
    let mut addresses = Vec::new();
    for address in ahosts.lines().filter_map(|line| line.split_whitespace().next()?.parse().ok()) {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    addresses
}

/// Whether somebody listens there.
///
/// # Errors
///
/// Nobody does, and why, as a sentence.
pub fn listens(children: &Children, host: &str, port: u16) -> Result<(), String> {
    let addresses = addresses(children, host);
    let mut reason = format!("{host} has no address yet");
    for address in addresses {
        match TcpStream::connect_timeout(&SocketAddr::new(address, port), CONNECT) {
            Ok(_) => return Ok(()),
            Err(error) => reason = format!("{host}:{port} does not answer: {error}"),
        }
    }
    Err(reason)
}

/// `HOST:PORT`, or a host with the default port.
pub fn host_and_port(text: &str, default: u16) -> (String, u16) {
    match text.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') => match port.parse() {
            Ok(port) => (host.to_owned(), port),
            Err(_) => (text.to_owned(), default),
        },
        _ => (text.trim_matches(['[', ']']).to_owned(), default),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_name_and_by_number() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nslurm:x:64030:64031::/:/bin/false\nbroken:x\n";
        let slurm = User { uid: 64030, gid: 64031 };
        assert_eq!(user_in(passwd, "slurm"), Some(slurm));
        assert_eq!(user_in(passwd, "64030"), Some(slurm));
        assert_eq!(user_in(passwd, "broken"), None);
        assert_eq!(user_in(passwd, "slur"), None);
    }

    #[test]
    fn addresses_come_once_each() {
        let printed = "10.0.0.1 STREAM name\n10.0.0.1 DGRAM\nfe80::1 STREAM\nnonsense\n";
        let found: Vec<String> = addresses_in(printed).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["10.0.0.1", "fe80::1"]);
    }

    #[test]
    fn a_port_may_be_missing_and_an_address_may_have_colons() {
        assert_eq!(host_and_port("a.b:6818", 6817), ("a.b".into(), 6818));
        assert_eq!(host_and_port("a.b", 6817), ("a.b".into(), 6817));
        assert_eq!(host_and_port("fe80::1", 6817), ("fe80::1".into(), 6817));
    }
}
