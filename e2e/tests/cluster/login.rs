//! People who are logged in.

use std::time::Duration;

use anyhow::Result;
use e2e::cluster::{Cluster, OperatorKill};
use serde_json::json;

use crate::on_both_versions;

on_both_versions!(a_login_pod_is_replaced_only_when_nobody_is_logged_in);

fn a_login_pod_is_replaced_only_when_nobody_is_logged_in(cluster: &Cluster) -> Result<()> {
    let before = cluster.pod_uid(&cluster.login())?;
    let session = cluster.ssh().session()?;
    cluster.wait("the session is open", || Ok(cluster.has_session()))?;
    let change = |value: &str| {
        cluster.patch(
            &json!({"slurmNodes": {"login": {"sshd": {"customEnv": [{"name": "E2E", "value": value}]}}}}),
        )
    };
    let followed = |value: &str| {
        change(value)?;
        cluster.wait("the new template is there", || {
            let set = cluster.get("statefulset", &cluster.object("login"))?;
            Ok(set["spec"]["template"].to_string().contains(value))
        })
    };
    // Values that this cluster never had, also when the test runs on it again.
    followed(&format!("{before}-1"))?;
    OperatorKill::within(cluster.rig(), Duration::from_secs(1)).done()?;
    // The new one leads now, and could replace the pod.
    followed(&format!("{before}-2"))?;
    // Long enough for a replacement, which takes a few seconds, to be seen.
    std::thread::sleep(Duration::from_secs(8));
    assert_eq!(cluster.pod_uid(&cluster.login())?, before, "somebody is logged in");
    assert!(cluster.has_session());
    drop(session);
    cluster.wait("the pod is replaced when the session is over", || {
        Ok(cluster.pod_uid(&cluster.login())? != before)
    })?;
    cluster.wait_available()?;
    cluster.wait("users can log in again", || Ok(cluster.run("hostname")?.trim() == cluster.login()))
}
