//! mariadbd: makes its files at the first start, the database and the user at every start, and keeps the password true.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use slurm::agent::{env, path};

use super::keep::{Plan, keep};
use super::{RUN, variable};
use crate::agent::Agent;
use crate::daemon::Daemon;
use crate::files::{self, Watched};
use crate::lookup::{self, User};
use crate::programs;

/// Where slurmdbd looks.
pub const PORT: u16 = 3306;
const SOCKET: &str = "/run/mysqld/mysqld.sock";
/// Names of the same program in older images.
const SERVER: [&str; 2] = ["mariadbd", "mysqld"];
const CLIENT: [&str; 2] = ["mariadb", "mysql"];
const INSTALLER: [&str; 2] = ["mariadb-install-db", "mysql_install_db"];
const INSTALL_PATIENCE: Duration = Duration::from_secs(300);
const DEFAULT_DATABASE: &str = "slurm_acct_db";
const DEFAULT_USER: &str = "slurm";

struct Mariadb {
    passwords: Watched,
    /// New passwords that the server does not know yet.
    to_do: bool,
}

/// Runs mariadbd.
pub fn run(agent: &Agent) -> Result<(), String> {
    let passwords = Watched::new([path::DATABASE_PASSWORD, path::DATABASE_ROOT_PASSWORD]);
    keep(agent, "mariadbd", &mut Mariadb { passwords, to_do: false })
}

/// A command by the first of several names that the image has.
fn command(names: [&str; 2]) -> Result<Command, String> {
    let [first, second] = names;
    programs::command(first).or_else(|error| programs::command(second).map_err(|_| error))
}

/// Its files, below the mount: a fresh volume may have a `lost+found`, which the installer does not like.
fn data() -> PathBuf {
    Path::new(path::DATABASE).join("data")
}

impl Plan for Mariadb {
    fn command(&mut self, agent: &Agent) -> Result<Command, String> {
        let own = lookup::user(&agent.children, "mysql")?;
        let sockets = Path::new(SOCKET).parent().unwrap_or(Path::new("/run"));
        for directory in [Path::new(path::DATABASE), sockets] {
            files::make_directory(directory)
                .and_then(|()| files::give(directory, own))
                .map_err(|error| format!("cannot make {}: {error}", directory.display()))?;
        }
        install(agent, own)?;
        self.passwords.changed();
        self.to_do = false;
        let init = Path::new(RUN).join("mariadb/init.sql");
        files::write(&init, statements()?.as_bytes(), own, 0o600)?;
        let mut server = command(SERVER)?;
        server
            .arg(format!("--datadir={}", data().display()))
            .arg(format!("--socket={SOCKET}"))
            .arg(format!("--init-file={}", init.display()))
            .arg(format!("--port={PORT}"))
            // What slurmdbd asks for, and complains about else.
            .args(["--innodb-lock-wait-timeout=900", "--max-allowed-packet=16M", "--innodb-log-file-size=64M"])
            // With it, slurmdbd 26.05 ends when two transactions meet. Servers before 11.6 do not know it.
            .arg("--loose-innodb-snapshot-isolation=OFF")
            .args(["--user=mysql", "--bind-address=*", "--skip-name-resolve"]);
        Ok(server)
    }

    fn look(&mut self, agent: &Agent, daemon: &mut Daemon) {
        self.to_do |= self.passwords.changed();
        if !self.to_do || !daemon.runs() {
            return;
        }
        match change_passwords(agent) {
            Ok(()) => {
                agent.say("the passwords have changed");
                self.to_do = false;
            }
            Err(error) => agent.failed(&format!("cannot change the passwords: {error}")),
        }
    }

    fn stop_patience(&self) -> Duration {
        Duration::from_secs(60)
    }
}

/// Makes the files of an empty server, whole or not at all.
fn install(agent: &Agent, own: User) -> Result<(), String> {
    let (data, fresh) = (data(), Path::new(path::DATABASE).join("data.new"));
    if data.is_dir() {
        return Ok(());
    }
    agent.say("making the files of the database");
    let prepared = if fresh.exists() { fs::remove_dir_all(&fresh) } else { Ok(()) };
    prepared
        .and_then(|()| files::make_directory(&fresh))
        .and_then(|()| files::give(&fresh, own))
        .map_err(|error| format!("cannot make {}: {error}", fresh.display()))?;
    let mut installer = command(INSTALLER)?;
    // Root of this container is root of the server, by the socket and without a password.
    installer
        .args([
            "--user=mysql",
            "--auth-root-authentication-method=socket",
            "--skip-name-resolve",
            "--skip-test-db",
        ])
        .args(["--force", &format!("--datadir={}", fresh.display())]);
    let printed = agent.run(&mut installer, INSTALL_PATIENCE)?;
    if !printed.ended.well() {
        return Err(format!(
            "the database cannot be made: {} {}",
            printed.stdout.trim(),
            printed.stderr.trim()
        ));
    }
    fs::rename(&fresh, &data).map_err(|error| format!("cannot make {}: {error}", data.display()))
}

/// Tells the running server, by its socket.
fn change_passwords(agent: &Agent) -> Result<(), String> {
    let sql = Path::new(RUN).join("mariadb/change.sql");
    files::write(&sql, statements()?.as_bytes(), lookup::ROOT, 0o600)?;
    let mut client = command(CLIENT)?;
    // Not as an argument, which everybody in the pod could read.
    client.args(["--no-defaults", "--user=root", &format!("--socket={SOCKET}")]);
    client.args(["--execute", &format!("source {}", sql.display())]);
    let printed = agent.run(&mut client, Duration::from_secs(30));
    // It holds passwords.
    let _ = fs::remove_file(&sql);
    let printed = printed?;
    if printed.ended.well() { Ok(()) } else { Err(printed.stderr.trim().to_owned()) }
}

/// What the server has to know, one statement on each line.
fn statements() -> Result<String, String> {
    let database = variable(env::DATABASE_NAME).unwrap_or_else(|| DEFAULT_DATABASE.into());
    let user = variable(env::DATABASE_USER).unwrap_or_else(|| DEFAULT_USER.into());
    let password = read_password(path::DATABASE_PASSWORD)?
        .ok_or_else(|| format!("{} is not there", path::DATABASE_PASSWORD))?;
    Ok(sql(&database, &user, &password, read_password(path::DATABASE_ROOT_PASSWORD)?.as_deref()))
}

fn read_password(file: &str) -> Result<Option<String>, String> {
    let Ok(bytes) = fs::read(file) else { return Ok(None) };
    let text = String::from_utf8(bytes).map_err(|_| format!("{file} is not text"))?;
    let text = text.trim_end_matches(['\n', '\r']);
    if text.is_empty() || text.contains(char::is_control) {
        return Err(format!("{file} is empty or has control characters"));
    }
    Ok(Some(text.to_owned()))
}

fn sql(database: &str, user: &str, password: &str, root_password: Option<&str>) -> String {
    let (user, password) = (format!("{}@'%'", quoted(user)), quoted(password));
    let database = format!("`{}`", database.replace('`', "``"));
    let mut text = format!(
        "CREATE DATABASE IF NOT EXISTS {database};\n\
         CREATE USER IF NOT EXISTS {user} IDENTIFIED BY {password};\n\
         ALTER USER {user} IDENTIFIED BY {password};\n\
         GRANT ALL ON {database}.* TO {user};\n"
    );
    if let Some(root) = root_password {
        let root = quoted(root);
        text.push_str(&format!(
            "ALTER USER 'root'@'localhost' IDENTIFIED VIA unix_socket OR mysql_native_password USING PASSWORD({root});\n"
        ));
    }
    text
}

/// A text as a literal of SQL.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_cannot_leave_its_literal() {
        let text = sql("slurm_acct_db", "slurm", "a'b\\'; DROP DATABASE x; -- ", None);
        assert!(text.contains("IDENTIFIED BY 'a''b\\\\''; DROP DATABASE x; -- ';\n"), "{text}");
        assert_eq!(text.lines().count(), 4, "one statement on each line");
        assert!(sql("a`b", "u", "p", None).contains("DATABASE IF NOT EXISTS `a``b`;"));
    }
}
