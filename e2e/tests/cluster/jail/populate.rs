//! The Job that fills the jail, killed under its work.

use std::time::Duration;

use anyhow::{Context as _, Result};
use e2e::cluster::{Cluster, Settings};
use rig::Rig;
use rig::slurm::Version;
use serde_json::json;

/// Claims of its own, and no more than what shows that the jail works.
fn settings(namespace: &str) -> Settings {
    let jail = json!({
        "name": "jail", "createPVC": true, "size": "1Gi", "persistentVolumeClaim": {"claimName": "small-jail"},
    });
    let spool = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let values = json!({
        "volumeSources": [jail],
        "slurmNodes": {
            "accounting": {"enabled": false},
            "worker": {"size": 1},
            "controller": {"volumes": {"spool": {"volumeSourceName": null, "volumeClaimTemplateSpec": spool}}},
        },
    });
    Settings { namespace: namespace.into(), name: "small".into(), values }
}

#[tokio::test]
async fn a_populate_job_that_is_killed_ends_in_a_correct_jail() -> Result<()> {
    let rounds = std::env::var("SOPERATOR_SOAK").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(1);
    let rig = Rig::shared().await?;
    for round in 0..rounds {
        let namespace = rig.namespace(&format!("populate-{round}")).await?;
        let version = if round % 2 == 0 { Version::V24_11 } else { Version::V26_05 };
        let cluster = Cluster::install(rig, version, &settings(namespace.name()))?;
        kill_it(&cluster, round)?;
        cluster.wait_available()?;
        let populated = cluster.condition("JailPopulated")?.context("a condition of the jail")?;
        assert_eq!(populated.status, "True", "{}", populated.message);
        is_whole(&cluster)?;
        assert_eq!(cluster.run("srun hostname")?.trim(), "worker-0");
        cluster.kubectl(&["delete", "slurmcluster", cluster.name(), "--wait=true", "--timeout=120s"])?;
    }
    Ok(())
}

/// Kills the pod of the Job a while after it has begun, a different one in each round.
fn kill_it(cluster: &Cluster, round: u64) -> Result<()> {
    let selector = "app.kubernetes.io/component=populate-jail";
    cluster.wait("the Job works", || {
        let phase = "jsonpath={.items[*].status.phase}";
        Ok(cluster.kubectl(&["get", "pods", "--selector", selector, "--output", phase])?.contains("Running"))
    })?;
    std::thread::sleep(Duration::from_millis(fastrand::Rng::with_seed(round).u64(0..2500)));
    cluster.kubectl(&["delete", "pods", "--selector", selector, "--grace-period=0", "--force"]).map(drop)
}

/// Every file of every package is there, as the package has it; and what the image lacks, the jail lacks, too.
fn is_whole(cluster: &Cluster) -> Result<()> {
    // dpkg tells what differs from the packages: documentation, which images do not have, and little else.
    let verify = "dpkg --verify | grep -v -e /usr/share/doc -e /usr/share/man -e /usr/share/locale -e /usr/share/info \
                  -e /usr/share/lintian | sort";
    let told = cluster.run(verify)?;
    let unexpected: Vec<&str> = told
        .lines()
        // Files that the recipe, the operator or the pod gives, or that the image's clean-up took away.
        .filter(|line| !["/etc/", "/var/", "/run/"].iter().any(|place| line.contains(place)))
        .collect();
    assert!(unexpected.is_empty(), "{unexpected:#?}");
    let links = cluster
        .run("readlink /bin /lib /sbin && stat --format '%a %U' /usr/bin/su /root && getcap /usr/bin/ping")?;
    assert_eq!(
        links.lines().collect::<Vec<_>>(),
        ["usr/bin", "usr/lib", "usr/sbin", "4755 root", "700 root", "/usr/bin/ping cap_net_raw=p"],
        "links, modes and capabilities"
    );
    Ok(())
}
