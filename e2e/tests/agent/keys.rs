//! Keys that rotate while a job runs.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;
use rig::slurm::Version;
use slurm::{Key, KeyKind, Secret, verify_token};

use crate::for_both_versions;
use crate::lab::Lab;

for_both_versions!(new_keys_of_munge_and_of_tokens_end_no_job);

fn new_keys_of_munge_and_of_tokens_end_no_job(version: Version) -> Result<()> {
    let lab = Lab::start(version)?;
    let controller = lab.controller()?;
    let worker = lab.worker(&[], &[])?;
    worker.wait_until_ready()?;
    let job = controller.submit("sleep 12; echo job is done")?;
    controller.wait_for_job(&job, &["RUNNING"])?;
    let token = || controller.exec(&["scontrol", "token", "lifespan=600"]);
    let key = lab.random(32)?;
    let signed_by = |key: &[u8], token: &str| -> Result<()> {
        let token = Secret::from(token.trim().trim_start_matches("SLURM_JWT=").to_owned());
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        verify_token(&token, &Key::from_bytes(KeyKind::Jwt, key.to_vec())?, now)?;
        Ok(())
    };
    assert!(signed_by(&key, &token()?).is_err());

    let unmunge = |credential: &str| e2e::output_of(&mut worker.command(&["unmunge"])?, Some(credential));
    unmunge(&worker.exec(&["munge", "--no-input"])?)?;
    let old = worker.exec(&["munge", "--no-input"])?;
    lab.mount("munge-key", &[("munge.key", &lab.random(64)?)])?;
    lab.mount("rest-jwt-key", &[("rest_jwt.key", &key)])?;
    controller.wait_until("tokens are signed with the new key", || Ok(signed_by(&key, &token()?).is_ok()))?;
    worker.wait_until("munge has the new key", || {
        Ok(unmunge(&old).is_err_and(|error| error.to_string().contains("Invalid credential")))
    })?;
    unmunge(&worker.exec(&["munge", "--no-input"])?)?;
    assert_eq!(worker.state()?.restarts, 0, "slurmd went on");

    controller.wait_for_job(&job, &["COMPLETED"])?;
    assert_eq!(worker.exec(&["cat", &format!("/tmp/{job}.out")])?, "job is done\n");
    let said = controller.exec_as("tester", &["srun", "hostname"])?;
    assert_eq!(said, "worker-0\n", "jobs start with the new key");
    Ok(())
}
