//! `soperator slurm` on real daemons, as a user types it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use rig::SlurmMachine;
use rig::slurm::{Options, Version};

/// The program, a cluster, and a key to it.
struct User {
    program: PathBuf,
    server: String,
    key: PathBuf,
}

/// What the program printed, and its exit code.
struct Said {
    code: i32,
    out: String,
    err: String,
}

impl User {
    fn run(&self, arguments: &[&str]) -> Result<Said> {
        let output = Command::new(&self.program).args(arguments).env_remove("SLURM_JWT").output()?;
        Ok(Said {
            code: output.status.code().context("an exit code")?,
            out: String::from_utf8(output.stdout)?,
            err: String::from_utf8(output.stderr)?,
        })
    }

    /// `soperator slurm COMMAND --server ... --key-file ...`
    fn slurm(&self, command: &str, arguments: &[&str]) -> Result<Said> {
        let key = self.key.to_str().context("a path")?;
        let common = ["slurm", command, "--server", &self.server, "--key-file", key];
        self.run(&[&common[..], arguments].concat())
    }

    fn done(&self, command: &str, arguments: &[&str]) -> Result<String> {
        let said = self.slurm(command, arguments)?;
        ensure!(said.code == 0, "{command} {arguments:?}: {} {}", said.code, said.err);
        Ok(said.out)
    }
}

/// The program: the one that `SOPERATOR_BIN` names, or built now.
fn program() -> Result<PathBuf> {
    match std::env::var_os("SOPERATOR_BIN") {
        Some(named) => Ok(named.into()),
        None => rig::build::cargo_program(&["--package", "soperator", "--bin", "soperator"]),
    }
}

fn the_command_works(version: Version) -> Result<()> {
    let slurm = SlurmMachine::start(Options::new(version))?;
    let folder = slurm.path("/tmp");
    let key = folder.join("jwt.key");
    std::fs::write(&key, slurm.jwt_key()?)?;
    let user = User { program: program()?, server: slurm.rest_url()?, key };

    let said = user.done("ping", &[])?;
    ensure!(said.starts_with("CONTROLLER") && said.contains("primary") && said.contains("up"), "{said}");
    let said = user.done("nodes", &[])?;
    ensure!(said.lines().count() == 3 && said.contains("node-2  IDLE"), "{said}");

    let job = slurm.exec_as(
        "tester",
        &["sbatch", "--parsable", "--output=/dev/null", "--nodelist=node-1", "--wrap", "sleep 1000"],
    )?;
    let job = job.trim();
    slurm.wait_for_job(job, &["RUNNING"])?;
    let said = user.done("jobs", &["--node", "node-1"])?;
    ensure!(said.contains(job) && said.contains("tester") && said.contains("RUNNING"), "{said}");
    ensure!(user.done("jobs", &["--node", "node-2"])?.lines().count() == 1, "only the titles");

    let said = user.done("drain", &["node-[1-2]", "--reason", "new disks"])?;
    ensure!(said == "node-1 takes no more jobs\nnode-2 takes no more jobs\n", "{said}");
    let nodes: serde_json::Value = serde_json::from_str(&user.done("nodes", &["--output", "json"])?)?;
    ensure!(nodes[0]["occupancy"] == "busy" && nodes[0]["reason"] == "new disks", "{nodes}");
    ensure!(nodes[0]["jobs"][0] == job.parse::<u64>()? && nodes[1]["occupancy"] == "free", "{nodes}");

    let said = user.slurm("drain", &["node-1", "--reason", "new disks", "--wait", "1"])?;
    ensure!(said.code == 1 && said.err.contains(&format!("node-1: job {job} is on it")), "{}", said.err);
    slurm.exec(&["scancel", job])?;
    let said = user.done("drain", &["node-1", "--reason", "new disks", "--wait", "30"])?;
    ensure!(said.ends_with("node-1 is free\n"), "{said}");
    ensure!(user.done("resume", &["node-[1-2]"])?.contains("node-2 takes jobs again"));
    ensure!(!user.done("nodes", &[])?.contains("DRAIN"));

    let said = user.slurm("drain", &["nobody,node-2", "--reason", "x"])?;
    ensure!(said.code == 1 && said.err == "error: Slurm has no such node: nobody\n", "{}", said.err);
    ensure!(said.out == "node-2 takes no more jobs\n", "{}", said.out);
    tokens_are_made_and_used(&user, &folder)?;
    what_is_wrong_is_told(&user, &folder)
}

#[test]
fn the_command_works_on_slurm_24_11() -> Result<()> {
    the_command_works(Version::V24_11)
}

#[test]
fn the_command_works_on_slurm_26_05() -> Result<()> {
    the_command_works(Version::V26_05)
}

fn tokens_are_made_and_used(user: &User, folder: &Path) -> Result<()> {
    let key = user.key.to_str().context("a path")?;
    let said = user.run(&["slurm", "token", "--key-file", key, "--user", "tester", "--lifetime", "1h"])?;
    ensure!(said.code == 0 && said.out.starts_with("SLURM_JWT=ey"), "{}", said.err);
    // In a file, as the program printed it.
    let file = folder.join("token");
    std::fs::write(&file, &said.out)?;
    let path = file.to_str().context("a path")?;
    let listed = user.run(&["slurm", "nodes", "--server", &user.server, "--token-file", path])?;
    ensure!(listed.code == 0, "{}", listed.err);
    // In the environment, as after `export $(soperator slurm token ...)`.
    let token = said.out.trim().trim_start_matches("SLURM_JWT=");
    let output = Command::new(&user.program)
        .args(["slurm", "ping", "--server", &user.server])
        .env("SLURM_JWT", token)
        .output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // An ordinary user must not drain.
    let refused = user.run(&[
        "slurm",
        "drain",
        "--server",
        &user.server,
        "--token-file",
        path,
        "node-1",
        "--reason",
        "x",
    ])?;
    ensure!(refused.code == 1 && refused.err.contains("error 2010"), "{}", refused.err);
    Ok(())
}

fn what_is_wrong_is_told(user: &User, folder: &Path) -> Result<()> {
    let server = &user.server;
    let said = user.run(&["slurm", "nodes", "--server", server])?;
    ensure!(said.code == 1 && said.err.contains("give --token-file or --key-file"), "{}", said.err);
    let said = user.slurm("drain", &["node-1"])?;
    ensure!(said.code == 2 && said.err.contains("--reason"), "{}", said.err);
    let other = folder.join("other.key");
    std::fs::write(&other, (0..32).collect::<Vec<u8>>())?;
    let other = other.to_str().context("a path")?;
    let said = user.run(&["slurm", "nodes", "--server", server, "--key-file", other])?;
    ensure!(said.code == 1 && said.err.contains("does not accept the token"), "{}", said.err);
    let said = user.run(&["slurm", "ping", "--server", server, "--key-file", other])?;
    ensure!(said.code == 1 && said.err.contains("no controller answers"), "{}", said.err);
    let key = user.key.to_str().context("a path")?;
    let said = user.run(&["slurm", "nodes", "--server", "http://127.0.0.1:1", "--key-file", key])?;
    ensure!(
        said.code == 1 && said.err.contains("cannot reach slurmrestd at http://127.0.0.1:1"),
        "{}",
        said.err
    );
    Ok(())
}
