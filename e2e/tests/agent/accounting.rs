//! Accounting: slurmdbd, a database of our own, and a slurmctld that comes before both.

use anyhow::Result;
use rig::slurm::Version;
use slurm::agent::{command, path};

use crate::for_both_versions;
use crate::lab::{ACCOUNTING, ACCOUNTING_POD, Container, DATABASE, Lab};

for_both_versions!(
    jobs_run_before_slurmdbd_is_there_and_are_accounted_later,
    a_database_that_was_lost_is_told_and_somebody_decides,
);

const SLURMDBD_CONF: &str = "\
AuthType=auth/munge
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=/var/spool/slurmdbd/jwt_hs256.key
SlurmUser=root
LogFile=/dev/null
PidFile=/var/run/slurmdbd.pid
DbdHost=accounting
StorageType=accounting_storage/mysql
StorageHost=c-acct-db
StorageUser=slurm
";

fn set_password(lab: &Lab, of_database: &str, of_slurmdbd: &str) -> Result<()> {
    lab.mount("database-password", &[("password", of_database.as_bytes())])?;
    lab.mount("database-root-password", &[("password", b"root's")])?;
    let conf = format!("{SLURMDBD_CONF}StoragePass={of_slurmdbd}\n");
    lab.mount("slurmdbd-configs", &[("slurmdbd.conf", conf.as_bytes())])
}

fn database(lab: &Lab) -> Result<Container<'_>> {
    lab.pod(&DATABASE)?;
    let volumes = [
        ("database-password", "/mnt/database-password"),
        ("database-root-password", "/mnt/database-root-password"),
    ];
    lab.container(&DATABASE, command::MARIADB, &[], &volumes)
}

fn accounted(controller: &Container<'_>, job: &str, state: &str) -> Result<bool> {
    let said = controller.exec(&[
        "sacct",
        "--noheader",
        "--allocations",
        "--parsable2",
        "--jobs",
        job,
        "--format=jobid,state",
    ])?;
    Ok(said.trim() == format!("{job}|{state}"))
}

fn jobs_run_before_slurmdbd_is_there_and_are_accounted_later(version: Version) -> Result<()> {
    let lab = Lab::start(version)?;
    set_password(&lab, "fir'st", "fir'st")?;
    lab.mount_conf(ACCOUNTING)?;
    let controller = lab.controller()?;
    let worker = lab.worker(&[], &[])?;
    worker.wait_until_ready()?;
    controller.wait_until_ready()?;
    let config = controller.state()?.config.unwrap_or_default();
    assert_eq!((config.in_use == config.seen, config.refused), (true, None));
    controller.wait_for_state("it tells what it waits for", |state| {
        state.waiting_for.as_deref().is_some_and(|what| what.starts_with("slurmdbd: "))
    })?;
    let before = controller.submit("true")?;
    controller.wait_for_job(&before, &["COMPLETED"])?;
    let during = controller.submit("sleep 15")?;
    controller.wait_for_job(&during, &["RUNNING"])?;

    lab.pod(&ACCOUNTING_POD)?;
    let slurmdbd = lab.container(
        &ACCOUNTING_POD,
        command::SLURMDBD,
        &[],
        &[("slurmdbd-configs", "/mnt/slurmdbd-configs")],
    )?;
    slurmdbd.wait_for_state("it waits for the database", |state| {
        state.waiting_for.as_deref().is_some_and(|what| what.starts_with("the database: c-acct-db"))
    })?;
    let database = database(&lab)?;
    database.wait_until_ready()?;
    slurmdbd.wait_until_ready()?;
    controller
        .wait_for_state("the cluster is registered", |state| state.waiting_for.is_none() && state.running)?;
    controller.wait_until_ready()?;
    controller
        .wait_until("the job from before is accounted", || accounted(&controller, &before, "COMPLETED"))?;
    controller
        .wait_until("the job over it all is accounted", || accounted(&controller, &during, "COMPLETED"))?;
    assert_eq!(worker.state()?.restarts, 0);
    worker.wait_until("the node has the configuration, too", || {
        Ok(worker.exec(&["scontrol", "show", "config"])?.contains("AccountingStorageHost   = c-accounting\n"))
    })?;
    let clusters =
        controller.exec(&["sacctmgr", "--noheader", "--parsable2", "show", "cluster", "format=cluster"])?;
    assert_eq!(clusters.trim(), "c");
    assert_eq!(
        lab.machine().exec(&["stat", "--format=%a", "/pods/accounting/spool/jwt_hs256.key"])?.trim(),
        "600"
    );

    // A new password, first wrong for slurmdbd.
    set_password(&lab, "second", "wrong")?;
    slurmdbd.wait_for_state("it tells what the database says", |state| {
        state.last_error.as_deref().is_some_and(|error| error.contains("Access denied"))
    })?;
    let after = controller.submit("true")?;
    controller.wait_for_job(&after, &["COMPLETED"])?;
    set_password(&lab, "second", "second")?;
    slurmdbd.wait_until_ready()?;
    controller.wait_until("the job is accounted", || accounted(&controller, &after, "COMPLETED"))?;
    assert_eq!(database.state()?.restarts, 0, "the server went on");

    // The database starts again with what it has; slurmctld starts again while slurmdbd is down.
    database.stop()?;
    slurmdbd.stop()?;
    controller.stop()?;
    controller.start()?;
    controller.wait_until_ready()?;
    database.start()?;
    slurmdbd.start()?;
    database.wait_until_ready()?;
    slurmdbd.wait_until_ready()?;
    controller
        .wait_until("the first job is still accounted", || accounted(&controller, &before, "COMPLETED"))?;
    let processes = database.exec(&["ls", path::DATABASE])?;
    assert_eq!(processes.trim(), "data", "nothing is left of the installation");
    Ok(())
}

fn a_database_that_was_lost_is_told_and_somebody_decides(version: Version) -> Result<()> {
    let lab = Lab::start(version)?;
    set_password(&lab, "first", "first")?;
    lab.mount_conf(ACCOUNTING)?;
    let database = database(&lab)?;
    lab.pod(&ACCOUNTING_POD)?;
    let volumes = [("slurmdbd-configs", "/mnt/slurmdbd-configs")];
    let slurmdbd = lab.container(&ACCOUNTING_POD, command::SLURMDBD, &[], &volumes)?;
    slurmdbd.wait_until_ready()?;
    let controller = lab.controller()?;
    let worker = lab.worker(&[], &[])?;
    worker.wait_until_ready()?;
    controller.wait_until_ready()?;
    let job = controller.submit("sleep 600")?;
    controller.wait_for_job(&job, &["RUNNING"])?;

    slurmdbd.stop()?;
    database.stop()?;
    lab.machine().exec(&["bash", "-c", "rm -rf /pods/database/spool/*"])?;
    database.start()?;
    database.wait_until_ready()?;
    slurmdbd.start()?;
    slurmdbd.wait_until_ready()?;
    controller.stop()?;
    controller.start()?;
    controller.wait_for_state("it tells of the mismatch", |state| state.cluster_mismatch.is_some())?;
    let state = controller.state()?;
    let mismatch = state.cluster_mismatch.unwrap_or_default();
    assert_eq!(mismatch.file, "/var/spool/slurmctld/clustername");
    assert!(mismatch.words.contains("Remove"), "{}", mismatch.words);
    assert_eq!(state.config.and_then(|config| config.refused), None, "the configuration is not to blame");

    controller.exec(&["rm", &mismatch.file])?;
    controller.wait_for_state("slurmctld runs", |state| state.running && state.cluster_mismatch.is_none())?;
    controller.wait_until_ready()?;
    controller.wait_for_job(&job, &["RUNNING"])?;
    controller.exec(&["scancel", &job])?;
    let new = controller.submit("true")?;
    controller.wait_until("a new job is accounted", || accounted(&controller, &new, "COMPLETED"))?;
    let mode = lab.machine().exec(&["stat", "--format=%a", "/pods/controller/spool"])?;
    assert_eq!(mode.trim(), "711", "nobody else may write to the state");
    assert!(!controller.logs().contains("WORLD WRITABLE"), "{}", controller.logs());
    Ok(())
}
