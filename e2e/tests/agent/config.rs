//! The configuration of slurmctld: changed, refused, and kept over restarts.

use anyhow::{Context, Result};
use rig::slurm::Version;
use slurm::agent::AgentState;

use crate::for_both_versions;
use crate::lab::Lab;

for_both_versions!(a_refused_configuration_breaks_nothing_now_or_later);

fn refused(state: &AgentState) -> Option<&str> {
    state.config.as_ref()?.refused.as_deref()
}

fn in_use(state: &AgentState) -> Option<&str> {
    Some(state.config.as_ref()?.in_use.as_str())
}

fn a_refused_configuration_breaks_nothing_now_or_later(version: Version) -> Result<()> {
    let lab = Lab::start(version)?;
    let controller = lab.controller()?;
    let worker = lab.worker(&[], &[])?;
    worker.wait_until_ready()?;
    controller.wait_until_ready()?;
    let first = controller.state()?.config.context("no configuration")?;
    assert_eq!((first.in_use == first.seen, &first.refused), (true, &None));
    let job = controller.submit("sleep 12")?;
    controller.wait_for_job(&job, &["RUNNING"])?;

    // A good one.
    lab.mount_conf("MaxJobCount=777\n")?;
    controller.wait_for_state("the new set is in use", |state| in_use(state) != Some(&first.in_use))?;
    assert!(controller.exec(&["scontrol", "show", "config"])?.contains("MaxJobCount             = 777\n"));
    let good = controller.state()?;
    assert_eq!((refused(&good), good.restarts), (None, 0));

    // A bad one.
    lab.mount_conf("MaxJobCount=many\n")?;
    controller.wait_for_state("the set is refused", |state| refused(state).is_some())?;
    let state = controller.state()?;
    assert!(
        refused(&state).is_some_and(|why| why.contains("MaxJobCount value (many) is not a valid number")),
        "{state:?}"
    );
    assert_eq!(in_use(&state), in_use(&good));
    controller.wait_until_ready()?;
    let config = controller.exec(&["scontrol", "show", "config"])?;
    assert!(config.contains("MaxJobCount             = 777\n"), "commands in the pod see the set in use");

    // A crash, and a new pod, while the bad one is still mounted.
    let slurmctld = controller.exec(&["pgrep", "--exact", "slurmctld"])?;
    controller.exec(&["kill", "-KILL", slurmctld.trim()])?;
    controller.wait_for_state("slurmctld is back", |state| state.running && state.restarts >= 2)?;
    controller.wait_until_ready()?;
    controller.stop()?;
    controller.start()?;
    controller.wait_until_ready()?;
    controller.wait_for_state("the last good set is in use, and the other still refused", |again| {
        (in_use(again), refused(again)) == (in_use(&good), refused(&state))
    })?;
    controller.wait_for_job(&job, &["RUNNING", "COMPLETED"])?;

    // Another good one.
    lab.mount_conf("MaxJobCount=888\n")?;
    controller.wait_for_state("nothing is refused", |state| refused(state).is_none())?;
    assert!(controller.exec(&["scontrol", "show", "config"])?.contains("MaxJobCount             = 888\n"));
    controller.wait_for_job(&job, &["COMPLETED"])?;

    // A new pod whose set is bad from the first moment.
    controller.stop()?;
    lab.mount_conf("TopologyPlugin=topology/nonsense\n")?;
    controller.start()?;
    controller.wait_until_ready()?;
    controller.wait_for_state("the set is refused", |state| {
        refused(state).is_some_and(|why| why.contains("topology"))
    })?;
    assert!(controller.exec(&["scontrol", "show", "config"])?.contains("MaxJobCount             = 888\n"));
    Ok(())
}
