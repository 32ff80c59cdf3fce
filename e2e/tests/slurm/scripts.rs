//! The scripts of the chart slurm-cluster, rendered by Helm and run by real slurmds.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use anyhow::{Context, Result};
use rig::SlurmMachine;
use rig::cache::Cache;
use rig::slurm::{Options, Version};
use serde_json::Value;

const FOLDER: &str = "/opt/slurm_scripts";
const MEMORY: &str = "/mnt/jail.upper/mnt/memory";
const NODE: &str = "node-1";

/// A check that fails as long as there is no file `/ok`, and one that looks again later.
const MINE: &str = r#"
  a_mine:
    command: "test -e /ok || { echo no ok >&3; exit 1; }"
    contexts: [prolog]
    on_fail: drain
    reason_base: "[node_problem] mine"
    reason_append_details: true
  a_mine_over:
    command: test -e /ok
    contexts: [hc_program]
    node_states: [drain]
    on_ok: undrain
    reason_base: "[node_problem] mine"
"#;

/// The files of the ConfigMap, with these lines as `slurmScripts.checks`.
fn files(checks: &str) -> Result<BTreeMap<String, String>> {
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../helm/slurm-cluster");
    let values = tempfile::NamedTempFile::new()?;
    fs::write(values.path(), format!("slurmScripts:\n  checks:\n{}", checks.replace("\n  ", "\n    ")))?;
    let mut helm = rig::rig::helm(&Cache::open()?, None)?;
    helm.args(["template", "test", "--kube-version", "1.31", "--show-only", "templates/scripts.yaml"]);
    let text = e2e::output_of(helm.arg("--values").arg(values.path()).arg(chart), None)?;
    let object: Value = serde_saphyr::from_str(&text)?;
    Ok(serde_json::from_value(object["data"].clone())?)
}

/// A Slurm with one node whose slurmd runs the scripts.
fn machine(version: Version, checks: &str) -> Result<SlurmMachine> {
    let conf = format!(
        "Prolog={FOLDER}/prolog.sh\nEpilog={FOLDER}/epilog.sh\nPrologFlags=Alloc\n\
         SchedulerParameters=sched_min_interval=0,batch_sched_delay=0,nohold_on_prolog_fail\n\
         SelectTypeParameters=CR_Core_Memory"
    );
    let slurm = SlurmMachine::start(Options::new(version).nodes(1).extra_conf(&conf))?;
    write_scripts(&slurm, checks)?;
    fs::create_dir_all(slurm.path(MEMORY))?;
    // As an emptyDir is.
    fs::set_permissions(slurm.path(MEMORY), fs::Permissions::from_mode(0o777))?;
    Ok(slurm)
}

fn write_scripts(slurm: &SlurmMachine, checks: &str) -> Result<()> {
    fs::create_dir_all(slurm.path(FOLDER))?;
    for (name, text) in files(checks)? {
        let path = slurm.path(&format!("{FOLDER}/{name}"));
        fs::write(&path, text)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    }
    Ok(())
}

/// Runs the health check as slurmd does.
fn health_check(slurm: &SlurmMachine) -> Result<String> {
    let name = format!("SLURMD_NODENAME={NODE}");
    slurm.exec(&["env", "-i", &name, &format!("{FOLDER}/hc_program.sh")])
}

fn node(slurm: &SlurmMachine) -> Result<String> {
    slurm.exec(&["scontrol", "show", "node", NODE])
}

fn batch(slurm: &SlurmMachine, options: &[&str], script: &str) -> Result<String> {
    let head = ["sbatch", "--parsable", "--output", "/tmp/%j.out", "--mem", "100"];
    let job = slurm.exec_as("tester", &[&head[..], options, &["--wrap", script]].concat())?;
    Ok(job.trim().to_string())
}

#[test]
fn a_job_has_a_directory_in_memory_which_goes_with_it() -> Result<()> {
    for version in Version::ALL {
        let slurm = machine(version, "")?;
        let script = "stat --format '%U %a %n' \"$0/job-$SLURM_JOB_ID\"";
        let shown = slurm.exec_as("tester", &["srun", "--mem", "100", "sh", "-c", script, MEMORY])?;
        assert!(shown.starts_with(&format!("tester 700 {MEMORY}/job-")), "{shown}");
        slurm.wait_until("the directory is gone", || Ok(fs::read_dir(slurm.path(MEMORY))?.count() == 0))?;
    }
    Ok(())
}

#[test]
fn directories_of_jobs_that_are_over_are_removed_and_no_others() -> Result<()> {
    for version in Version::ALL {
        let slurm = machine(version, "")?;
        let job = batch(&slurm, &[], "sleep 60")?;
        slurm.wait_for_job(&job, &["RUNNING"])?;
        let (live, old, other) = (format!("{MEMORY}/job-{job}"), format!("{MEMORY}/job-9999"), "/mnt/other");
        fs::create_dir(slurm.path(&old))?;
        fs::create_dir(slurm.path(other))?;
        // Made by a user, to have something else removed.
        std::os::unix::fs::symlink(other, slurm.path(&format!("{MEMORY}/job-9998")))?;
        slurm.stop("slurmctld")?;
        health_check(&slurm)?;
        assert!(slurm.path(&old).exists(), "nothing is known, so nothing is removed");
        slurm.start_again("slurmctld")?;
        health_check(&slurm)?;
        assert!(slurm.path(&live).exists() && slurm.path(other).exists());
        assert!(!slurm.path(&old).exists() && !slurm.path(&format!("{MEMORY}/job-9998")).is_symlink());
    }
    Ok(())
}

#[test]
fn a_check_that_fails_before_a_job_sends_it_back_and_drains_the_node_until_all_is_well() -> Result<()> {
    for version in Version::ALL {
        let slurm = machine(version, MINE)?;
        let job = batch(&slurm, &[], "true")?;
        slurm.wait_for_node(NODE, &["drained"])?;
        let shown = node(&slurm)?;
        assert!(shown.contains("Reason=[node_problem] mine: no ok [prolog]"), "{shown}");
        slurm.wait_for_job(&job, &["PENDING"])?;
        health_check(&slurm)?;
        slurm.wait_for_node(NODE, &["drained"])?;
        fs::write(slurm.path("/ok"), "")?;
        health_check(&slurm)?;
        slurm.wait_for_node(NODE, &["idle"])?;
        // Slurm lets a job that was sent back wait for two minutes.
        slurm.exec(&["scontrol", "update", &format!("JobId={job}"), "StartTime=now"])?;
        slurm.wait_for_job(&job, &["COMPLETED"])?;
    }
    Ok(())
}

#[test]
fn a_node_that_somebody_else_has_drained_stays_so() -> Result<()> {
    for version in Version::ALL {
        let slurm = machine(version, MINE)?;
        fs::write(slurm.path("/ok"), "")?;
        slurm.exec(&["scontrol", "update", &format!("NodeName={NODE}"), "State=DRAIN", "Reason=new disk"])?;
        health_check(&slurm)?;
        let shown = node(&slurm)?;
        assert!(shown.contains("DRAIN") && shown.contains("Reason=new disk"), "{shown}");
    }
    Ok(())
}

#[test]
fn a_job_can_ask_for_no_checks() -> Result<()> {
    for version in Version::ALL {
        let slurm = machine(version, MINE)?;
        let job = batch(&slurm, &["--comment", "skip_checks"], "true")?;
        slurm.wait_for_job(&job, &["COMPLETED"])?;
    }
    Ok(())
}

#[test]
fn a_full_disk_is_told_in_the_comment_of_the_node_which_is_taken_back() -> Result<()> {
    let disk = |most: &str| format!("\n  boot_disk_full: {{ command: sh boot_disk_full.sh {most} }}\n");
    for version in Version::ALL {
        let slurm = machine(version, &disk("-1"))?;
        health_check(&slurm)?;
        let shown = node(&slurm)?;
        assert!(shown.contains("Comment=[node_problem] boot disk is full: "), "{shown}");
        assert!(shown.contains("more than -1% [hc_program]"), "{shown}");
        write_scripts(&slurm, &disk("100"))?;
        health_check(&slurm)?;
        assert!(!node(&slurm)?.contains("Comment="), "{}", node(&slurm)?);
        slurm.exec(&["scontrol", "update", &format!("NodeName={NODE}"), "Comment=of a person"])?;
        health_check(&slurm)?;
        assert!(node(&slurm)?.contains("Comment=of a person"));
    }
    Ok(())
}

#[test]
fn slurmd_itself_runs_the_health_check() -> Result<()> {
    let conf = format!(
        "HealthCheckProgram={FOLDER}/hc_program.sh\nHealthCheckInterval=1\nHealthCheckNodeState=ANY,CYCLE"
    );
    for version in Version::ALL {
        let slurm = SlurmMachine::start(Options::new(version).nodes(1).extra_conf(&conf))?;
        write_scripts(&slurm, "\n  boot_disk_full: { command: sh boot_disk_full.sh -1 }\n")?;
        slurm.wait_until("the node has a comment", || {
            Ok(node(&slurm)?.contains("Comment=[node_problem] boot disk is full: "))
        })?;
    }
    Ok(())
}

#[test]
fn shared_memory_of_a_user_goes_with_the_last_job() -> Result<()> {
    for version in Version::ALL {
        let slurm = machine(version, "")?;
        let files = ["/dev/shm/left", "/dev/shm/folder/left", "/dev/shm/roots"];
        fs::create_dir_all(slurm.path("/dev/shm"))?;
        fs::set_permissions(slurm.path("/dev/shm"), fs::Permissions::from_mode(0o1777))?;
        fs::write(slurm.path(files[2]), "")?;
        let long = batch(&slurm, &[], "sleep 100")?;
        slurm.wait_for_job(&long, &["RUNNING"])?;
        let script = "mkdir -p /dev/shm/folder; touch /dev/shm/left /dev/shm/folder/left";
        let short = batch(&slurm, &[], script)?;
        slurm.wait_for_job(&short, &["COMPLETED"])?;
        slurm.wait_until("its epilog is over", || {
            Ok(!slurm.path(&format!("{MEMORY}/job-{short}")).exists())
        })?;
        assert!(slurm.path(files[0]).exists(), "another job of the user may use it");
        slurm.exec(&["scancel", &long])?;
        slurm.wait_until("files are gone", || Ok(!slurm.path(files[0]).exists()))?;
        assert!(!slurm.path("/dev/shm/folder").exists() && slurm.path(files[2]).exists());
    }
    Ok(())
}

#[test]
fn a_check_gets_what_it_needs_to_know() -> Result<()> {
    let names = "CHECKS_PLATFORM_TAG, CHECKS_NODE_STATE_FLAGS, CHECKS_NODE_REAL_MEM_BYTES, CHECKS_JOB_ALLOC_MEM_BYTES";
    let checks =
        format!("\n  knows: {{ command: env >/tmp/env, contexts: [prolog], need_env: [{names}] }}\n");
    for version in Version::ALL {
        let slurm = machine(version, &checks)?;
        slurm.exec_as("tester", &["srun", "--mem", "300", "true"])?;
        let env = fs::read_to_string(slurm.path("/tmp/env"))?;
        for line in [
            "CHECKS_PLATFORM_TAG=CPU".to_string(),
            format!("CHECKS_NODE_REAL_MEM_BYTES={}", 4000_u64 << 20),
            format!("CHECKS_JOB_ALLOC_MEM_BYTES={}", 300_u64 << 20),
        ] {
            assert!(env.lines().any(|found| found == line), "no {line} in\n{env}");
        }
        assert!(!env.contains("CHECKS_NODE_REASON"), "only what was asked for:\n{env}");
    }
    Ok(())
}

/// There is no GPU here, so `nvidia-smi` is a script.
#[test]
fn checks_of_gpus_run_where_these_gpus_are_and_for_jobs_that_have_them() -> Result<()> {
    let check = |name: &str, more: &str| {
        format!("\n  {name}: {{ command: touch /tmp/{name}, contexts: [prolog], {more} }}")
    };
    let checks = [
        check("all", "platforms: [any]"),
        check("cpu", "platforms: [CPU]"),
        check("eight", "platforms: [8xGPU]"),
        check("two", "platforms: [2xGPU]"),
        check("model", "platforms: [8xH100, 2xH100]"),
        check("gpu_jobs", "skip_for_cpu_jobs: true"),
        check("whole_jobs", "skip_for_partial_gpu_jobs: true"),
        check("reserved", "skip_for_reservation_prefixes: [test-]"),
    ];
    let slurm = machine(Version::V24_11, &checks.concat())?;
    let program = "#!/bin/sh\necho 'GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)'\necho 'GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-2)'\n";
    fs::write(slurm.path("/usr/bin/nvidia-smi"), program)?;
    fs::set_permissions(slurm.path("/usr/bin/nvidia-smi"), fs::Permissions::from_mode(0o755))?;
    let ran = |gpus: &str, reservation: &str| -> Result<Vec<String>> {
        let env = [
            format!("SLURMD_NODENAME={NODE}"),
            "SLURM_JOB_ID=7".into(),
            format!("SLURM_JOB_GPUS={gpus}"),
            format!("SLURM_JOB_RESERVATION={reservation}"),
        ];
        let env: Vec<&str> = env.iter().map(String::as_str).collect();
        let script = format!("{FOLDER}/check_runner.sh");
        slurm.exec(&[&["env", "-i"], &env[..], &["bash", &script, "prolog"]].concat())?;
        let mut found = Vec::new();
        for name in ["all", "cpu", "eight", "two", "model", "gpu_jobs", "whole_jobs", "reserved"] {
            if fs::remove_file(slurm.path(&format!("/tmp/{name}"))).is_ok() {
                found.push(name.to_string());
            }
        }
        Ok(found)
    };
    assert_eq!(ran("", "")?, ["all", "two", "model", "whole_jobs", "reserved"]);
    assert_eq!(ran("0", "")?, ["all", "two", "model", "gpu_jobs", "reserved"]);
    assert_eq!(ran("0,1", "test-1")?, ["all", "two", "model", "gpu_jobs", "whole_jobs"]);
    Ok(())
}

#[test]
fn memory_in_use_is_found_under_both_versions_of_control_groups() -> Result<()> {
    let slurm = machine(Version::V24_11, "")?;
    let gib = 1_u64 << 30;
    let run = |folder: &str, real: u64, job: u64| -> Result<bool> {
        let env = [
            format!("CHECKS_CGROUPS=/tmp/{folder}"),
            format!("CHECKS_NODE_REAL_MEM_BYTES={real}"),
            format!("CHECKS_JOB_ALLOC_MEM_BYTES={job}"),
        ];
        let env: Vec<&str> = env.iter().map(String::as_str).collect();
        let script = format!("sh {FOLDER}/alloc_mem_used.sh 3>&1");
        Ok(slurm.command(&[&["env"], &env[..], &["sh", "-c", &script]].concat()).output()?.status.success())
    };
    let write = |folder: &str, stat: String, max: Option<String>| -> Result<()> {
        fs::create_dir_all(slurm.path(&format!("/tmp/{folder}")))?;
        fs::write(slurm.path(&format!("/tmp/{folder}/memory.stat")), stat)?;
        max.map(|text| fs::write(slurm.path(&format!("/tmp/{folder}/memory.max")), text)).transpose()?;
        Ok(())
    };
    let used = 4 * gib;
    write(
        "v2",
        format!("anon {}\nshmem {gib}\nfile 99999999999\n", used - gib),
        Some(format!("{}", 10 * gib)),
    )?;
    let old = "hierarchical_memory_limit";
    write("v1", format!("rss 1\n{old} {}\ntotal_rss {used}\ntotal_cache 99999999999\n", 10 * gib), None)?;
    write("machine", format!("anon {used}\nshmem 0\n"), Some("max\n".into()))?;
    for folder in ["v1", "v2"] {
        assert!(run(folder, 10 * gib, 5 * gib)?, "{folder}: 4 in use, 5 for the job, 10 in all");
        assert!(!run(folder, 10 * gib, 7 * gib)?, "{folder}: 4 in use, 7 for the job, 10 in all");
        assert!(!run(folder, 10 * gib, 0)?, "{folder}: too much for a node without jobs");
    }
    assert!(run("machine", 10 * gib, 10 * gib)?, "the memory of the machine says nothing about this node");
    assert!(run("absent", 10 * gib, 10 * gib)?, "what is not known harms nobody");
    Ok(())
}

#[test]
fn output_is_kept_and_a_check_that_hangs_is_ended() -> Result<()> {
    let checks = "\n  hangs: { command: echo begin; sleep 100, contexts: [prolog], on_fail: drain, reason_base: hangs, \
                  reason_append_details: true, timeout: 1 }\n";
    let slurm = machine(Version::V26_05, checks)?;
    fs::create_dir_all(slurm.path("/mnt/jail/opt"))?;
    batch(&slurm, &[], "true")?;
    slurm.wait_for_node(NODE, &["drained"])?;
    assert!(node(&slurm)?.contains("Reason=hangs: no answer in 1 s [prolog]"), "{}", node(&slurm)?);
    let log = format!("/mnt/jail/opt/soperator-outputs/slurm_scripts/{NODE}.hangs.prolog.out");
    let text = fs::read_to_string(slurm.path(&log)).context("users read logs in the jail")?;
    assert!(text.contains("hangs prolog job=") && text.contains("\nbegin\n"), "{text}");
    assert_eq!(fs::metadata(slurm.path(&log))?.uid(), 0);
    Ok(())
}
