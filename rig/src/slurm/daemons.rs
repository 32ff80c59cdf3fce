//! Command lines of the daemons. Pure.

use super::conf::{DATABASE_PASSWORD, DATABASE_USER};
use crate::components::Program;

pub(super) const MUNGED: &str = "munged";
pub(super) const MARIADBD: &str = "mariadbd";
pub(super) const SLURMDBD: &str = "slurmdbd";
pub(super) const SLURMCTLD: &str = "slurmctld";
pub(super) const SLURMRESTD: &str = "slurmrestd";

pub(super) const REST_PORT: u16 = 6820;
pub(super) const REST_DIRECTORY: &str = "/run/slurmrestd";
pub(super) const REST_SOCKET: &str = "/run/slurmrestd/slurmrestd.socket";
/// Where MariaDB's own root file system shows.
pub const DATABASE_ROOT: &str = "/mariadb";
/// SQL that MariaDB runs when it starts, as seen in its own root.
pub(super) const DATABASE_INIT_FILE: &str = "/etc/rig-init.sql";

/// A user who runs slurmrestd: neither root nor SlurmUser, because it would act with their power for everyone.
pub(super) const REST_USER: &str = "slurmrestd";

fn program(name: &str, command: &[&str]) -> Program {
    Program { name: name.into(), command: command.iter().map(ToString::to_string).collect() }
}

/// What `command` is as `user`.
pub(super) fn as_user<'a>(user: &'a str, command: &[&'a str]) -> Vec<&'a str> {
    let mut all = vec!["/usr/bin/setpriv", "--reuid", user, "--regid", user, "--init-groups", "--"];
    all.extend(command);
    all
}

pub(super) fn munged() -> Program {
    program(MUNGED, &as_user("munge", &["/usr/sbin/munged", "--foreground"]))
}

/// Makes MariaDB's system tables.
pub(super) fn install_database() -> Vec<&'static str> {
    vec![
        "chroot",
        DATABASE_ROOT,
        "mariadb-install-db",
        "--no-defaults",
        "--force",
        "--user=mysql",
        "--datadir=/var/lib/mysql",
        "--auth-root-authentication-method=normal",
        "--skip-name-resolve",
        "--skip-test-db",
        "--innodb-log-file-size=8M",
    ]
}

pub(super) fn mariadbd() -> Program {
    let init_file = format!("--init-file={DATABASE_INIT_FILE}");
    program(
        MARIADBD,
        &[
            "/usr/sbin/chroot",
            DATABASE_ROOT,
            "/usr/sbin/mariadbd",
            "--no-defaults",
            "--user=mysql",
            "--datadir=/var/lib/mysql",
            "--socket=/run/mysqld/mysqld.sock",
            "--bind-address=127.0.0.1",
            "--skip-name-resolve",
            "--innodb-log-file-size=8M",
            "--innodb-buffer-pool-size=32M",
            // All is in memory and thrown away.
            "--innodb-flush-log-at-trx-commit=0",
            &init_file,
        ],
    )
}

/// What MariaDB has to know before slurmdbd comes.
///
/// slurmdbd makes the database itself if it is missing, and tries to connect again. With libmariadb 11.8.9, that of our
/// image of 26.05, the second attempt forgets its options, and then every query fails with error 5027.
pub(super) fn database_init_sql() -> String {
    format!(
        "CREATE DATABASE IF NOT EXISTS slurm_acct_db;\n\
         CREATE USER IF NOT EXISTS '{DATABASE_USER}'@'127.0.0.1' IDENTIFIED BY '{DATABASE_PASSWORD}';\n\
         GRANT ALL ON slurm_acct_db.* TO '{DATABASE_USER}'@'127.0.0.1';\n"
    )
}

pub(super) fn slurmdbd() -> Program {
    program(SLURMDBD, &["/usr/sbin/slurmdbd", "-D"])
}

pub(super) fn slurmctld() -> Program {
    // -i: there is no old state, and the first start is no accident.
    program(SLURMCTLD, &["/usr/sbin/slurmctld", "-D", "-i"])
}

/// The slurmd of a node, which is called as the node.
pub(super) fn slurmd(node: &str) -> Program {
    program(&slurmd_name(node), &["/usr/sbin/slurmd", "-D", "-N", node])
}

pub(super) fn slurmd_name(node: &str) -> String {
    format!("slurmd-{node}")
}

pub(super) fn slurmrestd(accounting: bool) -> Program {
    let plugins = if accounting { "openapi/slurmctld,openapi/slurmdbd" } else { "openapi/slurmctld" };
    let (port, socket) = (format!("127.0.0.1:{REST_PORT}"), format!("unix:{REST_SOCKET}"));
    let command = ["/usr/sbin/slurmrestd", "-a", "rest_auth/jwt", "-s", plugins, &port, &socket];
    // It proves who its callers are by their tokens, and has no key of its own.
    program(SLURMRESTD, &[&["/usr/bin/env", "SLURM_JWT=daemon"][..], &as_user(REST_USER, &command)].concat())
}
