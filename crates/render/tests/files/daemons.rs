//! Real daemons of both versions take what is rendered, and run jobs with it.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result, ensure};
use rig::SlurmMachine;
use rig::slurm::{Options, Running, Version};

use crate::cases::{ALL, CPU, Case, FULL, case, worker};

const SLURMCTLD: &str = "slurmctld";

/// What differs in the machine of the test: names, users and paths.
const MACHINE: &str = "\
SlurmctldHost=slurm(127.0.0.1)
SlurmUser=slurm
AuthAltParameters=jwt_key=/etc/slurm/jwt_hs256.key
SlurmctldPidFile=/run/slurm/slurmctld.pid
AccountingStorageHost=127.0.0.1
AccountingStoragePort=6819
";

/// What makes jobs run without privileges and without a jail, and two slurmds on one machine; and an image without PMIx.
const WORKERS: &str = "\
SlurmdSpoolDir=/var/spool/slurmd-%n
SlurmdPidFile=/run/slurm/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
PlugStackConfig=/dev/null
DefMemPerNode=0
";

/// Writes the effective set and nothing else.
fn write(machine: &SlurmMachine, files: &BTreeMap<String, String>) -> Result<()> {
    for entry in fs::read_dir(machine.path("/etc/slurm"))? {
        let entry = entry?;
        let is_conf = entry.path().extension().is_some_and(|extension| extension == "conf");
        if is_conf && entry.file_name() != "slurmdbd.conf" && entry.file_type()?.is_file() {
            fs::remove_file(entry.path())?;
        }
    }
    files.iter().try_for_each(|(name, text)| machine.write_conf(name, text))
}

fn start(machine: &SlurmMachine, case: &Case) -> Result<()> {
    if machine.running(SLURMCTLD) == Some(Running::Yes) {
        machine.stop(SLURMCTLD)?;
    }
    machine.forget_state()?;
    write(machine, &case.files())?;
    match machine.running(SLURMCTLD) {
        None => machine.start_slurmctld(),
        Some(_) => machine.start_again(SLURMCTLD),
    }
}

/// Without what needs another image or Slurm: plugins for networks and file systems, and metrics, which 24.11 does not have.
fn plain(name: &str) -> Case {
    let mut case = case(name);
    let nodes = &mut case.cluster.spec.slurm_nodes;
    nodes.controller.open_metrics = None;
    nodes.accounting.slurm_config.acct_gather_interconnect_type = None;
    nodes.accounting.slurm_config.acct_gather_filesystem_type = None;
    add_settings(&mut case, MACHINE);
    case
}

fn add_settings(case: &mut Case, settings: &str) {
    let text = case.cluster.spec.custom_slurm_config.get_or_insert_default();
    text.push('\n');
    text.push_str(settings);
}

fn shown(machine: &SlurmMachine) -> Result<BTreeMap<String, String>> {
    let text = machine.exec(&["scontrol", "show", "config"])?;
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    Ok(pairs.map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned())).collect())
}

#[test]
fn slurmctld_starts_with_every_case_and_reads_what_is_meant() -> Result<()> {
    for version in Version::ALL {
        let machine = SlurmMachine::start(Options::nothing_started(version).accounting())?;
        for name in ALL {
            for with_workers in [true, false] {
                let mut case = plain(name);
                if !with_workers {
                    case.facts.node_sets.clear();
                }
                start(&machine, &case).with_context(|| format!("Slurm {version}, case {name}"))?;
                let shown = shown(&machine)?;
                let cluster = case.cluster.metadata.name.clone().unwrap_or_default();
                for (key, value) in [
                    ("ClusterName", cluster.as_str()),
                    ("KillWait", "180 sec"),
                    ("MaxNodeCount", "1024"),
                    ("SlurmctldParameters", "enable_configless,conmgr_max_connections=512"),
                    ("StateSaveLocation", "/var/spool/slurmctld"),
                    ("PreemptType", "preempt/partition_prio"),
                ] {
                    assert_eq!(shown.get(key).map(String::as_str), Some(value), "{version} {name} {key}");
                }
                let log = machine.logs(SLURMCTLD);
                for complaint in ["more than once", "defunct", "Unrecognized", "outside of the suggested"] {
                    ensure!(!log.contains(complaint), "Slurm {version}, case {name}: {complaint}\n{log}");
                }
            }
        }
        let nodes = machine.exec(&["scontrol", "show", "nodes", "--oneliner"]);
        ensure!(nodes.is_err() || !nodes?.contains("gpu-0"), "the last case has no nodes");
    }
    Ok(())
}

#[test]
fn nodes_of_a_node_set_are_where_its_partition_looks_for_them() -> Result<()> {
    for version in Version::ALL {
        let machine = SlurmMachine::start(Options::nothing_started(version).accounting())?;
        let case = plain(FULL);
        start(&machine, &case)?;
        let partition = machine.exec(&["scontrol", "show", "partition", "gpu", "--oneliner"])?;
        ensure!(partition.contains(" Nodes=gpu-[0-1] "), "Slurm {version}: {partition}");
        let node = machine.exec(&["scontrol", "show", "node", "gpu-1", "--oneliner"])?;
        ensure!(node.contains("NodeAddr=10.0.0.7 "), "Slurm {version}: {node}");
    }
    Ok(())
}

#[test]
fn workers_that_register_themselves_run_jobs_once_the_topology_has_them() -> Result<()> {
    for version in Version::ALL {
        let machine = SlurmMachine::start(Options::nothing_started(version).accounting())?;
        let mut case = plain(CPU);
        add_settings(&mut case, WORKERS);
        case.cluster.spec.custom_cgroup_config = Some("CgroupPlugin=disabled".into());
        case.cluster.spec.plug_stack_config.pyxis.required = false;
        start(&machine, &case)?;
        for (node, port) in [("worker-0", 7001), ("worker-1", 7002)] {
            let conf = format!("Port={port} CPUs=2 RealMemory=1000 Feature=fast,cpu-worker");
            let command = ["/usr/sbin/slurmd", "-D", "-Z", "-N", node, "--conf", &conf];
            machine.start_daemon(&format!("slurmd-{node}"), &command)?;
            let show = ["scontrol", "show", "node", node, "--oneliner"];
            machine.wait_until("the worker is idle", || Ok(machine.exec(&show)?.contains(" State=IDLE")))?;
        }
        let two = ["srun", "--immediate=10", "-N2", "echo", "done"];
        ensure!(
            machine.exec(&two).is_err(),
            "Slurm {version} has learned to do without: simplify topology.rs"
        );
        let workers = vec![worker("worker-0", None), worker("worker-1", None)];
        let set = render::NodeSetFacts { workers, ..render::NodeSetFacts::default() };
        case.facts.node_sets.insert("cpu-worker".into(), set);
        write(&machine, &case.files())?;
        machine.exec(&["scontrol", "reconfigure"])?;
        machine.wait_until("a job runs on both workers", || Ok(machine.exec(&two).is_ok()))?;
        // A new slurmctld knows them still.
        machine.restart(SLURMCTLD)?;
        machine.wait_until("a job runs after a restart", || Ok(machine.exec(&two).is_ok()))?;
        let feature = machine.exec(&["sinfo", "--noheader", "--nodes", "worker-1", "--format", "%f"])?;
        ensure!(feature.contains("fast"), "{feature}");
    }
    Ok(())
}

/// Starts the worker of a line.
fn start_worker(machine: &SlurmMachine, node: &str) -> Result<()> {
    machine.start_daemon(&format!("slurmd-{node}"), &["/usr/sbin/slurmd", "-D", "-N", node])?;
    let show = ["scontrol", "show", "node", node, "--oneliner"];
    machine.wait_until("the worker is idle", || Ok(machine.exec(&show)?.contains(" State=IDLE")))
}

/// Workers that have lines; the number is that of CPUs.
fn set_workers(case: &mut Case, workers: &[(&str, u16)]) {
    let line = |(node, cpus): &(&str, u16)| {
        let port = 7000 + node.bytes().map(u16::from).sum::<u16>();
        let line = format!("Port={port} CPUs={cpus} RealMemory=500");
        let address = Some(std::net::Ipv4Addr::LOCALHOST.into());
        render::WorkerFacts { address, ..worker(node, Some(&line)) }
    };
    let workers = workers.iter().map(line).collect();
    let set = render::NodeSetFacts { workers, ..render::NodeSetFacts::default() };
    case.facts.node_sets.insert("w".into(), set);
}

/// Law, rule 4: why lines come from pods, and that they may then come and go.
#[test]
fn lines_come_and_go_under_the_jobs_of_other_nodes() -> Result<()> {
    for version in Version::ALL {
        let machine = SlurmMachine::start(Options::nothing_started(version).accounting())?;
        let mut case = plain(CPU);
        add_settings(&mut case, WORKERS);
        add_settings(&mut case, "SlurmdParameters=config_overrides");
        case.cluster.spec.custom_cgroup_config = Some("CgroupPlugin=disabled".into());
        case.cluster.spec.plug_stack_config.pyxis.required = false;
        set_workers(&mut case, &[("w-0", 1), ("w-1", 1)]);
        start(&machine, &case)?;
        start_worker(&machine, "w-0")?;
        start_worker(&machine, "w-1")?;
        let job =
            machine.exec(&["sbatch", "--parsable", "-w", "w-0", "-o", "/dev/null", "--wrap", "sleep 600"])?;
        let job = job.trim();
        machine.wait_for_job(job, &["RUNNING"])?;
        let reconfigure = |case: &Case| -> Result<()> {
            write(&machine, &case.files())?;
            machine.exec(&["scontrol", "reconfigure"])?;
            machine.wait_until("slurmctld is back", || {
                Ok(machine.exec(&["scontrol", "ping"])?.contains(" is UP"))
            })
        };
        let runs = |what: &str| -> Result<()> {
            let shown = machine.exec(&["scontrol", "show", "job", job, "--oneliner"])?;
            ensure!(
                shown.contains(" JobState=RUNNING ") && shown.contains(" Restarts=0 "),
                "Slurm {version}, {what}: {shown}"
            );
            Ok(())
        };

        set_workers(&mut case, &[("w-0", 1), ("w-1", 1), ("w-2", 1)]);
        reconfigure(&case)?;
        start_worker(&machine, "w-2")?;
        runs("a node came")?;
        machine.stop("slurmd-w-1")?;
        set_workers(&mut case, &[("w-0", 1), ("w-2", 1)]);
        reconfigure(&case)?;
        runs("a node left")?;
        ensure!(machine.exec(&["scontrol", "show", "node", "w-1"]).is_err(), "w-1 is still there");
        machine.stop("slurmd-w-2")?;
        set_workers(&mut case, &[("w-0", 1), ("w-2", 2)]);
        reconfigure(&case)?;
        runs("a node has other CPUs")?;
        machine.restart(SLURMCTLD)?;
        runs("slurmctld started again")?;

        // The other way round: Slurm ends the jobs of a node that leaves slurm.conf.
        set_workers(&mut case, &[("w-2", 2)]);
        reconfigure(&case)?;
        let shown = machine.exec(&["scontrol", "show", "job", job, "--oneliner"])?;
        ensure!(!shown.contains(" JobState=RUNNING "), "Slurm {version} has learned to keep it: {shown}");
    }
    Ok(())
}
