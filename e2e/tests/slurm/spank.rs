//! Our SPANK plugins in real slurmstepds.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result};
use e2e::on_both_slurm_versions;
use rig::SlurmMachine;
use rig::cache::{Cache, key_of};
use rig::slurm::{Options, Version};

on_both_slurm_versions!(what_the_plugins_know_of_slurm_is_what_its_headers_say);

const PLUGSTACK: &str = "plugstack.conf";
const TRACE: &str = "/tmp/ran";

/// Where slurmstepd writes.
const LOG: &str = "/var/log/slurmd.log";

/// Runs steps of all kinds that leave a trace, and tells which have. Of root, too, so that it is not missing rights that keep a
/// command from running.
fn leave_traces(slurm: &SlurmMachine) -> Result<Vec<&'static str>> {
    let mut ran = Vec::new();
    let trace = slurm.path(TRACE);
    let batch = ["sbatch", "--wait", "--no-requeue", "--output=/dev/null", "--wrap", "touch /tmp/ran"];
    let steps: [(&str, &str, &[&str]); 4] = [
        ("a step", "tester", &["srun", "touch", TRACE]),
        ("a step of root", "root", &["srun", "touch", TRACE]),
        ("an interactive step", "tester", &["salloc", "srun", "--interactive", "touch", TRACE]),
        ("a batch script", "tester", &batch),
    ];
    for (kind, user, command) in steps {
        slurm.wait_for_node("node-1", &["idle"])?;
        let output = slurm.command_as(user, command).output()?;
        let has_run = trace.exists();
        if has_run {
            fs::remove_file(&trace)?;
            ran.push(kind);
        }
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.success(), has_run, "{kind}: {told}");
        // A batch job that could not start may take its node out of use.
        slurm.exec(&["scontrol", "update", "NodeName=node-1", "State=RESUME"]).ok();
    }
    Ok(ran)
}

#[test]
fn a_step_that_cannot_enter_the_jail_fails_and_runs_nothing_in_24_11() -> Result<()> {
    a_step_that_cannot_enter_the_jail_fails(Version::V24_11)
}

#[test]
fn a_step_that_cannot_enter_the_jail_fails_and_runs_nothing_in_26_05() -> Result<()> {
    a_step_that_cannot_enter_the_jail_fails(Version::V26_05)
}

fn a_step_that_cannot_enter_the_jail_fails(version: Version) -> Result<()> {
    let log = format!("SlurmdLogFile={LOG}");
    let slurm = SlurmMachine::start(Options::new(version).nodes(1).file(PLUGSTACK, "").extra_conf(&log))?;
    assert_eq!(leave_traces(&slurm)?.len(), 4, "without the plugin all leave traces");
    // One that is not there, and one that is no mount.
    for jail in ["/no/jail", "/tmp"] {
        slurm.write_conf(PLUGSTACK, &format!("required chroot.so {jail}\n"))?;
        assert_eq!(leave_traces(&slurm)?, Vec::<&str>::new(), "the jail is {jail}");
        let log = fs::read_to_string(slurm.path(LOG))?;
        assert!(log.contains(&format!("the step cannot enter the jail {jail}: ")), "{log}");
    }
    Ok(())
}

#[test]
fn all_that_a_task_has_logged_is_there_when_its_step_is_over() -> Result<()> {
    for version in Version::ALL {
        let plugins = "required spanknccldebug.so enabled=1 out-file=1 out-dir=/tmp/logs\n";
        let slurm = SlurmMachine::start(Options::new(version).nodes(1).file(PLUGSTACK, plugins))?;
        for round in 0..5 {
            // The last process of the step writes as much as a pipe holds, and ends at once.
            slurm.exec_as("tester", &["srun", "sh", "-c", "exec seq 10000 > $NCCL_DEBUG_FILE"])?;
            let lines = slurm.exec(&["sh", "-c", "cat /tmp/logs/*.out | wc -l; rm /tmp/logs/*.out"])?;
            assert_eq!(lines.trim(), "10000", "{version}, round {round}");
        }
        assert_eq!(slurm.exec(&["sh", "-c", "ls -d /tmp/.nccld-* 2>/dev/null; true"])?, "", "pipes are gone");
    }
    Ok(())
}

/// The headers of the Slurm that a machine runs, from Debian's packages.
fn headers(version: Version, release: &str) -> Result<PathBuf> {
    let suite = match version {
        Version::V24_11 => "trixie",
        Version::V26_05 => "forky",
    };
    // Nothing is installed: mmdebstrap knows Debian's mirrors and checks signatures. An index may be old (images/*/recipe.yaml).
    let script = "set -e; mmdebstrap --quiet --format=null --variant=custom --aptopt='Acquire::Min-ValidTime \"7776000\"' \
                  --customize-hook=\"cd $2; APT_CONFIG=\\$MMDEBSTRAP_APT_CONFIG apt-get download libslurm-dev slurm-wlm-basic-plugins-dev\" \
                  \"$1\" none; for package in \"$2\"/*.deb; do dpkg-deb --extract \"$package\" \"$2\"; rm \"$package\"; done";
    let cache = Cache::open()?;
    let key = key_of([release, script]);
    cache.find_or_build(&format!("headers-{}", version.image()), &key, false, &|_| (), |dir| {
        e2e::output_of(Command::new("sh").args(["-c", script, "sh", suite]).arg(dir), None).map(drop)
    })
}

fn what_the_plugins_know_of_slurm_is_what_its_headers_say(slurm: &SlurmMachine) -> Result<()> {
    let told = slurm.exec(&["sinfo", "--version"])?;
    let release = told.split_whitespace().last().context("a version")?;
    let headers = headers(slurm.version(), release)?.join("usr/include");
    let compile = |source: &str| {
        let mut cc = Command::new("cc");
        cc.args(["-fsyntax-only", "-Wall", "-Werror", "-x", "c", "-I"]).arg(&headers).arg("-");
        e2e::output_of(&mut cc, Some(source))
    };
    let number = release.replace('.', ",").replace(",0", ",");
    let same = format!("_Static_assert(SLURM_VERSION_NUMBER == SLURM_VERSION_NUM({number}), \"\");\n");
    let source = spank::abi::check() + &same;
    compile(&source)?;
    let wrong = source.replace("S_TASK_GLOBAL_ID == 12", "S_TASK_GLOBAL_ID == 13");
    let error = compile(&wrong).err().context("a wrong number is not noticed")?.to_string();
    assert!(error.contains("S_TASK_GLOBAL_ID is another number"), "{error}");
    Ok(())
}
