//! Workers: jobs outlive slurmd, and end before the pod does.

use anyhow::{Context, Result};
use rig::slurm::Version;

use crate::for_both_versions;
use crate::lab::Lab;

for_both_versions!(
    a_job_ends_well_although_slurmd_was_killed,
    a_pod_that_stops_drains_its_node_and_waits_for_jobs,
    programs_of_a_supervisord_conf_run_beside_slurmd,
);

const NODE: &str = "worker-0";
const IDLE: &str = "IDLE+DYNAMIC_NORM";

fn a_job_ends_well_although_slurmd_was_killed(version: Version) -> Result<()> {
    let lab = Lab::start(version)?;
    let controller = lab.controller()?;
    let worker = lab.worker(
        &[
            ("INSTANCE_ID", "i-1"),
            ("SLURM_NODE_EXTRA", "{\"id\": \"$INSTANCE_ID\", \"x\": \"$(touch /tmp/hacked)\"}"),
            ("SLURM_FEATURE_red", "worker-[0-3]"),
            ("SLURM_FEATURE_blue", "worker-[4-7]"),
            ("SOPERATOR_NODE_CONF", "CPUs=2"),
        ],
        &[],
    )?;
    worker.wait_until_ready()?;
    let node = controller.node(NODE)?;
    for wanted in [
        " AvailableFeatures=red ",
        "InstanceId=i-1",
        "Extra={\"id\": \"i-1\", \"x\": \"$(touch /tmp/hacked)\"}",
    ] {
        assert!(node.contains(wanted), "{wanted} is not in {node}");
    }
    assert!(worker.exec(&["test", "-e", "/tmp/hacked"]).is_err(), "no shell has seen it");

    let job = controller.submit("sleep 6; echo job is done")?;
    controller.wait_for_job(&job, &["RUNNING"])?;
    worker.wait_for_state("the job's step lives", |state| {
        state.job_steps == Some(vec![format!("{job}.batch")])
    })?;
    let slurmd = worker.exec(&["pgrep", "--exact", "slurmd"])?;
    worker.exec(&["kill", "-KILL", slurmd.trim()])?;
    worker.wait_for_state("slurmd is back", |state| state.running && state.restarts == 1)?;
    let state = worker.state()?;
    assert_eq!(state.last_error.as_deref(), Some("slurmd ended (killed by SIGKILL)"));
    assert_eq!(state.job_steps, Some(vec![format!("{job}.batch")]), "the step did not end with slurmd");
    assert_ne!(worker.exec(&["pgrep", "--exact", "slurmd"])?, slurmd);

    controller.wait_for_job(&job, &["COMPLETED"])?;
    assert_eq!(worker.exec(&["cat", &format!("/tmp/{job}.out")])?, "job is done\n");
    worker.wait_for_state("no step lives", |state| state.job_steps == Some(vec![]))?;
    let processes = worker.exec(&["ps", "-e", "--format", "stat="])?;
    assert!(!processes.contains('Z'), "orphans are reaped: {processes}");
    controller.wait_for_node(NODE, IDLE)
}

fn a_pod_that_stops_drains_its_node_and_waits_for_jobs(version: Version) -> Result<()> {
    let lab = Lab::start(version)?;
    let controller = lab.controller()?;
    let worker = lab.worker(&[], &[])?;
    worker.wait_until_ready()?;
    let job = controller.submit("sleep 5; echo job is done > /var/spool/slurmd/out")?;
    controller.wait_for_job(&job, &["RUNNING"])?;
    worker.exec(&["chmod", "777", "/var/spool/slurmd"])?;

    worker.signal("-TERM")?;
    controller.wait_until("the node drains", || Ok(controller.node(NODE)?.contains("DRAIN")))?;
    assert!(
        controller.node(NODE)?.contains("Reason=slurm-agent: the pod stops"),
        "{}",
        controller.node(NODE)?
    );
    assert!(!worker.has_ended());
    controller.wait_for_job(&job, &["COMPLETED"])?;
    worker.wait_until("the pod has ended", || Ok(worker.has_ended()))?;
    controller.wait_for_node(NODE, "DOWN+DRAIN+DYNAMIC_NORM")?;

    worker.start()?;
    worker.wait_until_ready()?;
    assert_eq!(worker.exec(&["cat", "/var/spool/slurmd/out"])?, "job is done\n");
    controller.wait_for_node(NODE, IDLE)?;
    assert!(
        !controller.node(NODE)?.contains("slurm-agent:"),
        "the reason is not ours: {}",
        controller.node(NODE)?
    );

    // An admin's drain outlives the pod.
    controller.exec(&["scontrol", "update", "NodeName=worker-0", "State=DRAIN", "Reason=disk is broken"])?;
    worker.stop()?;
    worker.start()?;
    worker.wait_until_ready()?;
    let node = controller.node(NODE)?;
    assert!(node.contains("DRAIN") && node.contains("Reason=disk is broken"), "{node}");
    Ok(())
}

const SUPERVISORD: &str = "\
[supervisord]
nodaemon=true

[program:slurmd]
priority=1
command=/opt/bin/slurm/slurmd_entrypoint.sh

[program:helper]
command=/bin/sh -c \"echo helper of %(ENV_K8S_POD_NAME)s runs as $(id -un) with $WORD; exec sleep 1000\"
environment=WORD=\"a word\"
user=nobody
numprocs=2

[program:once]
command=/bin/echo said once
autorestart=false
startsecs=0
";

fn programs_of_a_supervisord_conf_run_beside_slurmd(version: Version) -> Result<()> {
    let lab = Lab::start(version)?;
    let controller = lab.controller()?;
    lab.mount("supervisord", &[("supervisord.conf", SUPERVISORD.as_bytes())])?;
    let worker = lab.worker(&[], &[("supervisord", "/etc/supervisor/conf.d")])?;
    worker.wait_until_ready()?;
    controller.wait_for_node(NODE, IDLE)?;
    assert_eq!(worker.state()?.unsupported, ["program:helper: numprocs"]);
    worker.wait_until("the helper speaks", || {
        Ok(worker.logs().contains("helper: helper of worker-0 runs as nobody with a word\n"))
    })?;
    let helper = worker.exec(&["pgrep", "--exact", "--full", "sleep 1000"])?;
    worker.exec(&["kill", helper.trim()])?;
    worker.wait_until("the helper is started again", || {
        Ok(worker.exec(&["pgrep", "--exact", "--full", "sleep 1000"])? != helper)
    })?;
    assert_eq!(worker.logs().matches("once: said once").count(), 1);
    worker.stop().context("all programs are stopped")
}
