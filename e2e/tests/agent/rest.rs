//! slurmrestd: who it is, and what it answers.

use anyhow::{Context, Result};
use rig::slurm::Version;
use slurm::agent::{command, env};

use crate::for_both_versions;
use crate::lab::{Lab, REST};

for_both_versions!(slurmrestd_answers_and_follows_the_configuration);

fn slurmrestd_answers_and_follows_the_configuration(version: Version) -> Result<()> {
    let lab = Lab::start(version)?;
    let controller = lab.controller()?;
    controller.wait_until_ready()?;
    lab.pod(&REST)?;
    let rest = lab.container(
        &REST,
        command::SLURMRESTD,
        &[(env::PORT, "6821"), (env::REST_THREADS, "3"), (env::REST_CONNECTIONS, "10")],
        &[],
    )?;
    rest.wait_until_ready()?;
    let user = rest.exec(&["ps", "-C", "slurmrestd", "--format", "user=,args="])?;
    assert!(user.starts_with("www-data") && user.contains(" -t 3 --max-connections 10 :6821"), "{user}");

    let get = |path: &str| -> Result<String> {
        let token = controller.exec(&["scontrol", "token", "lifespan=600"])?;
        let token = token.trim().strip_prefix("SLURM_JWT=").context("no token")?.to_owned();
        let script = format!(
            "exec 3<>/dev/tcp/10.9.0.51/6821; printf 'GET {path} HTTP/1.1\\r\\nHost: a\\r\\nConnection: close\\r\\nX-SLURM-USER-TOKEN: {token}\\r\\n\\r\\n' >&3; cat <&3"
        );
        lab.machine().exec(&["bash", "-c", &script])
    };
    rest.wait_until("it answers", || Ok(get("/slurm/v0.0.42/ping")?.contains(" 200 OK")))?;
    assert!(get("/slurmdb/v0.0.42/clusters")?.contains(" 404 "), "there is no accounting");

    // A set that no command can read is not taken; the next one is.
    lab.mount_conf("MaxJobCount=many\n")?;
    rest.wait_for_state("the set is not taken", |state| {
        state.last_error.as_deref().is_some_and(|error| error.contains("is not a valid number"))
    })?;
    // slurmctld tries the set, too, and is away for a moment.
    rest.wait_until("it answers still", || Ok(get("/slurm/v0.0.42/ping")?.contains(" 200 OK")))?;
    let before = rest.exec(&["pgrep", "--exact", "slurmrestd"])?;
    lab.mount_conf("MaxJobCount=777\n")?;
    rest.wait_until("slurmrestd is started with the new set", || {
        Ok(rest.exec(&["pgrep", "--exact", "slurmrestd"])? != before)
    })?;
    rest.wait_until("it answers", || Ok(get("/slurm/v0.0.42/ping")?.contains(" 200 OK")))?;
    assert_eq!(rest.state()?.restarts, 0);
    rest.stop()
}
